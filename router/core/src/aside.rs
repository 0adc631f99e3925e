//! Receipts that a node's lane had no room for. Events that are dropped come back by their seq, receipts only from here.

use std::collections::HashMap;

use lapwing_model::ConversationKey;
use lapwing_proto::bus;

pub struct Aside {
    by_key: HashMap<ConversationKey, bus::Receipt>,
    /// In all of them.
    seqs: usize,
    limit: usize,
}

impl Aside {
    pub fn new(limit: usize) -> Self {
        Self { by_key: HashMap::new(), seqs: 0, limit }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(crate) fn contains(&self, key: &ConversationKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Joined with what is here of the same conversation; false: no room, it is lost.
    pub fn put(&mut self, key: ConversationKey, receipt: bus::Receipt) -> bool {
        let seqs = seqs(&receipt);
        if self.seqs + seqs > self.limit {
            return false;
        }
        self.seqs += seqs;
        let kept = self.by_key.entry(key).or_default();
        kept.persisted_seq = kept.persisted_seq.max(receipt.persisted_seq);
        for of in receipt.senders {
            match kept.senders.iter_mut().find(|known| known.sender == of.sender) {
                Some(known) => {
                    known.seqs.extend(of.seqs);
                    known.dead_lettered.extend(of.dead_lettered);
                }
                None => kept.senders.push(of),
            }
        }
        true
    }

    /// Of any conversations, at most so many.
    pub fn take(&mut self, conversations: usize) -> Vec<(ConversationKey, bus::Receipt)> {
        let keys: Vec<_> = self.by_key.keys().take(conversations).cloned().collect();
        let taken: Vec<_> = keys.into_iter().filter_map(|key| self.by_key.remove_entry(&key)).collect();
        self.seqs -= taken.iter().map(|(_, receipt)| seqs(receipt)).sum::<usize>();
        taken
    }
}

fn seqs(receipt: &bus::Receipt) -> usize {
    receipt.senders.iter().map(|of| of.seqs.len() + of.dead_lettered.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sender: &str, seqs: &[u64]) -> bus::Receipt {
        let sender = bus::ReceiptFor { sender: sender.into(), seqs: seqs.to_vec(), dead_lettered: vec![] };
        bus::Receipt { persisted_seq: seqs.iter().copied().max().unwrap_or(0), senders: vec![sender] }
    }

    #[test]
    fn receipts_of_a_conversation_are_joined_and_their_number_is_bounded() {
        let (mut aside, key) = (Aside::new(4), ConversationKey::new("t", "a"));
        assert!(aside.put(key.clone(), of("ann", &[1, 2])) && aside.put(key.clone(), of("ann", &[3])));
        assert!(!aside.put(key.clone(), of("bob", &[4, 5])), "no room");
        assert!(aside.put(key.clone(), of("bob", &[4])));
        assert!(aside.take(0).is_empty() && aside.contains(&key));
        let taken = aside.take(9);
        assert_eq!((taken.len(), taken[0].1.persisted_seq), (1, 4));
        let senders: Vec<_> =
            taken[0].1.senders.iter().map(|of| (of.sender.as_str(), &of.seqs[..])).collect();
        assert_eq!(senders, [("ann", &[1, 2, 3][..]), ("bob", &[4][..])]);
        assert!(aside.is_empty() && aside.put(key, of("ann", &[5, 6, 7, 8])), "the room is free again");
    }
}
