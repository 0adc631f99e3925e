//! What a database error means (R-PST-4), and how long to wait before the next try.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The server, the network or another transaction: the same batch will pass later. Never dead-lettered.
    Transient,
    /// A row with this key is there already: compare the contents.
    Duplicate,
    /// The data itself: the same batch will never pass.
    Permanent,
}

/// By MySQL's error number. What is not known to be about the data is transient: waiting loses nothing.
pub fn of_number(number: u16) -> Class {
    match number {
        1022 | 1062 | 1169 | 1586 => Class::Duplicate,
        1048      // column cannot be null
        | 1264    // out of range
        | 1292    // truncated incorrect value
        | 1300    // invalid utf8 string
        | 1364    // no default
        | 1365    // division by 0
        | 1366    // incorrect value
        | 1367    // illegal value
        | 1406    // data too long
        | 1411 | 1416 | 1441
        | 1265    // data truncated
        | 1690    // BIGINT out of range
        | 3140 | 3141 // invalid JSON
        | 3819 | 4025 // a CHECK constraint
        => Class::Permanent,
        _ => Class::Transient,
    }
}

/// Bounded exponential backoff with jitter; `random` is in 0..1.
pub fn backoff(attempt: u32, random: f64) -> Duration {
    let ceiling = 50u64 << attempt.min(6); // 50 ms … 3.2 s
    Duration::from_millis(ceiling / 2 + (ceiling as f64 / 2.0 * random.clamp(0.0, 1.0)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-PST-4
    #[test]
    fn numbers_are_classed_as_the_requirement_says() {
        for transient in [1205, 1213, 1040, 1203, 1290, 1836, 2006, 2013, 3024, 1053, 1927, 1146, 9999] {
            assert_eq!(of_number(transient), Class::Transient, "{transient}");
        }
        for permanent in [1264, 1406, 1366, 1048, 1292, 4025] {
            assert_eq!(of_number(permanent), Class::Permanent, "{permanent}");
        }
        assert_eq!(of_number(1062), Class::Duplicate);
    }

    #[test]
    fn backoff_grows_to_a_bound() {
        assert_eq!(backoff(0, 0.0), Duration::from_millis(25));
        assert_eq!(backoff(0, 1.0), Duration::from_millis(50));
        assert_eq!(backoff(60, 1.0), Duration::from_millis(3200));
    }
}
