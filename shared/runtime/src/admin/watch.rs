//! A queue that stays nearly full makes the process un-ready; a moment's peak does not (R-GW-6).

use crate::Health;

const NEARLY_FULL: f64 = 0.9;
const FOR_MS: u64 = 30_000;

#[derive(Default)]
pub(super) struct QueueWatch {
    full_since: Option<(&'static str, u64)>,
}

impl QueueWatch {
    pub(super) fn look(&mut self, health: &Health, fullest: Option<(&'static str, f64)>, now_ms: u64) {
        let Some((queue, fill)) = fullest.filter(|(_, fill)| *fill > NEARLY_FULL) else {
            self.full_since = None;
            return health.set("queues", Ok(()));
        };
        let (_, since) = *self.full_since.get_or_insert((queue, now_ms));
        if now_ms.saturating_sub(since) >= FOR_MS {
            let text = format!("queue {queue} is {:.0} % full for 30 s", fill * 100.0);
            // The text stays as it was first said: the check must not turn with each percent.
            if health.is_ok("queues") {
                health.set("queues", Err(text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-GW-6
    #[test]
    fn thirty_seconds_of_a_full_queue_end_readiness_and_a_peak_does_not() {
        let health = Health::new();
        let mut watch = QueueWatch::default();
        watch.look(&health, Some(("lane", 0.95)), 1_000);
        watch.look(&health, Some(("lane", 0.95)), 30_000);
        assert_eq!(health.ready(), Ok(()), "not yet");
        watch.look(&health, Some(("lane", 0.5)), 30_500);
        watch.look(&health, Some(("lane", 0.95)), 31_000);
        watch.look(&health, Some(("lane", 0.95)), 60_000);
        assert_eq!(health.ready(), Ok(()));
        watch.look(&health, Some(("lane", 0.95)), 61_000);
        assert_eq!(health.ready(), Err("queues: queue lane is 95 % full for 30 s".to_owned()));
        watch.look(&health, Some(("lane", 0.1)), 62_000);
        assert_eq!(health.ready(), Ok(()));
    }
}
