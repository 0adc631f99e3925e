//! `apply.lua`: batches of records with their positions, atomically (R-SEQ-4, I5).

use std::sync::LazyLock;

use bytes::Bytes;
use lapwing_links::redis::Script;
use lapwing_model::{Op, PartitionId, Position, view::SLICE_MS};

use crate::{Piece, TIMEOUT, ViewError, Views, keys, value};

static APPLY: LazyLock<Script> = LazyLock::new(|| Script::new("apply", include_str!("lua/apply.lua")));

/// What one partition's view of one family is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    pub id: PartitionId,
    pub piece: Piece,
    pub expect: Expect,
    pub ops: Vec<Op>,
}

/// On what condition a section is applied, and where the view stands then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// The view stands at the first and moves to the second.
    Move(Position, Position),
    /// Whatever its position, which stays: for maxima from elsewhere (cursors, persisted seqs).
    Any,
    /// It has no position. From here on it takes the rebuild of this token alone.
    Begin(String),
    /// It has no position, and this rebuild is the one that fills it.
    Rebuild(String),
    /// As before, and it has this position now.
    End(String, Position),
    /// The view stands there; from now on it is on the instance of this name.
    Leave(Position, String),
}

impl Expect {
    fn words(&self) -> (String, String) {
        match self {
            Self::Move(from, to) => (from.encode(), to.encode()),
            Self::Any => ("*".to_owned(), String::new()),
            Self::Begin(token) => (format!("!{token}"), "begin".to_owned()),
            Self::Rebuild(token) => (format!("!{token}"), String::new()),
            Self::End(token, at) => (format!("!{token}"), at.encode()),
            Self::Leave(at, to) => (at.encode(), format!("@{to}")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    Ok,
    /// Nothing was changed: the view stands here (None = it has no position).
    At(Option<Position>),
    /// Nothing was changed: it is on the instance of this name.
    Moved(String),
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
    /// One script call for all sections, whose pieces are all on this instance; the answers in their order. A timeout means that
    /// it may have been applied: the same sections again change nothing.
    pub async fn apply(&self, instance: usize, sections: &[Section]) -> Result<Vec<Applied>, ViewError> {
        let (mut keys, mut args) = (Vec::new(), Vec::new());
        for section in sections {
            keys.push(Bytes::from(keys::applied(&section.id, &section.piece)));
            args.push(Bytes::from_static(b"P"));
            let (expected, new) = section.expect.words();
            args.extend([Bytes::from(expected), Bytes::from(new)]);
            let count_at = args.len();
            args.push(Bytes::new());
            let before = keys.len();
            for op in &section.ops {
                self.encode(&section.id, op, &mut keys, &mut args);
            }
            args[count_at] = number((keys.len() - before) as u64);
        }
        let answer = self.places.redis(instance).eval(&APPLY, &keys, &args, TIMEOUT).await?;
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

    fn encode(&self, id: &PartitionId, op: &Op, keys: &mut Vec<Bytes>, args: &mut Vec<Bytes>) {
        let mut push = |key: String, code: &'static str, values: &[Bytes]| {
            keys.push(Bytes::from(key));
            args.push(Bytes::from_static(code.as_bytes()));
            args.extend_from_slice(values);
        };
        match op {
            Op::Head { key, bucket, head, n, member_count, history } => {
                let count = member_count.map_or(Bytes::new(), |count| number(count.into()));
                let history = history.map_or(Bytes::new(), |history| number(history.into()));
                push(keys::head(*bucket, key), "H", &[number(*head), number(*n), count, history]);
            }
            Op::Hot { key, bucket, seq, event } => {
                push(keys::hot(*bucket, key), "E", &[number(*seq), event.clone()]);
            }
            Op::Mid { bucket, slice, mid, entry } => {
                // The slice lives until its last entry has left the window.
                let life = number(self.window_ms + 2 * SLICE_MS);
                let (mid, entry) = (Bytes::copy_from_slice(mid), Bytes::copy_from_slice(&entry.encode()));
                push(keys::mid(*bucket, *slice), "D", &[mid, entry, life]);
            }
            Op::Joined { key, bucket, user, member } => {
                push(keys::members(*bucket, key), "S", &[text(user), Bytes::from(member.encode())]);
            }
            Op::Left { key, bucket, user, to_seq } => {
                push(keys::members(*bucket, key), "L", &[text(user), number(*to_seq)]);
            }
            Op::Told { at } => push(keys::told(id), "W", &[Bytes::from(at.encode())]),
            Op::Reset { key, bucket } => {
                push(keys::hot(*bucket, key), "X", &[]);
                push(keys::members(*bucket, key), "X", &[]);
            }
            Op::Persisted { key, bucket, seq, trim_to } => {
                push(keys::head(*bucket, key), "M", &[number(*seq)]);
                if *trim_to > 0 {
                    push(keys::hot(*bucket, key), "T", &[number(*trim_to)]);
                }
            }
            Op::UserJoined { tenant, user, conversation, member } => {
                push(keys::convs(tenant, user), "S", &[text(conversation), Bytes::from(member.encode())]);
            }
            Op::UserPeer { tenant, user, conversation, peer } => {
                push(keys::convs(tenant, user), "S", &[Bytes::from(format!("={conversation}")), text(peer)]);
            }
            Op::UserLeft { tenant, user, conversation, to_seq } => {
                push(keys::convs(tenant, user), "L", &[text(conversation), number(*to_seq)]);
            }
            Op::Cursor { tenant, user, conversation, read_seq, read_n, delivered_seq } => {
                let maxima = [text(conversation), number(*read_seq), number(*read_n), number(*delivered_seq)];
                push(keys::cursor(tenant, user), "C", &maxima);
            }
        }
    }
}

pub(crate) fn number(number: u64) -> Bytes {
    Bytes::from(number.to_string())
}

pub(crate) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
