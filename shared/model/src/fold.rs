//! What a valid record changes: the fold that owner, Redis and MySQL share, so that they cannot disagree.

use lapwing_proto::record::{Record, Settings, record::Body};

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
        let (count, history) = header_changes(record);
        self.member_count = count.unwrap_or(self.member_count);
        self.history_for_new_members = history.unwrap_or(self.history_for_new_members);
    }
}

/// A membership change of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberChange<'a> {
    Joined { user: &'a str, from_seq: u64 },
    Left { user: &'a str, to_seq: u64 },
}

/// The membership changes of a record: a function of the record alone, so that every view can apply it blindly.
pub fn member_changes(record: &Record) -> Vec<MemberChange<'_>> {
    match &record.body {
        Some(Body::Created(created)) => joined_from(&created.members, record.seq),
        Some(Body::MembersAdded(added)) => {
            joined_from(&added.users, if added.from_seq == 0 { record.seq } else { added.from_seq })
        }
        Some(Body::MembersRemoved(removed)) => {
            removed.users.iter().map(|user| MemberChange::Left { user, to_seq: record.seq }).collect()
        }
        _ => Vec::new(),
    }
}

fn joined_from(users: &[String], from_seq: u64) -> Vec<MemberChange<'_>> {
    users.iter().map(|user| MemberChange::Joined { user, from_seq }).collect()
}

/// What a record says about its conversation beside head and n: new member count, new setting for new members.
pub fn header_changes(record: &Record) -> (Option<u32>, Option<bool>) {
    let history = |settings: Option<&Settings>| settings.is_some_and(|s| s.history_for_new_members);
    match &record.body {
        Some(Body::Created(created)) => {
            (Some(created.member_count), Some(history(created.settings.as_ref())))
        }
        Some(Body::MembersAdded(added)) => (Some(added.member_count), None),
        Some(Body::MembersRemoved(removed)) => (Some(removed.member_count), None),
        Some(Body::Settings(settings)) => (None, Some(history(Some(settings)))),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use lapwing_proto::record::{Created, MembersAdded, MembersRemoved};

    use super::*;

    fn record(seq: u64, n: u64, body: Body) -> Record {
        Record { seq, n, conversation: "grp.g".into(), body: Some(body), ..Record::default() }
    }

    #[test]
    fn members_see_from_their_join_to_their_removal() {
        let added = MembersAdded { users: vec!["eve".into()], member_count: 2, ..MembersAdded::default() };
        let added = record(5, 3, Body::MembersAdded(added));
        assert_eq!(member_changes(&added), [MemberChange::Joined { user: "eve", from_seq: 5 }]);
        let removed = MembersRemoved { users: vec!["eve".into()], member_count: 1 };
        let removed = record(9, 6, Body::MembersRemoved(removed));
        assert_eq!(member_changes(&removed), [MemberChange::Left { user: "eve", to_seq: 9 }]);
        let member = Member { from_seq: 5, to_seq: 9 };
        assert_eq!([4, 5, 9, 10].map(|seq| member.sees(seq)), [false, true, true, false]);
        assert_eq!(Member::decode(&member.encode()), Some(member));
    }

    #[test]
    fn the_header_follows_the_newest_record() {
        let mut header = Header::default();
        let settings = Some(Settings { history_for_new_members: true, ..Settings::default() });
        let created = Created { member_count: 3, settings, ..Created::default() };
        header.fold(&record(1, 0, Body::Created(created)));
        header.fold(&record(2, 1, Body::Message(Default::default())));
        assert_eq!(header, Header { head: 2, n: 1, member_count: 3, history_for_new_members: true });
    }
}
