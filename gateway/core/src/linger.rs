//! Conversations whose last local session has left: their interest is withdrawn only after a while, since clients
//! come back.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

pub struct Linger<K> {
    time: Duration,
    left: VecDeque<(Instant, K)>,
}

impl<K> Linger<K> {
    pub fn new(time: Duration) -> Self {
        Self { time, left: VecDeque::new() }
    }

    pub fn push(&mut self, key: K, now: Instant) {
        self.left.push_back((now + self.time, key));
    }

    /// The next one whose time is over; whether it is still without sessions is for the caller to see.
    pub fn pop_due(&mut self, now: Instant) -> Option<K> {
        if self.left.front()?.0 > now {
            return None;
        }
        self.left.pop_front().map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_due_after_its_time() {
        let (mut linger, start) = (Linger::new(Duration::from_secs(30)), Instant::now());
        linger.push("a", start);
        linger.push("b", start + Duration::from_secs(1));
        assert_eq!(linger.pop_due(start + Duration::from_secs(29)), None);
        assert_eq!(linger.pop_due(start + Duration::from_secs(30)), Some("a"));
        assert_eq!(linger.pop_due(start + Duration::from_secs(30)), None);
    }
}
