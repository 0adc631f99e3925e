use std::time::Duration;

use rand::Rng;

/// Waiting times between tries: `first`, then doubled from `base` up to `max`, each with jitter (R-GW-7).
#[derive(Debug, Clone)]
pub struct Backoff {
    pub first: Duration,
    pub base: Duration,
    pub max: Duration,
    tries: u32,
}

impl Backoff {
    pub fn new(first: Duration, base: Duration, max: Duration) -> Self {
        Self { first, base, max, tries: 0 }
    }

    /// Reconnect: at once, then 1, 2, 4, 8 … 30 s.
    pub fn reconnect() -> Self {
        Self::new(Duration::ZERO, Duration::from_secs(1), Duration::from_secs(30))
    }

    /// A refused publish without its own `retry_after_ms`: 100 ms … 3 s (R-GW-4).
    pub fn publish() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_millis(200), Duration::from_secs(3))
    }

    /// The next waiting time without jitter.
    pub fn step(&mut self) -> Duration {
        let wait = match self.tries {
            0 => self.first,
            n => self.base.saturating_mul(1 << (n - 1).min(16)).min(self.max),
        };
        self.tries += 1;
        wait
    }

    /// The next waiting time, spread over 75–125 % so that a thousand clients do not come in step.
    pub fn jittered(&mut self) -> Duration {
        self.step().mul_f64(rand::rng().random_range(0.75..1.25))
    }

    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-GW-7
    #[test]
    fn reconnects_at_once_then_doubles_to_thirty_seconds() {
        let mut backoff = Backoff::reconnect();
        let seconds: Vec<u64> = (0..8).map(|_| backoff.step().as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 30, 30]);
        backoff.reset();
        assert_eq!(backoff.step(), Duration::ZERO);
    }

    // R-GW-4
    #[test]
    fn publish_retries_stay_between_100_ms_and_3_s() {
        let mut backoff = Backoff::publish();
        for _ in 0..50 {
            let wait = backoff.jittered();
            assert!(wait >= Duration::from_millis(75) && wait <= Duration::from_millis(3750), "{wait:?}");
        }
    }
}
