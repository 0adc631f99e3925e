//! `apply.lua`: batches of records with their positions, atomically (R-SEQ-4, I5).

use std::sync::LazyLock;

use bytes::Bytes;
use futures::future::try_join_all;
use lapwing_links::redis::Script;
use lapwing_model::{
    Op, PartitionId, Position,
    view::{Applied, Expect, SLICE_MS},
};

use crate::{Piece, TIMEOUT, ViewError, Views, keys, merge, value, words::Words};

static APPLY: LazyLock<Script> = LazyLock::new(|| Script::new("apply", include_str!("lua/apply.lua")));

/// What one partition's view of one family is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    pub id: PartitionId,
    pub piece: Piece,
    pub expect: Expect,
    pub ops: Vec<Op>,
}

fn words(expect: &Expect) -> (String, String) {
    match expect {
        Expect::Move(from, to) => (from.encode(), to.encode()),
        Expect::Any => ("*".to_owned(), String::new()),
        Expect::Begin(token) => (format!("!{token}"), "begin".to_owned()),
        Expect::Rebuild(token) => (format!("!{token}"), String::new()),
        Expect::End(token, at) => (format!("!{token}"), at.encode()),
        Expect::Leave(at, to) => (at.encode(), format!("@{to}")),
    }
}

const NOWHERE: Position = Position { offset: u64::MAX >> 1, epoch: -2, index: 0 };

impl Section {
    pub fn new(id: &PartitionId, piece: Piece, expect: Expect, ops: Vec<Op>) -> Self {
        Self { id: id.clone(), piece, expect, ops }
    }

    /// Changes nothing, answers the position.
    pub fn probe(id: &PartitionId, piece: Piece) -> Self {
        Self::new(id, piece, Expect::Move(NOWHERE, NOWHERE), Vec::new())
    }
}

impl Views {
    /// Few script calls for all sections, whose pieces are all on this instance, on their way at once; the answers in the sections'
    /// order. A timeout means that they may have been applied: the same sections again change nothing.
    pub async fn apply(&self, instance: usize, sections: &[Section]) -> Result<Vec<Applied>, ViewError> {
        let answers = try_join_all(calls(sections).map(|sections| self.call(instance, sections))).await?;
        Ok(answers.into_iter().flatten().collect())
    }

    async fn call(&self, instance: usize, sections: &[Section]) -> Result<Vec<Applied>, ViewError> {
        // Measured first: growing by doubling copies a megabyte several times.
        let ops = sections.iter().map(|section| section.ops.len() + 1).sum::<usize>();
        let events = sections.iter().flat_map(|section| &section.ops).map(event_len).sum::<usize>();
        let mut keys = Words::with_capacity(ops, ops * KEY);
        let mut args = Words::with_capacity(ops * VALUES, ops * VALUE + events);
        for section in sections {
            keys.push(keys::applied(&section.id, &section.piece));
            let (expected, new) = words(&section.expect);
            args.push("P");
            args.push(expected);
            args.push(new);
            let count = args.later();
            let groups = merge::groups(&section.ops);
            let told = groups.iter().map(|group| self.encode(&section.id, group, &mut keys, &mut args));
            let told = told.sum();
            args.tell(count, told);
        }
        let redis = self.places.redis(instance);
        let answer = redis.eval(&APPLY, &keys.slices(), &args.slices(), TIMEOUT).await?;
        let answers = value::strings(&answer).ok_or_else(|| value::form("apply", &answer))?;
        answers
            .into_iter()
            .map(|text| match text.as_ref() {
                b"ok" => Ok(Applied::Ok),
                b"" => Ok(Applied::At(None)),
                [b'@', name @ ..] => Ok(Applied::Moved(String::from_utf8_lossy(name).into_owned())),
                other => std::str::from_utf8(other)
                    .ok()
                    .and_then(Position::decode)
                    .map(|at| Applied::At(Some(at)))
                    .ok_or_else(|| value::form("apply", &answer)),
            })
            .collect()
    }

    /// One group: its code, how many values follow, and these. How many operations it became.
    fn encode(&self, id: &PartitionId, group: &[&Op], keys: &mut Words, args: &mut Words) -> u64 {
        let Some(first) = group.first() else { return 0 };
        let mut operations = 0;
        let mut begin = |key: String, code: &str, values: usize| {
            operations += 1;
            keys.push(key);
            args.push(code);
            args.number(values as u64);
        };
        match first {
            Op::Head { key, bucket, .. } | Op::Hot { key, bucket, .. } => {
                let events = group.iter().filter(|op| matches!(op, Op::Hot { .. })).count();
                begin(keys::head(*bucket, key), "E", 4 + if events > 0 { 1 + events } else { 0 });
                keys.push(keys::hot(*bucket, key));
                conversation(group, args);
            }
            Op::Mid { bucket, slice, .. } => {
                begin(keys::mid(*bucket, *slice), "D", 1 + 2 * group.len());
                // The slice lives until its last entry has left the window.
                mids(group, self.window_ms + 2 * SLICE_MS, args);
            }
            Op::Joined { key, bucket, user, member } => {
                begin(keys::members(*bucket, key), "S", 2);
                args.push(&**user);
                args.push(member.encode());
            }
            Op::Left { key, bucket, user, to_seq } => {
                begin(keys::members(*bucket, key), "L", 2);
                args.push(&**user);
                args.number(*to_seq);
            }
            Op::Told { at } => {
                begin(keys::told(id), "W", 1);
                args.push(at.encode());
            }
            Op::Reset { key, bucket } => {
                begin(keys::hot(*bucket, key), "X", 0);
                begin(keys::members(*bucket, key), "X", 0);
            }
            Op::Persisted { key, bucket, seq, trim_to } => {
                begin(keys::head(*bucket, key), "M", 2);
                keys.push(keys::hot(*bucket, key));
                args.number(*seq);
                args.number(*trim_to);
            }
            Op::UserJoined { tenant, user, conversation, member } => {
                begin(keys::convs(tenant, user), "S", 2);
                args.push(&**conversation);
                args.push(member.encode());
            }
            Op::UserPeer { tenant, user, conversation, peer } => {
                begin(keys::convs(tenant, user), "S", 2);
                args.push(format!("={conversation}"));
                args.push(&**peer);
            }
            Op::UserLeft { tenant, user, conversation, to_seq } => {
                begin(keys::convs(tenant, user), "L", 2);
                args.push(&**conversation);
                args.number(*to_seq);
            }
            Op::Sent { tenant, user, conversation, .. } => {
                begin(keys::cursor(tenant, user), "S", 2);
                args.push(keys::sent(conversation));
                // In the log's order, so the last one is the highest, whatever stands there.
                if let Some(Op::Sent { seq, n, .. }) = group.last() {
                    args.push(format!("{seq}:{n}:0"));
                }
            }
            Op::Cursor { tenant, user, .. } => {
                begin(keys::cursor(tenant, user), "C", 2);
                cursor(group, args);
            }
        }
        operations
    }
}

/// Of one section: the more records of a conversation go together, the less each costs.
pub const BATCH_RECORDS: usize = 1024;
pub const BATCH_BYTES: usize = 1 << 20;

/// A script holds up everything else on its instance, so no call is long; and while one runs the next is being encoded.
const CALL_OPS: usize = 4096;

fn calls(sections: &[Section]) -> impl Iterator<Item = &[Section]> {
    let mut left = sections;
    std::iter::from_fn(move || {
        let mut ops = 0;
        let fits = |section: &&Section| {
            let first = ops == 0;
            ops += section.ops.len() + 1;
            first || ops <= CALL_OPS
        };
        let (call, rest) = left.split_at(left.iter().take_while(fits).count());
        left = rest;
        (!call.is_empty()).then_some(call)
    })
}

/// What an operation takes, about: its key, its values, and their text besides events.
const KEY: usize = 64;
const VALUES: usize = 4;
const VALUE: usize = 64;

fn event_len(op: &Op) -> usize {
    match op {
        Op::Hot { event, .. } => event.len(),
        _ => 0,
    }
}

/// The newest of each part of the head, then the first seq and the events.
fn conversation(group: &[&Op], args: &mut Words) {
    let (mut newest, mut number, mut count, mut settings) = (0, None, None, None);
    for op in group {
        match op {
            Op::Head { head, n, member_count, history, .. } => {
                newest = *head;
                number = Some(*n);
                count = member_count.or(count);
                settings = history.or(settings);
            }
            Op::Hot { seq, .. } => newest = *seq,
            _ => {}
        }
    }
    args.number(newest);
    for part in [number, count.map(u64::from), settings.map(u64::from)] {
        match part {
            Some(part) => args.number(part),
            None => args.push(""),
        }
    }
    let mut first = true;
    for op in group {
        if let Op::Hot { seq, event, .. } = op {
            if std::mem::take(&mut first) {
                args.number(*seq);
            }
            args.push(event);
        }
    }
}

fn mids(group: &[&Op], life_ms: u64, args: &mut Words) {
    args.number(life_ms);
    for op in group {
        if let Op::Mid { mid, entry, .. } = op {
            args.push(mid);
            args.push(entry.encode());
        }
    }
}

/// Maxima, the count with the read seq that it belongs to.
fn cursor(group: &[&Op], args: &mut Words) {
    let (mut read, mut delivered, mut of) = ((0, 0), 0, "");
    for op in group {
        if let Op::Cursor { conversation, read_seq, read_n, delivered_seq, .. } = op {
            of = conversation;
            read = if *read_seq >= read.0 { (*read_seq, *read_n) } else { read };
            delivered = delivered.max(*delivered_seq);
        }
    }
    args.push(of);
    args.push(format!("{}:{}:{delivered}", read.0, read.1));
}

pub(crate) fn number(number: u64) -> Bytes {
    Bytes::from(number.to_string())
}

pub(crate) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_short_and_leave_no_section_out() {
        let id = PartitionId::new("lapwing.p2p", 0);
        let op = Op::Reset { key: lapwing_model::ConversationKey::new("t", "grp.a"), bucket: 1 };
        let section = |ops: usize| Section::new(&id, Piece::commit(0), Expect::Any, vec![op.clone(); ops]);
        let sections: Vec<Section> = [2500, 1500, 100, 5000, 0, 5].map(section).to_vec();
        let lengths = |call: &[Section]| call.iter().map(|section| section.ops.len()).collect::<Vec<_>>();
        let seen: Vec<Vec<usize>> = calls(&sections).map(lengths).collect();
        assert_eq!(seen, [vec![2500, 1500], vec![100], vec![5000], vec![0, 5]]);
        assert_eq!(calls(&[]).count(), 0);
    }
}
