//! Delivered and read cursors: merged by (user, conversation), sent in lots (R-FAN-14).

use std::{collections::HashMap, sync::Arc};

use lapwing_model::ConversationKey;
use lapwing_proto::record::CursorRecord;

#[derive(Default)]
pub struct Cursors {
    moved: HashMap<(ConversationKey, Arc<str>), (u64, u64)>, // read, delivered
    limit: usize,
}

impl Cursors {
    pub fn new(limit: usize) -> Self {
        Self { moved: HashMap::new(), limit }
    }

    /// False: full; the client's next cumulative cursor makes up for it.
    pub fn merge(&mut self, key: &ConversationKey, user: &Arc<str>, read: u64, delivered: u64) -> bool {
        let at = (key.clone(), user.clone());
        if self.moved.len() >= self.limit && !self.moved.contains_key(&at) {
            return false;
        }
        let cursor = self.moved.entry(at).or_default();
        *cursor = (cursor.0.max(read), cursor.1.max(delivered).max(read));
        true
    }

    pub fn len(&self) -> usize {
        self.moved.len()
    }

    pub fn is_empty(&self) -> bool {
        self.moved.is_empty()
    }

    pub fn take(&mut self) -> Vec<(ConversationKey, CursorRecord)> {
        let moved = std::mem::take(&mut self.moved).into_iter();
        moved
            .map(|((key, user), (read_seq, delivered_seq))| {
                let record = CursorRecord {
                    tenant: key.tenant.to_string(),
                    conversation: key.conversation.to_string(),
                    user: user.to_string(),
                    read_seq,
                    read_n: 0,
                    delivered_seq,
                };
                (key, record)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-FAN-14
    #[test]
    fn cursors_merge_to_their_maxima_within_the_limit() {
        let mut cursors = Cursors::new(1);
        let (key, user) = (ConversationKey::new("t", "grp.g"), Arc::from("alice"));
        assert!(cursors.merge(&key, &user, 0, 7) && cursors.merge(&key, &user, 9, 3));
        assert!(cursors.merge(&key, &user, 2, 0));
        assert!(!cursors.merge(&key, &Arc::from("bob"), 1, 1), "full");
        let taken = cursors.take();
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].1.read_seq, taken[0].1.delivered_seq), (9, 9), "what is read was delivered");
        assert!(cursors.is_empty());
    }
}
