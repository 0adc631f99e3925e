//! One lane from this router to one gateway node: batches in order, one in flight, quick retries, and what happens when the
//! node cannot follow: bodies are dropped, the heads are kept and sent on return, so nothing is lost in silence (R-FAN-3, R-FAN-4).

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use lapwing_model::ConversationKey;
use lapwing_proto::bus::{self, DeliverResult, deliver_item};

use crate::Released;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub items: usize,
    pub bytes: usize,
    pub batch_items: usize,
    pub batch_bytes: usize,
    pub retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        // 4096 events and 64 MiB a node over 16 lanes; a batch of 256 events, 256 KiB.
        Self {
            items: 4096 / 16,
            bytes: (64 << 20) / 16,
            batch_items: 256,
            batch_bytes: 256 << 10,
            retries: 3,
        }
    }
}

/// Heads that a full batch carries on top.
const HEADS: usize = 16;

pub struct Lane {
    limits: Limits,
    queue: VecDeque<Queued>,
    bytes: usize,
    /// Conversations whose events were dropped for this node: head and n.
    behind: HashMap<ConversationKey, (u64, u64)>,
    batch: u64,
    flying: Option<Flying>,
    failures: u32,
    retry_at: u64,
}

struct Queued {
    item: bus::DeliverItem,
    /// Whose fan-out this is a part of.
    of: Option<Arc<Released>>,
}

#[derive(Default)]
struct Flying {
    items: Vec<bus::DeliverItem>,
    /// Of the items at the same places; heads at the end have none.
    of: Vec<Option<Arc<Released>>>,
}

/// What a failed or refused delivery left behind, for the log (tenant, conversation, seq).
pub type Missed = Vec<(ConversationKey, u64)>;

impl Lane {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            queue: VecDeque::new(),
            bytes: 0,
            behind: HashMap::new(),
            batch: 0,
            flying: None,
            failures: 0,
            retry_at: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.behind.is_empty() && self.flying.is_none()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// False: the lane is full, the item's body was dropped and the node will be told the head.
    pub fn push(&mut self, item: bus::DeliverItem, of: Option<Arc<Released>>) -> bool {
        let key = key_of(&item);
        let is_event = matches!(item.body, Some(deliver_item::Body::Event(_)));
        let full = self.queue.len() >= self.limits.items || self.bytes >= self.limits.bytes;
        if full || (is_event && self.behind.contains_key(&key)) {
            if is_event {
                self.fall_behind(key, item.seq, of.map_or(0, |of| of.record.n));
            }
            return false;
        }
        self.bytes += size(&item);
        self.queue.push_back(Queued { item, of });
        true
    }

    fn fall_behind(&mut self, key: ConversationKey, seq: u64, n: u64) {
        let head = self.behind.entry(key).or_default();
        *head = (*head).max((seq, n));
    }

    /// The next batch to send, with its number; None while one is in flight, or before the time of the next try.
    pub fn next(&mut self, now: u64) -> Option<(u64, &[bus::DeliverItem])> {
        if now < self.retry_at {
            return None;
        }
        if self.flying.is_some() && self.failures == 0 {
            return None;
        }
        if self.flying.is_none() {
            let taken = self.take();
            if taken.items.is_empty() {
                return None;
            }
            self.batch += 1;
            self.flying = Some(taken);
        }
        self.retry_at = u64::MAX; // Until it is answered or failed.
        self.flying.as_ref().map(|flying| (self.batch, flying.items.as_slice()))
    }

    pub fn retry_at(&self) -> Option<u64> {
        (self.retry_at != u64::MAX && !self.is_empty()).then_some(self.retry_at)
    }

    fn take(&mut self) -> Flying {
        let (mut taken, mut bytes) = (Flying::default(), 0);
        let items = &mut taken.items;
        while items.len() < self.limits.batch_items
            && let Some(next) = self
                .queue
                .pop_front_if(|next| items.is_empty() || bytes + size(&next.item) <= self.limits.batch_bytes)
        {
            bytes += size(&next.item);
            items.push(next.item);
            taken.of.push(next.of);
        }
        self.bytes -= bytes;
        // Beside a busy conversation, too: who is behind must not wait until the queue is empty.
        let room = (self.limits.batch_items - items.len()).max(HEADS);
        let keys: Vec<_> = self.behind.keys().take(room).cloned().collect();
        for key in keys {
            if let Some((head, n)) = self.behind.remove(&key) {
                items.push(head_item(&key, head, n));
            }
        }
        taken
    }

    /// The node answered each item. Refused events are left to a fetch: their heads are sent again.
    pub fn answered(&mut self, results: &[i32], now: u64) -> Missed {
        let Some(Flying { items, of }) = self.flying.take() else { return Vec::new() };
        self.failures = 0;
        self.retry_at = now;
        let mut missed = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let taken = results.get(i).is_some_and(|result| {
                *result == DeliverResult::Ok as i32 || *result == DeliverResult::Disconnected as i32
            });
            if taken {
                if let Some(Some(released)) = of.get(i) {
                    released.fan_out.answered();
                }
            } else if matches!(item.body, Some(deliver_item::Body::Event(_))) {
                self.fall_behind(key_of(item), item.seq, 0);
                missed.push((key_of(item), item.seq));
            }
        }
        if !missed.is_empty() {
            self.retry_at = now + 100;
            self.failures = 0;
        }
        missed
    }

    /// No answer in time: the same batch again, three times quickly; then its bodies are given up, its heads are not.
    pub fn failed(&mut self, now: u64) -> Missed {
        self.failures += 1;
        if self.failures <= self.limits.retries {
            self.retry_at = now + (50 << self.failures);
            return Vec::new();
        }
        let slow = [1000, 5000, 30_000][(self.failures - self.limits.retries - 1).min(2) as usize];
        self.retry_at = now + slow;
        let mut missed = Vec::new();
        for item in self.flying.take().unwrap_or_default().items {
            let n = match &item.body {
                Some(deliver_item::Body::Head(head)) => head.n,
                _ => 0,
            };
            if matches!(item.body, Some(deliver_item::Body::Event(_) | deliver_item::Body::Head(_))) {
                self.fall_behind(key_of(&item), item.seq, n);
                missed.push((key_of(&item), item.seq));
            }
        }
        missed
    }
}

fn head_item(key: &ConversationKey, head: u64, n: u64) -> bus::DeliverItem {
    bus::DeliverItem {
        tenant: key.tenant.to_string(),
        conversation: key.conversation.to_string(),
        seq: head,
        body: Some(deliver_item::Body::Head(bus::Head { head, n })),
        ..bus::DeliverItem::default()
    }
}

fn key_of(item: &bus::DeliverItem) -> ConversationKey {
    ConversationKey::new(item.tenant.as_str(), item.conversation.as_str())
}

fn size(item: &bus::DeliverItem) -> usize {
    let body = match &item.body {
        Some(deliver_item::Body::Event(event)) => event.len(),
        _ => 64,
    };
    body + item.tenant.len() + item.conversation.len() + 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(conversation: &str, seq: u64) -> bus::DeliverItem {
        bus::DeliverItem {
            tenant: "t".into(),
            conversation: conversation.into(),
            seq,
            body: Some(deliver_item::Body::Event(vec![0; 100].into())),
            ..bus::DeliverItem::default()
        }
    }

    fn ok(n: usize) -> Vec<i32> {
        vec![DeliverResult::Ok as i32; n]
    }

    // R-FAN-3: no silent drop; R-FAN-4: a later seq never overtakes.
    #[test]
    fn what_does_not_fit_becomes_a_head_and_later_events_do_not_overtake_it() {
        let mut lane = Lane::new(Limits { items: 2, ..Limits::default() });
        assert!(lane.push(event("a", 1), None) && lane.push(event("b", 1), None));
        assert!(!lane.push(event("a", 2), None), "full");
        let (number, items) = lane.next(0).unwrap();
        assert_eq!((number, items.len()), (1, 3));
        assert_eq!(items[2].body, Some(deliver_item::Body::Head(bus::Head { head: 2, n: 0 })));
        assert!(lane.next(0).is_none(), "one batch in flight");
        assert!(lane.answered(&ok(3), 1).is_empty());
        assert!(lane.is_empty());
    }

    // R-FAN-4: a busy conversation does not hold back what another one is told.
    #[test]
    fn heads_go_out_beside_a_queue_that_is_never_empty() {
        let mut lane = Lane::new(Limits { batch_items: 1, ..Limits::default() });
        lane.push(event("a", 1), None);
        lane.next(0);
        assert_eq!(lane.answered(&[DeliverResult::HubFull as i32], 0).len(), 1);
        assert_eq!(lane.retry_at(), Some(100));
        (1..=3).for_each(|seq| assert!(lane.push(event("b", seq), None)));
        let (_, items) = lane.next(100).unwrap();
        let heads = items.iter().filter(|item| matches!(item.body, Some(deliver_item::Body::Head(_))));
        assert_eq!((items.len(), heads.count()), (2, 1));
    }

    #[test]
    fn a_batch_is_repeated_under_its_number_then_given_up_to_heads() {
        let mut lane = Lane::new(Limits::default());
        lane.push(event("a", 1), None);
        let first = lane.next(0).map(|(number, _)| number);
        for _ in 0..3 {
            assert!(lane.failed(0).is_empty());
            assert!(lane.next(0).is_none(), "backoff");
            assert_eq!(lane.next(1000).map(|(number, _)| number), first);
        }
        assert_eq!(lane.failed(1000).len(), 1);
        assert!(lane.next(1500).is_none());
        let (number, items) = lane.next(2000).unwrap();
        assert_eq!(number, 2);
        assert!(matches!(items[0].body, Some(deliver_item::Body::Head(_))));
        lane.answered(&ok(1), 2000);
        assert!(lane.push(event("a", 2), None), "caught up: bodies again");
    }

    // R-SEQ-5: dispatched is what the nodes said, not what was sent.
    #[test]
    fn an_event_counts_as_dispatched_once_each_node_has_it() {
        let released = Arc::new(Released {
            offset: 7,
            after: lapwing_model::Position { offset: 8, epoch: 1, index: 1 },
            key: ConversationKey::new("t", "a"),
            record: Arc::default(),
            event: vec![0; 100].into(),
            fan_out: crate::FanOut::default(),
        });
        let mut nodes: Vec<_> = (0..2).map(|_| Lane::new(Limits::default())).collect();
        for lane in &mut nodes {
            assert!(lane.push(event("a", 1), Some(released.clone())));
            lane.next(0);
        }
        released.fan_out.sent_to(2);
        assert_eq!(released.fan_out.progress(), (Some(2), 0), "sent is not taken");
        nodes[0].answered(&ok(1), 0);
        nodes[1].answered(&[DeliverResult::HubFull as i32], 0);
        assert_eq!(released.fan_out.progress(), (Some(2), 1), "refused is not taken");
    }
}
