//! Operations of one section that go into one command of Redis: a batch of records has several of a conversation, and a command
//! costs more than what it carries. Only neighbours on the same key are joined, so each key sees its changes in their order.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use lapwing_model::{ConversationKey, Op};

use crate::keys::mid_group;

/// Lua unpacks at most some thousand values into one command.
const MOST: usize = 500;

#[derive(PartialEq, Eq, Hash)]
enum Slot<'a> {
    /// Its events and its head, which move together.
    Conversation(&'a ConversationKey),
    Mid(u32, u64),
    Sent(&'a str, &'a str, &'a str),
    Cursor(&'a str, &'a str, &'a str),
}

/// In the order of their first operations; each has at least one, and all go into one command.
pub(crate) fn groups(ops: &[Op]) -> Vec<Vec<&Op>> {
    let mut groups: Vec<Vec<&Op>> = Vec::with_capacity(ops.len());
    let mut open: HashMap<Slot<'_>, usize, RandomState> =
        HashMap::with_capacity_and_hasher(ops.len(), RandomState::default());
    for op in ops {
        let slot = match op {
            Op::Head { key, .. } | Op::Hot { key, .. } => Slot::Conversation(key),
            Op::Mid { bucket, slice, .. } => Slot::Mid(mid_group(*bucket), *slice),
            Op::Sent { tenant, user, conversation, .. } => Slot::Sent(tenant, user, conversation),
            Op::Cursor { tenant, user, conversation, .. } => Slot::Cursor(tenant, user, conversation),
            Op::Persisted { key, .. } | Op::Reset { key, .. } => {
                open.remove(&Slot::Conversation(key));
                groups.push(vec![op]);
                continue;
            }
            Op::Joined { .. }
            | Op::Told { .. }
            | Op::Left { .. }
            | Op::UserJoined { .. }
            | Op::UserPeer { .. }
            | Op::UserLeft { .. } => {
                groups.push(vec![op]);
                continue;
            }
        };
        match open.get(&slot).and_then(|place| groups.get_mut(*place)) {
            Some(group) if takes(group, op) => group.push(op),
            _ => {
                open.insert(slot, groups.len());
                groups.push(vec![op]);
            }
        }
    }
    groups
}

/// A conversation's events go on from seq to seq, each with its head behind it; anything else is told on its own.
fn takes(group: &[&Op], op: &Op) -> bool {
    let at = match group.last() {
        Some(Op::Hot { seq, .. }) => *seq,
        Some(Op::Head { head, .. }) if matches!(group.first(), Some(Op::Hot { .. })) => *head,
        Some(Op::Head { .. }) => return false,
        _ => return group.len() < MOST,
    };
    match op {
        Op::Head { head, .. } => *head == at,
        Op::Hot { seq, .. } => *seq == at + 1 && group.len() < MOST,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ConversationKey {
        ConversationKey::new("t", name)
    }

    fn hot(name: &str, seq: u64) -> Op {
        Op::Hot { key: key(name), bucket: 1, seq, event: vec![seq as u8].into() }
    }

    fn head(name: &str, head: u64) -> Op {
        Op::Head { key: key(name), bucket: 1, head, n: head, member_count: None, history: None }
    }

    // R-SEQ-4: what is joined changes what it would have changed one by one.
    #[test]
    fn neighbours_on_one_key_are_joined_and_nothing_overtakes_on_its_key() {
        let persisted = Op::Persisted { key: key("grp.a"), bucket: 1, seq: 2, trim_to: 1 };
        let ops = [
            hot("grp.a", 1),
            head("grp.a", 1),
            hot("grp.b", 7),
            hot("grp.a", 2),
            head("grp.a", 2),
            persisted.clone(),
            hot("grp.a", 3),
            hot("grp.b", 9),
        ];
        let expected: [&[Op]; 5] = [
            &[hot("grp.a", 1), head("grp.a", 1), hot("grp.a", 2), head("grp.a", 2)],
            &[hot("grp.b", 7)],
            &[persisted],
            &[hot("grp.a", 3)],
            &[hot("grp.b", 9)],
        ];
        let seen: Vec<Vec<Op>> =
            groups(&ops).into_iter().map(|group| group.into_iter().cloned().collect()).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_group_ends_where_a_command_would_become_too_long() {
        let ops: Vec<Op> = (1..=600).flat_map(|seq| [hot("grp.a", seq), head("grp.a", seq)]).collect();
        assert_eq!(groups(&ops).iter().map(Vec::len).collect::<Vec<_>>(), [500, 500, 200]);
        let odd = [&[hot("grp.a", 0)], &ops[..]].concat();
        assert_eq!(groups(&odd).iter().map(Vec::len).collect::<Vec<_>>(), [501, 500, 200]);
        let jumps = [head("grp.a", 7), hot("grp.a", 1), head("grp.a", 2), hot("grp.a", 4)];
        assert_eq!(groups(&jumps).len(), 4);
    }
}
