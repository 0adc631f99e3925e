//! Which rows of a conversation a history request may see (R-PST-9).

use lapwing_model::Member;

/// First and last seq of a page's candidates, both included; None: nothing to see.
pub fn visible(from: u64, to: u64, head: u64, member: Option<&Member>) -> Option<(u64, u64)> {
    let (mut first, mut last) = (from.max(1), to.min(head));
    if let Some(member) = member {
        first = first.max(member.from_seq);
        if member.to_seq > 0 {
            last = last.min(member.to_seq);
        }
    }
    (first <= last).then_some((first, last))
}

/// Bytes that one answer may hold: below NATS' `max_payload` of 2 MiB with room for the frame round it.
pub const PAGE_BYTES: usize = 1536 << 10;

/// How many of the rows, in the order in which they are wanted, fit into one answer. At least one.
pub fn fitting(sizes: impl IntoIterator<Item = usize>, limit: usize) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for size in sizes.into_iter().take(limit) {
        // What an event has beside its content: ids, trace context.
        bytes += size + 64;
        if count > 0 && bytes > PAGE_BYTES {
            break;
        }
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_sees_only_its_time() {
        let member = Member { from_seq: 5, to_seq: 9 };
        assert_eq!(visible(1, u64::MAX, 20, Some(&member)), Some((5, 9)));
        assert_eq!(visible(10, 20, 20, Some(&member)), None);
        assert_eq!(visible(7, 8, 20, Some(&member)), Some((7, 8)));
        let still = Member { from_seq: 5, to_seq: 0 };
        assert_eq!(visible(0, u64::MAX, 20, Some(&still)), Some((5, 20)));
        assert_eq!(visible(0, u64::MAX, 20, None), Some((1, 20)));
        assert_eq!(visible(0, u64::MAX, 0, None), None);
    }

    #[test]
    fn a_page_stays_below_the_payload_limit_and_is_never_empty() {
        assert_eq!(fitting([300; 500], 100), 100);
        assert_eq!(fitting([600 << 10; 10], 100), 2);
        assert_eq!(fitting([4 << 20, 1], 100), 1);
        assert_eq!(fitting([], 100), 0);
    }
}
