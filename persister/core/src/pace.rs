//! How many rows a second this persister writes (R-PST-10): falls when MySQL answers slowly, recovers stepwise.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaceConfig {
    pub start: f64,
    pub min: f64,
    pub max: f64,
    /// A transaction that takes longer is a slow answer.
    pub slow: Duration,
}

impl Default for PaceConfig {
    fn default() -> Self {
        Self { start: 5000.0, min: 50.0, max: 100_000.0, slow: Duration::from_millis(500) }
    }
}

/// Time is a duration since any fixed moment.
#[derive(Debug, Clone)]
pub struct Pace {
    config: PaceConfig,
    rate: f64,
    /// May be negative: a batch is let through whole and paid for afterwards.
    tokens: f64,
    at: Duration,
    window_from: Duration,
    window: Window,
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    answers: u32,
    slow: u32,
    waited: bool,
}

impl Pace {
    pub fn new(config: PaceConfig, now: Duration) -> Self {
        let rate = config.start;
        Self { config, rate, tokens: 0.0, at: now, window_from: now, window: Window::default() }
    }

    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Takes `rows` from the allowance; the writer waits as long as it says.
    pub fn take(&mut self, rows: usize, now: Duration) -> Duration {
        self.advance(now);
        self.tokens -= rows as f64;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        self.window.waited = true;
        Duration::from_secs_f64(-self.tokens / self.rate)
    }

    /// Hears how long a transaction took.
    pub fn answered(&mut self, took: Duration, now: Duration) {
        self.advance(now);
        self.window.answers += 1;
        if took > self.config.slow {
            self.window.slow += 1;
        }
    }

    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        // A tenth of a second may be saved up, so that batches of many partitions do not queue for single tokens.
        self.tokens = (self.tokens + passed.as_secs_f64() * self.rate).min(self.rate / 10.0);
        if now.saturating_sub(self.window_from) >= Duration::from_secs(1) {
            self.close_window(now);
        }
    }

    fn close_window(&mut self, now: Duration) {
        let window = std::mem::take(&mut self.window);
        self.window_from = now;
        if window.slow > 0 {
            self.rate = (self.rate * 0.7).max(self.config.min);
        } else if window.answers > 0 && (window.waited || self.rate < self.config.start) {
            // Above the start it grows only while it holds something back: an idle hour proves nothing.
            self.rate = (self.rate * 1.1).min(self.config.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    // R-PST-10
    #[test]
    fn the_rate_falls_on_slow_answers_and_recovers_each_second() {
        let mut pace = Pace::new(PaceConfig::default(), ms(0));
        pace.answered(ms(900), ms(100));
        pace.answered(ms(10), ms(1100));
        assert_eq!(pace.rate(), 3500.0);
        pace.answered(ms(10), ms(2200));
        assert!((pace.rate() - 3850.0).abs() < 1e-6);
        for second in 3..10 {
            pace.answered(ms(10), ms(second * 1100));
        }
        assert!(pace.rate() > 5000.0 && pace.rate() < 5700.0, "{}", pace.rate());
    }

    #[test]
    fn a_batch_passes_whole_and_is_paid_for_afterwards() {
        let mut pace = Pace::new(PaceConfig::default(), ms(0));
        assert_eq!(pace.take(500, ms(100)), ms(0), "a tenth of a second was saved up");
        assert_eq!(pace.take(500, ms(100)), ms(100));
        assert_eq!(pace.take(500, ms(200)), ms(100));
        assert_eq!(pace.take(0, ms(10_000)), ms(0));
        assert!(pace.tokens <= pace.rate() / 10.0, "an idle time saves up no burst");
    }

    #[test]
    fn it_never_stands_still_and_grows_only_while_it_holds_back() {
        let mut pace = Pace::new(PaceConfig::default(), ms(0));
        for second in 1..100 {
            pace.answered(ms(900), ms(second * 1001));
        }
        assert_eq!(pace.rate(), 50.0);
        let mut idle = Pace::new(PaceConfig::default(), ms(0));
        for second in 1..100 {
            idle.answered(ms(1), ms(second * 1001));
        }
        assert_eq!(idle.rate(), 5000.0);
    }
}
