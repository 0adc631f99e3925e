//! Where a view of one partition is believed to be, and what it is to be told next. The view's own stored position is the
//! truth: whatever it answers, the log from there on repairs it (R-SEQ-4, R-SEQ-9).

use std::{collections::VecDeque, sync::Arc};

use lapwing_model::{Family, Op, Position, view::ops_of};

use crate::Released;

/// Of one record, mostly.
const OPS: usize = 3;

pub struct ViewCursor {
    family: Family,
    /// Where the view is believed to be: the start of the backlog.
    at: Position,
    /// Behind the newest item.
    end: Position,
    backlog: VecDeque<Item>,
    bytes: usize,
    max_bytes: usize,
    busy: Option<Busy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    Call,
    /// A replay or a rebuild is bringing the view to `at`.
    Repair,
}

struct Item {
    after: Position,
    released: Option<Arc<Released>>,
}

/// One section of an apply call.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub family: Family,
    pub expected: Position,
    pub new: Position,
    pub ops: Vec<Op>,
    pub released: Vec<Arc<Released>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// The backlog reaches back far enough.
    Resumed,
    /// The log from here to there has to be read and applied first.
    Replay { from: Position, to: Position },
    /// Beyond what this owner has read: an alarm; it reads on and asks again.
    Ahead(Position),
}

impl ViewCursor {
    pub fn new(family: Family, at: Position, max_bytes: usize) -> Self {
        Self { family, at, end: at, backlog: VecDeque::new(), bytes: 0, max_bytes, busy: None }
    }

    pub fn at(&self) -> Position {
        self.at
    }

    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    pub fn push(&mut self, released: Arc<Released>) {
        if released.offset < self.end.offset {
            return; // The fold started before the view's position.
        }
        self.end = released.after;
        self.bytes += weight(&released);
        self.backlog.push_back(Item { after: released.after, released: Some(released) });
        if self.bytes > self.max_bytes && self.busy != Some(Busy::Call) {
            // Too much to hold while the view is away: it will be read from the log again.
            self.backlog.clear();
            self.bytes = 0;
            self.at = self.end;
        }
    }

    /// The owner has read up to here: claims and void records move the position, too.
    pub fn advance(&mut self, to: Position) {
        if to.offset > self.end.offset {
            self.end = to;
            self.backlog.push_back(Item { after: to, released: None });
        }
    }

    /// Something before here was never told: from the view's own position on, the log has to be read again.
    pub fn missed(&mut self, to: Position) {
        if to.offset <= self.end.offset {
            return;
        }
        self.backlog.clear();
        self.bytes = 0;
        (self.at, self.end) = (to, to);
    }

    /// The next section; `beat`: also when there is nothing new, so that a lost view is noticed.
    pub fn next(&mut self, max_records: usize, max_bytes: usize, beat: bool) -> Option<Batch> {
        if self.busy.is_some() || (self.backlog.is_empty() && !beat) {
            return None;
        }
        let most = self.backlog.len().min(max_records);
        let mut batch = Batch {
            family: self.family,
            expected: self.at,
            new: self.at,
            ops: Vec::with_capacity(most * OPS),
            released: Vec::with_capacity(most),
        };
        let mut bytes = 0;
        for item in &self.backlog {
            if batch.released.len() >= max_records || bytes > max_bytes {
                break;
            }
            batch.new = item.after;
            if let Some(released) = &item.released {
                ops_of(self.family, &released.key, &released.record, &released.event, &mut batch.ops);
                bytes += released.event.len();
                batch.released.push(released.clone());
            }
        }
        self.busy = Some(Busy::Call);
        Some(batch)
    }

    /// The view took the batch (or had it already).
    pub fn applied(&mut self, new: Position) -> Vec<Arc<Released>> {
        self.busy = None;
        self.forward(new)
    }

    /// No answer: the same batch again, later.
    pub fn unanswered(&mut self) {
        self.busy = None;
    }

    /// The view stands elsewhere.
    pub fn mismatch(&mut self, stored: Position) -> Repair {
        self.busy = None;
        if stored.offset > self.end.offset {
            return Repair::Ahead(stored);
        }
        if stored.offset < self.at.offset {
            self.busy = Some(Busy::Repair); // Until `replayed`.
            return Repair::Replay { from: stored, to: self.at };
        }
        self.forward(stored);
        Repair::Resumed
    }

    /// The view has nothing stored: it has to be rebuilt up to here. Until `replayed`.
    pub fn lost(&mut self) -> Position {
        self.busy = Some(Busy::Repair);
        self.at
    }

    /// The view was brought to where the backlog began then; if that was dropped meanwhile, the next mismatch tells.
    pub fn replayed(&mut self) {
        self.busy = None;
    }

    fn forward(&mut self, to: Position) -> Vec<Arc<Released>> {
        let mut passed = Vec::new();
        if to.offset < self.at.offset {
            return passed; // The backlog was dropped while this call was on its way: the next mismatch tells.
        }
        while let Some(item) = self.backlog.front()
            && item.after.offset <= to.offset
        {
            let Some(item) = self.backlog.pop_front() else { break };
            if let Some(released) = item.released {
                self.bytes -= weight(&released);
                passed.push(released);
            }
        }
        self.at = to;
        passed
    }
}

/// What an item takes in memory, about.
fn weight(released: &Released) -> usize {
    released.event.len() + 600
}

#[cfg(test)]
mod tests {
    use lapwing_model::ConversationKey;
    use lapwing_proto::record::Record;

    use super::*;
    use crate::FanOut;

    fn at(offset: u64) -> Position {
        Position { offset, epoch: 0, index: offset }
    }

    fn released(offset: u64) -> Arc<Released> {
        let record = Arc::new(Record { seq: offset, ..Record::default() });
        let key = ConversationKey::new("t", "grp.g");
        Arc::new(Released {
            offset,
            after: at(offset + 1),
            key,
            record,
            event: vec![0; 100].into(),
            fan_out: FanOut::default(),
        })
    }

    // R-SEQ-4, R-SEQ-9
    #[test]
    fn a_view_that_moved_back_is_replayed_from_its_own_position() {
        let mut view = ViewCursor::new(Family::Commit, at(1), 1 << 20);
        (1..=4).for_each(|offset| view.push(released(offset)));
        let batch = view.next(2, 1 << 20, false).unwrap();
        assert_eq!((batch.expected, batch.new, batch.released.len()), (at(1), at(3), 2));
        assert!(view.next(2, 1 << 20, false).is_none(), "one call in flight");
        assert_eq!(view.applied(batch.new).len(), 2);
        assert_eq!(view.mismatch(at(1)), Repair::Replay { from: at(1), to: at(3) });
        assert!(view.next(9, 1 << 20, true).is_none(), "waits for the replay");
        view.replayed();
        assert_eq!(view.next(9, 1 << 20, false).unwrap().expected, at(3));
        assert_eq!(view.mismatch(at(4)), Repair::Resumed);
        assert_eq!(view.mismatch(at(9)), Repair::Ahead(at(9)));
    }

    // A fold that starts before the view's position must not take the view back.
    #[test]
    fn what_the_view_has_already_is_not_told_again() {
        let mut view = ViewCursor::new(Family::Commit, at(3), 1 << 20);
        (0..=3).for_each(|offset| view.push(released(offset)));
        view.advance(at(2));
        let batch = view.next(9, 1 << 20, false).unwrap();
        assert_eq!((batch.expected, batch.new, batch.released.len()), (at(3), at(4), 1));
    }

    #[test]
    fn a_backlog_over_its_bound_is_left_to_the_log() {
        let mut view = ViewCursor::new(Family::Commit, at(1), 1500);
        (1..=3).for_each(|offset| view.push(released(offset)));
        assert_eq!(view.backlog(), 0);
        let batch = view.next(9, 1 << 20, true).unwrap();
        assert_eq!(batch.expected, at(4));
        assert_eq!(view.mismatch(at(1)), Repair::Replay { from: at(1), to: at(4) });
    }
}
