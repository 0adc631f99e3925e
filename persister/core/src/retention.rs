//! What is old enough to go, and when there is time for it (R-PST-11).

const DAY_MS: u64 = 24 * 3600 * 1000;
/// While writers are further behind than this, nothing is deleted.
const MOST_LAG_MS: u64 = 5000;

/// Rows of before this moment go; None: all stay for ever.
pub fn cutoff(now_ms: u64, days: u64) -> Option<i64> {
    let age = days.checked_mul(DAY_MS).filter(|age| *age > 0)?;
    now_ms.checked_sub(age).map(|at| i64::try_from(at).unwrap_or(i64::MAX))
}

/// By the age of the oldest record that is not in MySQL.
pub fn may_delete(oldest_ms: u64) -> bool {
    oldest_ms <= MOST_LAG_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-PST-11
    #[test]
    fn no_days_mean_for_ever_and_nothing_goes_while_writers_are_behind() {
        let now = 100 * DAY_MS;
        assert_eq!(cutoff(now, 0), None);
        assert_eq!(cutoff(now, 90), Some(10 * DAY_MS as i64));
        assert_eq!(cutoff(now, u64::MAX), None, "longer than there has been time");
        assert!(may_delete(5000) && !may_delete(5001));
    }
}
