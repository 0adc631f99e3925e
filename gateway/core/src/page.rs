//! A page of history out of two sources: the hot window above, MySQL below its lowest seq; contiguous, or with its
//! holes told (R-PST-9).

use lapwing_model::Member;
use lapwing_proto::{
    Message as _,
    client::{Event, Gap, GapReason},
};

/// A page takes at most so many bytes (at least one event).
pub const PAGE_BYTES: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    pub from: u64,
    pub to: u64,
    pub limit: u32,
    /// The newest ones of the range, else the oldest.
    pub newest: bool,
}

/// What a source of recent events holds of a conversation, from one snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hot {
    pub head: u64,
    pub n: u64,
    pub persisted_seq: u64,
    /// The asking user's time in the conversation; None: not a member, or nobody in particular asked.
    pub member: Option<Member>,
    /// The lowest seq that it holds; above the head when it holds none.
    pub lowest: u64,
    /// Of the asked range, ascending.
    pub events: Vec<Event>,
    /// The source stopped early, for its own limit of bytes: behind the last one, or before the first of a newest page.
    pub cut: bool,
}

/// Rows of MySQL.
#[derive(Debug, Default)]
pub struct Deep {
    pub events: Vec<Event>,
    pub cut: bool,
}

/// The part of a query that the asker may see and that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub lo: u64,
    pub hi: u64,
}

impl Query {
    /// None: nothing of it exists or may be seen.
    pub fn visible(&self, hot: &Hot) -> Option<Span> {
        let member = hot.member.unwrap_or_default();
        let lo = self.from.max(member.from_seq).max(1);
        let hi = self.to.min(hot.head).min(if member.active() { u64::MAX } else { member.to_seq });
        (lo <= hi).then_some(Span { lo, hi })
    }

    /// What must come from MySQL, as a query of its own.
    pub fn deep(&self, span: Span, hot: &Hot) -> Option<Query> {
        if self.limit == 0 || span.lo >= hot.lowest || (self.newest && hot.cut) {
            return None;
        }
        let have = if self.newest { in_span(&hot.events, span).count() as u32 } else { 0 };
        let limit = self.limit.saturating_sub(have);
        let to = span.hi.min(hot.lowest - 1);
        (limit > 0).then_some(Query { from: span.lo, to, limit, newest: self.newest })
    }

    pub fn merge(&self, span: Span, deep: Deep, hot: &Hot) -> Page {
        let mut events: Vec<Event> = deep.events.into_iter().filter(|event| within(event, span)).collect();
        let mut cut = deep.cut;
        if self.newest || !deep.cut {
            events.extend(in_span(&hot.events, span).cloned());
            cut |= hot.cut;
        }
        events.sort_by_key(|event| event.seq);
        events.dedup_by_key(|event| event.seq);
        let full = self.trim(&mut events) || cut;
        let first = events.first().map_or(span.hi + 1, |event| event.seq);
        let last = events.last().map_or(span.lo - 1, |event| event.seq);
        let covered = match (full, self.newest) {
            (false, _) => span,
            (true, true) => Span { lo: first, hi: span.hi },
            (true, false) => Span { lo: span.lo, hi: last },
        };
        let more = if self.newest { covered.lo > span.lo } else { covered.hi < span.hi };
        let holes = holes(&events, covered);
        Page { events, holes, more }
    }

    /// Keeps what fits into the limit and a page's bytes; true: nothing more would have fitted.
    fn trim(&self, events: &mut Vec<Event>) -> bool {
        let (mut kept, mut bytes) = (0, 0);
        let mut keep = |event: &Event| {
            bytes += event.encoded_len();
            let fits = kept < self.limit as usize && (kept == 0 || bytes <= PAGE_BYTES);
            kept += usize::from(fits);
            fits
        };
        let all = if self.newest { events.iter().rev().all(&mut keep) } else { events.iter().all(&mut keep) };
        if self.newest {
            events.drain(..events.len() - kept);
        } else {
            events.truncate(kept);
        }
        !all || kept == self.limit as usize
    }
}

#[derive(Debug, PartialEq)]
pub struct Page {
    pub events: Vec<Event>,
    /// (from, to) of what should be there and is not.
    pub holes: Vec<(u64, u64)>,
    pub more: bool,
}

/// Outside the user's time in the conversation, seen from the query: told, so that nobody asks for it again.
pub fn outside(conversation: &str, query: &Query, hot: &Hot) -> Option<Gap> {
    let from_seq = hot.member?.from_seq;
    let from = query.from.max(1);
    (!query.newest && from < from_seq).then(|| gap(conversation, from, from_seq - 1, GapReason::NotMember))
}

pub fn gap(conversation: &str, from: u64, to: u64, reason: GapReason) -> Gap {
    Gap { conversation: conversation.to_owned(), from, to, reason: reason.into() }
}

fn within(event: &Event, span: Span) -> bool {
    event.seq >= span.lo && event.seq <= span.hi
}

fn in_span(events: &[Event], span: Span) -> impl Iterator<Item = &Event> {
    events.iter().filter(move |event| within(event, span))
}

fn holes(events: &[Event], covered: Span) -> Vec<(u64, u64)> {
    let (mut next, mut holes) = (covered.lo, Vec::new());
    for event in events {
        if event.seq > next {
            holes.push((next, event.seq - 1));
        }
        next = event.seq + 1;
    }
    if next <= covered.hi {
        holes.push((next, covered.hi));
    }
    holes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(seqs: impl IntoIterator<Item = u64>) -> Vec<Event> {
        seqs.into_iter().map(|seq| Event { seq, ..Default::default() }).collect()
    }

    fn hot(lowest: u64, head: u64) -> Hot {
        Hot { head, lowest, events: events(lowest..=head), ..Default::default() }
    }

    fn deep(seqs: impl IntoIterator<Item = u64>) -> Deep {
        Deep { events: events(seqs), cut: false }
    }

    fn seqs(page: &Page) -> Vec<u64> {
        page.events.iter().map(|event| event.seq).collect()
    }

    // R-PST-9: hot window and MySQL merged, no hole between them.
    #[test]
    fn an_ascending_page_goes_from_mysql_into_the_hot_window() {
        let query = Query { from: 5, to: u64::MAX, limit: 6, newest: false };
        let hot = hot(8, 20);
        let span = query.visible(&hot).unwrap();
        assert_eq!(query.deep(span, &hot), Some(Query { from: 5, to: 7, limit: 6, newest: false }));
        let page = query.merge(span, deep(5..=7), &hot);
        assert_eq!((seqs(&page), page.more), ((5..=10).collect(), true));
        assert!(page.holes.is_empty());
        let late = query.merge(span, deep(5..=6), &hot);
        assert_eq!(late.holes, [(7, 7)], "a lag is told, never skipped");
    }

    #[test]
    fn the_newest_page_takes_from_mysql_only_what_the_hot_window_lacks() {
        let query = Query { from: 1, to: 10, limit: 5, newest: true };
        let hot = hot(8, 20);
        let span = query.visible(&hot).unwrap();
        assert_eq!(query.deep(span, &hot), Some(Query { from: 1, to: 7, limit: 2, newest: true }));
        let page = query.merge(span, deep(6..=7), &hot);
        assert_eq!((seqs(&page), page.more), ((6..=10).collect(), true));
        let small = Query { limit: 3, ..query };
        assert_eq!(small.deep(span, &hot), None);
        assert_eq!(seqs(&small.merge(span, Deep::default(), &hot)), [8, 9, 10]);
    }

    // A source that stopped for its bytes is no hole: there is more behind the page.
    #[test]
    fn a_page_that_was_cut_short_ends_there() {
        let query = Query { from: 1, to: u64::MAX, limit: 10, newest: false };
        let mut hot = hot(8, 20);
        let span = query.visible(&hot).unwrap();
        let page = query.merge(span, Deep { events: events(1..=3), cut: true }, &hot);
        assert_eq!((seqs(&page), page.more, page.holes.len()), ((1..=3).collect(), true, 0));
        hot.cut = true;
        hot.events.truncate(2);
        let page = query.merge(span, deep(1..=7), &hot);
        assert_eq!((seqs(&page), page.more, page.holes.len()), ((1..=9).collect(), true, 0));
        let newest = Query { newest: true, ..query };
        hot.events = events(19..=20);
        assert_eq!(newest.deep(span, &hot), None);
        let page = newest.merge(span, Deep::default(), &hot);
        assert_eq!((seqs(&page), page.more, page.holes.len()), (vec![19, 20], true, 0));
    }

    #[test]
    fn a_page_is_bounded_in_bytes_and_holds_at_least_one_event() {
        let big = |seq| Event { seq, sender: "x".repeat(100 << 10), ..Default::default() };
        let hot = Hot { head: 9, lowest: 1, events: (1..=9).map(big).collect(), ..Default::default() };
        let query = Query { from: 1, to: u64::MAX, limit: 10, newest: false };
        let span = query.visible(&hot).unwrap();
        let page = query.merge(span, Deep::default(), &hot);
        assert_eq!((seqs(&page), page.more, page.holes.len()), (vec![1, 2], true, 0));
        let newest = Query { newest: true, ..query }.merge(span, Deep::default(), &hot);
        assert_eq!((seqs(&newest), newest.more, newest.holes.len()), (vec![8, 9], true, 0));
        let huge = Event { seq: 1, sender: "x".repeat(PAGE_BYTES + 1), ..Default::default() };
        let hot = Hot { head: 1, lowest: 1, events: vec![huge], ..Default::default() };
        let page = query.merge(query.visible(&hot).unwrap(), Deep::default(), &hot);
        assert_eq!((seqs(&page), page.more), (vec![1], false));
    }

    // R-PERM-3: nothing from before the join, nothing from after the removal.
    #[test]
    fn a_member_sees_its_own_time_only() {
        let query = Query { from: 1, to: u64::MAX, limit: 100, newest: false };
        let mut hot = hot(1, 20);
        hot.member = Some(Member { from_seq: 4, to_seq: 6 });
        let span = query.visible(&hot).unwrap();
        assert_eq!(seqs(&query.merge(span, Deep::default(), &hot)), [4, 5, 6]);
        let gap = outside("grp.g", &query, &hot).unwrap();
        assert_eq!((gap.from, gap.to, gap.reason()), (1, 3, GapReason::NotMember));
        assert_eq!(Query { from: 7, ..query }.visible(&hot), None);
    }
}
