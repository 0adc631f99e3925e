//! One lane from this router to one gateway node: batches in order, one in flight, quick retries, and what happens when the
//! node cannot follow: bodies are dropped, the heads and the receipts are kept and sent on return, so nothing is lost in silence
//! (R-FAN-3, R-FAN-4, R-ACK-3).

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use lapwing_model::ConversationKey;
use lapwing_proto::bus::{self, DeliverResult, deliver_item};

use crate::{Released, aside::Aside};

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub items: usize,
    pub bytes: usize,
    pub batch_items: usize,
    pub batch_bytes: usize,
    pub retries: u32,
    /// Messages whose receipts wait for room.
    pub receipts: usize,
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
            receipts: 16_384,
        }
    }
}

/// Heads that a full batch carries on top.
const HEADS: usize = 16;
/// And receipts, each of which may be of many messages.
const RECEIPTS: usize = 4;

pub struct Lane {
    limits: Limits,
    queue: VecDeque<Queued>,
    bytes: usize,
    /// Conversations whose events were dropped for this node: head and n.
    behind: HashMap<ConversationKey, (u64, u64)>,
    receipts: Aside,
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
            receipts: Aside::new(limits.receipts),
            batch: 0,
            flying: None,
            failures: 0,
            retry_at: 0,
        }
    }

    /// The first batch gets the number behind this one. A node takes a number that it has seen for a batch sent twice, and answers
    /// for it without a look inside.
    pub fn numbered_behind(self, batch: u64) -> Self {
        Self { batch, ..self }
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.behind.is_empty() && self.receipts.is_empty() && self.flying.is_none()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// False: the lane is full, the item's body was dropped and the node will be told the head.
    pub fn push(&mut self, mut item: bus::DeliverItem, of: Option<Arc<Released>>) -> bool {
        let key = key_of(&item);
        let is_event = matches!(item.body, Some(deliver_item::Body::Event(_)));
        let full = self.queue.len() >= self.limits.items || self.bytes >= self.limits.bytes;
        if let Some(deliver_item::Body::Receipt(receipt)) = &mut item.body
            && (full || self.receipts.contains(&key))
        {
            return self.receipts.put(key, std::mem::take(receipt));
        }
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

    /// False: it is none.
    fn keep_receipt(&mut self, item: bus::DeliverItem) -> bool {
        let key = key_of(&item);
        let Some(deliver_item::Body::Receipt(receipt)) = item.body else { return false };
        self.receipts.put(key, receipt)
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
        let room = self.limits.batch_items.saturating_sub(items.len()).clamp(RECEIPTS, HEADS);
        items.extend(self.receipts.take(room).into_iter().map(receipt_item));
        taken
    }

    /// The node answered each item. Refused events are left to a fetch: their heads are sent again.
    pub fn answered(&mut self, results: &[i32], now: u64) -> Missed {
        let Some(Flying { items, of }) = self.flying.take() else { return Vec::new() };
        let mut refused = false;
        self.failures = 0;
        self.retry_at = now;
        let mut missed = Vec::new();
        for (i, item) in items.into_iter().enumerate() {
            let taken = results.get(i).is_some_and(|result| {
                *result == DeliverResult::Ok as i32 || *result == DeliverResult::Disconnected as i32
            });
            if taken {
                if let Some(Some(released)) = of.get(i) {
                    released.fan_out.answered();
                }
            } else if matches!(item.body, Some(deliver_item::Body::Event(_))) {
                self.fall_behind(key_of(&item), item.seq, 0);
                missed.push((key_of(&item), item.seq));
            } else {
                refused |= self.keep_receipt(item);
            }
        }
        if refused || !missed.is_empty() {
            self.retry_at = now + 100;
            self.failures = 0;
        }
        missed
    }

    /// All receipts that the node may not have: of a lane that is given up, for the one that follows it.
    pub fn take_receipts(&mut self) -> Vec<(ConversationKey, bus::Receipt)> {
        let flying = self.flying.take().unwrap_or_default().items;
        let queued = std::mem::take(&mut self.queue).into_iter().map(|queued| queued.item);
        let unsure = flying.into_iter().chain(queued).filter_map(|item| {
            let key = key_of(&item);
            match item.body {
                Some(deliver_item::Body::Receipt(receipt)) => Some((key, receipt)),
                _ => None,
            }
        });
        let mut all: Vec<_> = unsure.collect();
        all.extend(self.receipts.take(usize::MAX));
        self.bytes = 0;
        all
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
            } else {
                self.keep_receipt(item);
            }
        }
        missed
    }
}

fn receipt_item((key, receipt): (ConversationKey, bus::Receipt)) -> bus::DeliverItem {
    bus::DeliverItem {
        tenant: key.tenant.to_string(),
        conversation: key.conversation.to_string(),
        body: Some(deliver_item::Body::Receipt(receipt)),
        ..bus::DeliverItem::default()
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

    // R-FAN-3: a node that was given up and is heard again has seen the numbers of the lanes before. Found by
    // `./dev chaos run router-zombie`.
    #[test]
    fn a_lane_that_follows_another_numbers_its_batches_behind_the_others() {
        let mut lane = Lane::new(Limits::default()).numbered_behind(7 << 32);
        lane.push(event("a", 1), None);
        assert_eq!(lane.next(0).map(|(number, _)| number), Some((7 << 32) + 1));
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

    fn receipt(conversation: &str, seqs: &[u64]) -> bus::DeliverItem {
        let of = bus::ReceiptFor { sender: "ann".into(), seqs: seqs.to_vec(), dead_lettered: vec![] };
        let receipt = bus::Receipt { persisted_seq: seqs[0], senders: vec![of] };
        receipt_item((ConversationKey::new("t", conversation), receipt))
    }

    fn receipts(items: &[bus::DeliverItem]) -> Vec<u64> {
        let of = |item: &bus::DeliverItem| match &item.body {
            Some(deliver_item::Body::Receipt(receipt)) => receipt.senders[0].seqs.clone(),
            _ => Vec::new(),
        };
        items.iter().flat_map(of).collect()
    }

    // R-ACK-3: found by `./dev chaos run kafka-disk-full`, whose load comes in one wave when Kafka is back.
    #[test]
    fn a_receipt_is_lost_neither_by_a_full_lane_nor_by_a_node_that_does_not_take_it() {
        let mut lane = Lane::new(Limits { items: 2, receipts: 4, ..Limits::default() });
        assert!(lane.push(receipt("a", &[1]), None) && lane.push(event("b", 1), None));
        assert!(lane.push(receipt("a", &[2]), None), "full, and kept");
        assert!(lane.push(receipt("a", &[3]), None), "joined");
        assert!(!lane.push(receipt("c", &[1, 2, 3]), None), "bounded");
        assert_eq!(receipts(lane.next(0).unwrap().1), [1, 2, 3]);
        let refused = DeliverResult::HubFull as i32;
        assert!(lane.answered(&[refused, DeliverResult::Ok as i32, refused], 0).is_empty());
        assert!(!lane.is_empty() && lane.next(99).is_none(), "a little later");
        assert_eq!(receipts(lane.next(100).unwrap().1), [1, 2, 3]);
        for _ in 0..4 {
            assert!(lane.failed(100).is_empty());
            lane.next(1000);
        }
        assert_eq!(receipts(lane.next(2000).unwrap().1), [1, 2, 3], "the node is back");
        lane.answered(&ok(1), 2000);
        assert!(lane.is_empty());
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

    // R-ACK-3: what came once is handed on by a lane that is given up, whether it waits, flies or lies aside.
    #[test]
    fn a_lane_that_is_given_up_hands_on_its_receipts() {
        let of = |seq: u64| bus::Receipt {
            persisted_seq: seq,
            senders: vec![bus::ReceiptFor { sender: "ann".into(), seqs: vec![seq], dead_lettered: vec![] }],
        };
        let key = |name: &str| ConversationKey::new("t", name);
        let mut lane = Lane::new(Limits { items: 3, ..Limits::default() });
        assert!(lane.push(event("a", 1), None) && lane.push(receipt_item((key("a"), of(1))), None));
        assert!(lane.next(0).is_some());
        assert!(lane.push(receipt_item((key("b"), of(2))), None));
        (3..5).for_each(|seq| assert!(lane.push(event("a", seq), None)));
        assert!(lane.push(receipt_item((key("c"), of(5))), None), "aside, since the lane is full");
        let mut seqs: Vec<u64> =
            lane.take_receipts().iter().map(|(_, receipt)| receipt.persisted_seq).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, [1, 2, 5]);
        assert!(lane.take_receipts().is_empty());
    }
}
