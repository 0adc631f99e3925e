use std::{collections::HashMap, ops::RangeInclusive};

/// How an event stands to what this client has of its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The next one.
    InOrder,
    /// Had been delivered before.
    Duplicate,
    /// One of those that were missing: it came behind a later one.
    Late,
    /// `from..seq` were never delivered nor declared as a gap.
    AfterHole { from: u64 },
    /// The server pushed it without having named the conversation first.
    Unannounced,
}

/// Where delivery of a conversation starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    New,
    Continues,
    /// The server goes on behind what this client has: `from..=to` are missing without a word.
    Skips {
        from: u64,
        to: u64,
    },
}

const MAX_HOLES: usize = 64;

#[derive(Debug, Default)]
struct Line {
    next: u64,
    acked: u64,
    holes: Vec<RangeInclusive<u64>>,
}

/// Checks that each conversation's events come ascending, contiguous and once.
#[derive(Debug, Default)]
pub struct Contiguity {
    lines: HashMap<String, Line>,
}

impl Contiguity {
    pub fn with_cursors<'a>(cursors: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        let line = |seq| Line { next: seq + 1, acked: seq, holes: Vec::new() };
        Self { lines: cursors.into_iter().map(|(c, seq)| (c.to_owned(), line(seq))).collect() }
    }

    /// The server says that events behind `live_after` will be pushed.
    pub fn starts(&mut self, conversation: &str, live_after: u64) -> Start {
        let Some(line) = self.lines.get_mut(conversation) else {
            let line = Line { next: live_after + 1, acked: live_after, holes: Vec::new() };
            self.lines.insert(conversation.to_owned(), line);
            return Start::New;
        };
        if live_after < line.next {
            return Start::Continues;
        }
        let skipped = Start::Skips { from: line.next, to: live_after };
        line.hole(line.next..=live_after);
        line.next = live_after + 1;
        skipped
    }

    pub fn event(&mut self, conversation: &str, seq: u64) -> Order {
        let Some(line) = self.lines.get_mut(conversation) else {
            let line = Line { next: seq + 1, acked: seq.saturating_sub(1), holes: Vec::new() };
            self.lines.insert(conversation.to_owned(), line);
            return Order::Unannounced;
        };
        if seq == line.next {
            line.next += 1;
            return Order::InOrder;
        }
        if seq > line.next {
            let from = line.next;
            line.hole(from..=seq - 1);
            line.next = seq + 1;
            return Order::AfterHole { from };
        }
        if line.fill(seq) { Order::Late } else { Order::Duplicate }
    }

    /// A declared gap: what it covers will not come, and that is no fault.
    pub fn gap(&mut self, conversation: &str, from: u64, to: u64) {
        if let Some(line) = self.lines.get_mut(conversation) {
            if from <= line.next && to >= line.next {
                line.next = to + 1;
            }
        } else {
            let line = Line { next: to + 1, acked: to, holes: Vec::new() };
            self.lines.insert(conversation.to_owned(), line);
        }
    }

    /// Newest seq held, per conversation: what `connect` sends.
    pub fn cursors(&self) -> Vec<(String, u64)> {
        self.lines.iter().map(|(c, line)| (c.clone(), line.next - 1)).collect()
    }

    pub fn cursor(&self, conversation: &str) -> Option<u64> {
        self.lines.get(conversation).map(|line| line.next - 1)
    }

    /// Cursors that moved since they were last taken: what `ack` sends.
    pub fn take_acks(&mut self) -> Vec<(String, u64)> {
        let moved = self.lines.iter_mut().filter(|(_, line)| line.acked + 1 < line.next);
        moved
            .map(|(conversation, line)| {
                line.acked = line.next - 1;
                (conversation.clone(), line.acked)
            })
            .collect()
    }
}

impl Line {
    fn hole(&mut self, range: RangeInclusive<u64>) {
        if self.holes.len() < MAX_HOLES {
            self.holes.push(range);
        }
    }

    fn fill(&mut self, seq: u64) -> bool {
        let Some(at) = self.holes.iter().position(|hole| hole.contains(&seq)) else {
            return false;
        };
        let hole = self.holes.swap_remove(at);
        let (from, to) = hole.into_inner();
        for rest in [from..=seq.saturating_sub(1), seq + 1..=to] {
            if !rest.is_empty() && rest.start() <= rest.end() && self.holes.len() < MAX_HOLES {
                self.holes.push(rest);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I4, R-FAN-7
    #[test]
    fn tells_holes_late_ones_and_duplicates_apart() {
        let mut lines = Contiguity::default();
        assert_eq!(lines.starts("c", 4), Start::New);
        assert_eq!(lines.event("c", 5), Order::InOrder);
        assert_eq!(lines.event("c", 5), Order::Duplicate);
        assert_eq!(lines.event("c", 9), Order::AfterHole { from: 6 });
        assert_eq!(lines.event("c", 7), Order::Late);
        assert_eq!(lines.event("c", 7), Order::Duplicate);
        assert_eq!(lines.event("c", 6), Order::Late);
        assert_eq!(lines.event("c", 8), Order::Late);
        assert_eq!(lines.event("c", 10), Order::InOrder);
        assert_eq!(lines.event("d", 3), Order::Unannounced);
    }

    #[test]
    fn a_declared_gap_is_not_a_hole() {
        let mut lines = Contiguity::default();
        lines.starts("c", 0);
        lines.gap("c", 1, 10);
        assert_eq!(lines.event("c", 11), Order::InOrder);
    }

    #[test]
    fn reconnect_continues_at_the_cursor_and_a_jump_is_seen() {
        let mut lines = Contiguity::with_cursors([("c", 7)]);
        assert_eq!(lines.starts("c", 7), Start::Continues);
        assert_eq!(lines.event("c", 8), Order::InOrder);
        assert_eq!(lines.cursor("c"), Some(8));
        assert_eq!(lines.starts("c", 10), Start::Skips { from: 9, to: 10 });
        assert_eq!(lines.event("c", 11), Order::InOrder);
        assert_eq!(lines.event("c", 9), Order::Late);
    }

    // R-FAN-14
    #[test]
    fn acks_are_cumulative_and_sent_once() {
        let mut lines = Contiguity::default();
        lines.starts("c", 0);
        assert!(lines.take_acks().is_empty());
        (1..=5).for_each(|seq| assert_eq!(lines.event("c", seq), Order::InOrder));
        assert_eq!(lines.take_acks(), [("c".to_owned(), 5)]);
        assert!(lines.take_acks().is_empty());
    }
}
