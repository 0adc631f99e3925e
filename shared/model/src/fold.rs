//! What a valid record changes: the fold that owner, Redis and MySQL share, so that they cannot disagree.

use lapwing_proto::record::{Record, Settings, record::Body};

use crate::Kind;

/// A member's time in a conversation: it sees from_seq ≤ seq ≤ to_seq (0 = to_seq is open: still a member).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Member {
    pub from_seq: u64,
    pub to_seq: u64,
}

impl Member {
    pub fn active(&self) -> bool {
        self.to_seq == 0
    }

    pub fn sees(&self, seq: u64) -> bool {
        seq >= self.from_seq && (self.to_seq == 0 || seq <= self.to_seq)
    }

    /// `from:to`, as stored in Redis.
    pub fn encode(&self) -> String {
        format!("{}:{}", self.from_seq, self.to_seq)
    }

    pub fn decode(text: &str) -> Option<Self> {
        let (from, to) = text.split_once(':')?;
        Some(Self { from_seq: from.parse().ok()?, to_seq: to.parse().ok()? })
    }
}

/// The small state of a conversation: everything but its members and messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    pub head: u64,
    pub n: u64,
    pub member_count: u32,
    pub history_for_new_members: bool,
}

impl Header {
    pub fn exists(&self) -> bool {
        self.head > 0
    }

    /// Folds one valid record of this conversation.
    pub fn fold(&mut self, record: &Record) {
        self.head = record.seq;
        self.n = record.n;
        match &record.body {
            Some(Body::Created(created)) => {
                self.member_count = created.member_count;
                self.set(created.settings.as_ref());
            }
            Some(Body::MembersAdded(added)) => self.member_count = added.member_count,
            Some(Body::MembersRemoved(removed)) => self.member_count = removed.member_count,
            Some(Body::Settings(settings)) => self.set(Some(settings)),
            _ => {}
        }
    }

    fn set(&mut self, settings: Option<&Settings>) {
        self.history_for_new_members = settings.is_some_and(|settings| settings.history_for_new_members);
    }

    /// `head:n:count:history`, as stored in Redis.
    pub fn encode(&self) -> String {
        format!("{}:{}:{}:{}", self.head, self.n, self.member_count, u8::from(self.history_for_new_members))
    }

    pub fn decode(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let mut next = || parts.next()?.parse::<u64>().ok();
        Some(Self {
            head: next()?,
            n: next()?,
            member_count: u32::try_from(next()?).ok()?,
            history_for_new_members: next()? == 1,
        })
    }
}

/// A membership change of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberChange<'a> {
    Joined { user: &'a str, from_seq: u64 },
    Left { user: &'a str, to_seq: u64 },
}

/// The membership changes of a record; `history` is the conversation's setting after folding it.
pub fn member_changes(record: &Record, history: bool) -> Vec<MemberChange<'_>> {
    let all = history || Kind::of_conversation(&record.conversation) != Some(Kind::Group);
    let from_seq = if all { 1 } else { record.seq };
    match &record.body {
        Some(Body::Created(created)) => joined(&created.members, from_seq),
        Some(Body::MembersAdded(added)) => joined(&added.users, from_seq),
        Some(Body::MembersRemoved(removed)) => {
            removed.users.iter().map(|user| MemberChange::Left { user, to_seq: record.seq }).collect()
        }
        _ => Vec::new(),
    }
}

fn joined(users: &[String], from_seq: u64) -> Vec<MemberChange<'_>> {
    users.iter().map(|user| MemberChange::Joined { user, from_seq }).collect()
}
