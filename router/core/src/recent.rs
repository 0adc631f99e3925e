//! What was released lately: gap fetches before the view has it, receipts when MySQL has it, and `lapwing probe`.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use lapwing_model::{ConversationKey, Position};
use lapwing_proto::bus;

use crate::Released;

pub struct Recent {
    max_bytes: usize,
    bytes: usize,
    ring: VecDeque<Arc<Released>>,
    by_key: HashMap<ConversationKey, VecDeque<Arc<Released>>>,
    /// Everything below is in MySQL.
    persisted: u64,
    /// Everything below was told to be so. A persister may be ahead of this owner's own reading.
    told: u64,
    /// Offsets of records that became dead letters and are not told yet.
    dead: BTreeSet<u64>,
}

/// What became persisted of one conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct NowPersisted {
    pub key: ConversationKey,
    pub bucket: u32,
    pub receipt: bus::Receipt,
}

/// Beyond this multiple of the budget even what is not persisted leaves memory: it is in the view and in the log.
const HARD: usize = 8;

impl Recent {
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            bytes: 0,
            ring: VecDeque::new(),
            by_key: HashMap::new(),
            persisted: 0,
            told: 0,
            dead: BTreeSet::new(),
        }
    }

    pub fn push(&mut self, released: Arc<Released>) {
        self.bytes += weight(&released);
        self.by_key.entry(released.key.clone()).or_default().push_back(released.clone());
        self.ring.push_back(released);
    }

    /// Ascending, contiguous in seq.
    pub fn of<'a>(&'a self, key: &ConversationKey) -> impl Iterator<Item = &'a Arc<Released>> + use<'a> {
        self.by_key.get(key).into_iter().flatten()
    }

    pub fn find(&self, key: &ConversationKey, seq: u64) -> Option<&Arc<Released>> {
        self.of(key).find(|released| released.record.seq == seq)
    }

    pub fn persisted(&self) -> u64 {
        self.persisted
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// MySQL has everything below `at`, but for the tombstones. Cumulative: a lost mark heals with the next.
    pub fn mark(&mut self, at: Position, tombstones: &[bus::Tombstone]) -> Vec<NowPersisted> {
        self.dead.extend(tombstones.iter().map(|of| of.offset).filter(|offset| *offset >= self.told));
        self.persisted = self.persisted.max(at.offset);
        self.tell()
    }

    /// What is in memory, in MySQL, and was not told yet.
    pub fn tell(&mut self) -> Vec<NowPersisted> {
        let first = self.ring.partition_point(|released| released.offset < self.told);
        let end = self.ring.partition_point(|released| released.offset < self.persisted);
        let mut order: Vec<NowPersisted> = Vec::new();
        let mut places: HashMap<&ConversationKey, usize> = HashMap::new();
        for released in self.ring.range(first..end.max(first)) {
            self.told = released.offset + 1;
            let place = *places.entry(&released.key).or_insert_with(|| {
                order.push(NowPersisted {
                    key: released.key.clone(),
                    bucket: released.record.bucket,
                    receipt: bus::Receipt::default(),
                });
                order.len() - 1
            });
            let receipt = &mut order[place].receipt;
            receipt.persisted_seq = released.record.seq;
            if released.record.receipt {
                let dead = self.dead.contains(&released.offset);
                note(receipt, &released.record.sender, released.record.seq, dead);
            }
        }
        self.dead = self.dead.split_off(&self.told);
        order
    }

    pub fn shrink(&mut self, view_acked: u64) {
        let safe = view_acked.min(self.persisted);
        while self.bytes > self.max_bytes
            && let Some(first) = self.ring.front()
            && (first.offset < safe || self.bytes > self.max_bytes * HARD)
        {
            let Some(first) = self.ring.pop_front() else { return };
            self.bytes -= weight(&first);
            if let Some(of_key) = self.by_key.get_mut(&first.key) {
                of_key.pop_front();
                if of_key.is_empty() {
                    self.by_key.remove(&first.key);
                }
            }
        }
    }
}

fn weight(released: &Released) -> usize {
    2 * released.event.len() + 300
}

fn note(receipt: &mut bus::Receipt, sender: &str, seq: u64, dead: bool) {
    let found = receipt.senders.iter().position(|of| of.sender == sender);
    let place = found.unwrap_or_else(|| {
        receipt.senders.push(bus::ReceiptFor { sender: sender.to_owned(), ..Default::default() });
        receipt.senders.len() - 1
    });
    let of = &mut receipt.senders[place];
    if dead { of.dead_lettered.push(seq) } else { of.seqs.push(seq) }
}

#[cfg(test)]
mod tests {
    use lapwing_proto::record::Record;

    use super::*;
    use crate::FanOut;

    fn released(offset: u64) -> Arc<Released> {
        let record = Record { seq: offset, sender: "alice".into(), receipt: true, ..Record::default() };
        let at = Position { offset: offset + 1, epoch: 0, index: offset };
        let key = ConversationKey::new("t", "grp.g");
        Arc::new(Released {
            offset,
            after: at,
            key,
            record: Arc::new(record),
            event: vec![0; 10].into(),
            fan_out: FanOut::default(),
        })
    }

    fn at(offset: u64) -> Position {
        Position { offset, epoch: 0, index: 0 }
    }

    // R-ACK-3
    #[test]
    fn a_persister_that_is_faster_than_the_owner_leaves_no_receipt_out() {
        let mut recent = Recent::new(1 << 20);
        recent.push(released(1));
        let dead = bus::Tombstone { offset: 2, ..Default::default() };
        let first = recent.mark(at(4), &[dead]);
        assert_eq!(first[0].receipt.senders[0].seqs, [1]);
        recent.push(released(2));
        recent.push(released(3));
        recent.push(released(4));
        let later = recent.tell();
        assert_eq!(later[0].receipt.persisted_seq, 3);
        assert_eq!(later[0].receipt.senders[0].seqs, [3]);
        assert_eq!(later[0].receipt.senders[0].dead_lettered, [2]);
        assert!(recent.tell().is_empty() && recent.mark(at(4), &[]).is_empty(), "each is told once");
        assert_eq!(recent.mark(at(5), &[])[0].receipt.senders[0].seqs, [4]);
    }
}
