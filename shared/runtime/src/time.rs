//! The two clocks: wall time for people and records, monotonic time for deadlines.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 (UTC). Steps with the wall clock: never use it for a deadline.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Milliseconds since this process first asked; never goes back, untouched by wall clock steps.
pub fn mono_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_moves_forward_and_wall_time_is_after_2024() {
        let before = mono_ms();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(mono_ms() >= before + 4);
        assert!(now_ms() > 1_700_000_000_000);
    }
}
