//! Pages of several instances become one: rows in their one order, each from the instance where it counts, and the least of the
//! positions, from which the asker folds the log.

use lapwing_model::ConversationKey;
use lapwing_persister_core::Placement;
use lapwing_proto::bus::{RebuildPage, RebuildPlace, RebuildRow};

type Order<'a> = (u32, &'a [u8], &'a [u8]);

fn order(row: &RebuildRow) -> Order<'_> {
    (row.bucket, row.tenant.as_bytes(), row.conversation.as_bytes())
}

fn order_of(place: &RebuildPlace) -> Order<'_> {
    (place.bucket, place.tenant.as_bytes(), place.conversation.as_bytes())
}

/// None: there was no page.
pub(super) fn pages(placement: &Placement, pages: Vec<(usize, RebuildPage)>) -> Option<RebuildPage> {
    let mut merged: Option<RebuildPage> = None;
    for (instance, mut page) in pages {
        page.rows.retain(|row| counts_on(placement, instance, &row.tenant, &row.conversation));
        // The rest of a conversation that counts elsewhere is read there.
        if let Some(next) = &mut page.next
            && !counts_on(placement, instance, &next.tenant, &next.conversation)
        {
            next.user.clear();
        }
        merged = Some(match merged {
            None => page,
            Some(other) => join(other, page),
        });
    }
    merged
}

/// Rows that are being brought to an instance, or are still to be deleted there, don't count.
fn counts_on(placement: &Placement, instance: usize, tenant: &str, conversation: &str) -> bool {
    let key = ConversationKey::new(tenant, conversation);
    placement.of(&key).is_none_or(|place| place.instance == instance)
}

fn join(one: RebuildPage, other: RebuildPage) -> RebuildPage {
    let least = |a: Option<_>, b: Option<_>, offset: fn(&_) -> u64| match (a, b) {
        (Some(a), Some(b)) => Some(if offset(&b) < offset(&a) { b } else { a }),
        // Without a position on one of them, nothing can be said of all.
        _ => None,
    };
    // What lies behind the nearer end comes with a later page of both.
    let next = match (one.next, other.next) {
        (Some(a), Some(b)) => {
            let nearer = order_of(&b) < order_of(&a) || (order_of(&b) == order_of(&a) && a.user.is_empty());
            Some(if nearer { b } else { a })
        }
        (a, b) => a.or(b),
    };
    let mut rows = one.rows;
    rows.extend(other.rows);
    if let Some(next) = &next {
        rows.retain(|row| order(row) <= order_of(next));
    }
    rows.sort_by(|a, b| order(a).cmp(&order(b)));
    RebuildPage {
        rows,
        next,
        persisted: least(one.persisted, other.persisted, |at| at.offset),
        window: least(one.window, other.window, |at| at.offset),
        cursor_offset: one.cursor_offset.min(other.cursor_offset),
        ..RebuildPage::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lapwing_persister_core::placement::Configured;
    use lapwing_proto::bus::Position;

    use super::*;

    fn row(bucket: u32, tenant: &str, conversation: &str) -> RebuildRow {
        RebuildRow {
            bucket,
            tenant: tenant.into(),
            conversation: conversation.into(),
            ..RebuildRow::default()
        }
    }

    fn page(offset: u64, rows: Vec<RebuildRow>, next: bool) -> RebuildPage {
        let next = rows.last().filter(|_| next).map(|row| RebuildPlace {
            bucket: row.bucket,
            tenant: row.tenant.clone(),
            conversation: row.conversation.clone(),
            user: String::new(),
        });
        let at = Some(Position { offset, ..Position::default() });
        RebuildPage { rows, next, persisted: at, window: at, cursor_offset: offset, ..RebuildPage::default() }
    }

    // R-PST-12, I9: nothing is skipped between two instances' pages, and leftovers are not shown.
    #[test]
    fn pages_of_two_instances_are_one_up_to_the_nearer_end() {
        let names = ["one", "two"].map(str::to_owned).to_vec();
        let placement = Placement::new(Arc::new(Configured::parse(names, "", "acme=two").unwrap()), 8);
        let one = page(9, vec![row(1, "t", "grp.a"), row(1, "t", "grp.c"), row(4, "acme", "grp.left")], true);
        let two =
            page(5, vec![row(1, "acme", "grp.b"), row(2, "t", "grp.half"), row(7, "acme", "grp.z")], false);
        let merged = pages(&placement, vec![(0, one), (1, two)]).unwrap();
        let shown: Vec<_> = merged.rows.iter().map(|row| row.conversation.as_str()).collect();
        assert_eq!(shown, ["grp.b", "grp.a", "grp.c"], "grp.z comes behind the end of the first");
        assert_eq!(merged.next.as_ref().map(|next| next.bucket), Some(4));
        assert_eq!((merged.persisted.unwrap().offset, merged.cursor_offset), (5, 5));
    }
}
