//! Whether this process was stopped a moment ago. What it reads from its sockets then may have lain there for the whole time,
//! and its sender may have sent it again elsewhere: it counts as a retry, however it is marked (R-ACK-4).

use std::sync::atomic::{AtomicU64, Ordering};

/// A tick that comes later than this after the one before says that nothing ran in between. Ticks come each 250 ms.
const STOPPED_MS: u64 = 1000;
/// So long after it woke a process may read what came while it was stopped.
const AFTERMATH_MS: u64 = 2000;

#[derive(Debug)]
pub struct Stall {
    ticked: AtomicU64,
    woke: AtomicU64,
}

impl Stall {
    /// Times are of one monotonic clock.
    pub fn new(now_ms: u64) -> Self {
        Self { ticked: AtomicU64::new(now_ms), woke: AtomicU64::new(0) }
    }

    pub fn tick(&self, now_ms: u64) {
        if self.late(now_ms) {
            self.woke.store(now_ms, Ordering::SeqCst);
        }
        self.ticked.store(now_ms, Ordering::SeqCst);
    }

    /// Whoever comes first after the pause, the ticker or a reader, sees it.
    pub fn lately(&self, now_ms: u64) -> bool {
        let late = self.late(now_ms);
        let woke = self.woke.load(Ordering::SeqCst);
        late || (woke > 0 && now_ms.saturating_sub(woke) < AFTERMATH_MS)
    }

    fn late(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.ticked.load(Ordering::SeqCst)) > STOPPED_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-ACK-4
    #[test]
    fn a_pause_is_seen_before_and_after_the_first_tick_behind_it() {
        let stall = Stall::new(1000);
        stall.tick(1250);
        assert!(!stall.lately(1700));
        assert!(stall.lately(9000), "before the ticker ran");
        stall.tick(9001);
        assert!(stall.lately(9002) && stall.lately(11_000), "what lay in the sockets is read now");
        (0..40).for_each(|i| stall.tick(9251 + i * 250));
        assert!(!stall.lately(11_002));
    }
}
