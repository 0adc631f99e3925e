//! The newest events of a conversation, kept by reference: what slow and late sessions of this node miss is mostly here.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::EventFrame;

/// A contiguous run of events, bounded in items and bytes, and by what all runs of the node may hold together.
pub struct Ring {
    events: VecDeque<Arc<EventFrame>>,
    bytes: usize,
    limit: RingLimit,
    shared: Arc<RingBudget>,
}

#[derive(Debug, Clone, Copy)]
pub struct RingLimit {
    pub events: usize,
    pub bytes: usize,
}

/// Bytes of all rings of a node.
#[derive(Debug)]
pub struct RingBudget {
    used: AtomicUsize,
    max: usize,
}

impl RingBudget {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), max })
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Ring {
    pub fn new(limit: RingLimit, shared: Arc<RingBudget>) -> Self {
        Self { events: VecDeque::new(), bytes: 0, limit, shared }
    }

    /// Takes the next event in; one that does not follow starts the run anew.
    pub fn push(&mut self, frame: &Arc<EventFrame>) {
        if self.events.back().is_some_and(|last| last.seq + 1 != frame.seq) {
            self.clear();
        }
        self.bytes += frame.len();
        let used = self.shared.used.fetch_add(frame.len(), Ordering::Relaxed) + frame.len();
        self.events.push_back(frame.clone());
        // Over the node's budget a run keeps its newest event only; who misses more fetches it.
        let most = if used > self.shared.max { 1 } else { self.limit.events };
        while self.events.len() > most || (self.bytes > self.limit.bytes && self.events.len() > 1) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(old) = self.events.pop_front() {
            self.bytes -= old.len();
            self.shared.used.fetch_sub(old.len(), Ordering::Relaxed);
        }
    }

    pub fn clear(&mut self) {
        while !self.events.is_empty() {
            self.drop_oldest();
        }
    }

    pub fn last(&self) -> Option<&Arc<EventFrame>> {
        self.events.back()
    }

    /// The events from `seq` on, if the run holds that one.
    pub fn from(&self, seq: u64) -> impl Iterator<Item = &Arc<EventFrame>> {
        let first = self.events.front().map_or(u64::MAX, |first| first.seq);
        let skip = if seq < first { self.events.len() } else { (seq - first) as usize };
        self.events.iter().skip(skip)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use lapwing_proto::{Message as _, client::Event};

    use super::*;

    pub(crate) fn frame(seq: u64) -> Arc<EventFrame> {
        let event = Event { conversation: "grp.g".into(), seq, n: seq, ..Default::default() };
        EventFrame::decode(event.encode_to_vec().into()).unwrap()
    }

    #[test]
    fn a_ring_is_contiguous_and_bounded() {
        let shared = RingBudget::new(10_000);
        let mut ring = Ring::new(RingLimit { events: 3, bytes: 1000 }, shared.clone());
        for seq in 1..=5 {
            ring.push(&frame(seq));
        }
        let seqs = |ring: &Ring, from| ring.from(from).map(|event| event.seq).collect::<Vec<_>>();
        assert_eq!(seqs(&ring, 4), [4, 5]);
        assert_eq!(seqs(&ring, 3), [3, 4, 5]);
        assert!(seqs(&ring, 2).is_empty(), "its beginning is gone");
        assert!(seqs(&ring, 6).is_empty());
        ring.push(&frame(8));
        assert_eq!(seqs(&ring, 8), [8]);
        assert!(seqs(&ring, 5).is_empty());
        assert_eq!(shared.used(), frame(8).len());
        drop(ring);
        assert_eq!(shared.used(), 0, "given back");
    }

    #[test]
    fn all_rings_together_are_bounded() {
        let (len, limit) = (frame(1).len(), RingLimit { events: 100, bytes: 10_000 });
        let shared = RingBudget::new(4 * len);
        let mut rings: Vec<_> = (0..4).map(|_| Ring::new(limit, shared.clone())).collect();
        for seq in 1..=20 {
            rings.iter_mut().for_each(|ring| ring.push(&frame(seq)));
        }
        assert!(shared.used() <= 5 * len, "{} events", shared.used() / len);
        assert!(rings.iter().all(|ring| ring.last().is_some_and(|last| last.seq == 20)));
    }
}
