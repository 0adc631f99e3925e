//! The newest events of a conversation, kept by reference: what slow and late sessions of this node miss is mostly here.

use std::{collections::VecDeque, sync::Arc};

use crate::EventFrame;

/// A contiguous run of events, bounded in items and bytes.
#[derive(Default)]
pub struct Ring {
    events: VecDeque<Arc<EventFrame>>,
    bytes: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct RingLimit {
    pub events: usize,
    pub bytes: usize,
}

impl Ring {
    /// Takes the next event in; one that does not follow starts the run anew.
    pub fn push(&mut self, frame: &Arc<EventFrame>, limit: RingLimit) {
        if self.events.back().is_some_and(|last| last.seq + 1 != frame.seq) {
            self.clear();
        }
        self.bytes += frame.len();
        self.events.push_back(frame.clone());
        while self.events.len() > limit.events || self.bytes > limit.bytes {
            let Some(old) = self.events.pop_front() else { break };
            self.bytes -= old.len();
        }
    }

    pub fn clear(&mut self) {
        self.events.clear();
        self.bytes = 0;
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
        let limit = RingLimit { events: 3, bytes: 1000 };
        let mut ring = Ring::default();
        for seq in 1..=5 {
            ring.push(&frame(seq), limit);
        }
        let seqs = |ring: &Ring, from| ring.from(from).map(|event| event.seq).collect::<Vec<_>>();
        assert_eq!(seqs(&ring, 4), [4, 5]);
        assert_eq!(seqs(&ring, 3), [3, 4, 5]);
        assert!(seqs(&ring, 2).is_empty(), "its beginning is gone");
        assert!(seqs(&ring, 6).is_empty());
        ring.push(&frame(8), limit);
        assert_eq!(seqs(&ring, 8), [8]);
        assert!(seqs(&ring, 5).is_empty());
        ring.push(&frame(9), RingLimit { events: 3, bytes: 0 });
        assert_eq!(ring.bytes, 0);
    }
}
