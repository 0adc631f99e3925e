//! Token buckets (R-GW-4): one per user, one for this node's share of the cluster's rate.

use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    pub burst: f64,
}

#[derive(Debug)]
pub struct TokenBucket {
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    pub fn full(rate: Rate, now: Instant) -> Self {
        Self { tokens: rate.burst, at: now }
    }

    /// Takes one token, or says how long to wait for it.
    pub fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.tokens = (self.tokens + passed * rate.per_second).min(rate.burst);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64(((1.0 - self.tokens) / rate.per_second).min(60.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-GW-4
    #[test]
    fn a_bucket_gives_its_burst_then_its_rate() {
        let rate = Rate { per_second: 50.0, burst: 100.0 };
        let start = Instant::now();
        let mut bucket = TokenBucket::full(rate, start);
        assert_eq!((0..200).filter(|_| bucket.take(rate, start).is_ok()).count(), 100);
        let wait = bucket.take(rate, start).unwrap_err();
        assert!((15..=21).contains(&wait.as_millis()), "{wait:?}");
        let later = start + Duration::from_secs(1);
        assert_eq!((0..200).filter(|_| bucket.take(rate, later).is_ok()).count(), 50);
    }
}
