//! Identical overload lines at most once per interval; the count of what was held back goes into the next line.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::mono_ms;

/// `static BUSY: Throttle = Throttle::every_ms(1000);` then
/// `if let Some(suppressed) = BUSY.pass() { warn!(suppressed, "...") }` (R-GW-8).
pub struct Throttle {
    every_ms: u64,
    next_ms: AtomicU64,
    suppressed: AtomicU64,
}

impl Throttle {
    pub const fn every_ms(every_ms: u64) -> Self {
        Self { every_ms, next_ms: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// `Some(n)`: say it now, n were held back since the last time. `None`: held back.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(mono_ms())
    }

    fn pass_at(&self, now: u64) -> Option<u64> {
        let next = self.next_ms.load(Ordering::Relaxed);
        let won = now >= next
            && self
                .next_ms
                .compare_exchange(next, now + self.every_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if won {
            Some(self.suppressed.swap(0, Ordering::Relaxed))
        } else {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-GW-8
    #[test]
    fn one_line_a_second_and_the_count_of_the_rest() {
        let throttle = Throttle::every_ms(1000);
        assert_eq!(throttle.pass_at(10), Some(0));
        assert_eq!(throttle.pass_at(500), None);
        assert_eq!(throttle.pass_at(1009), None);
        assert_eq!(throttle.pass_at(1010), Some(2));
        assert_eq!(throttle.pass_at(2010), Some(0));
    }
}
