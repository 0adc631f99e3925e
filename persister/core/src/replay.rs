//! A dead letter on its way back (R-PST-5): what it is, and what it still changes when newer rows stand behind it.

use bytes::Bytes;
use lapwing_model::{
    ConversationKey, Kind, Position,
    record::{self, key_of},
};
use lapwing_proto::record::Record;

use crate::{
    batch::Row,
    plan::{Conversation, Members, Plan},
    side,
    topic::Item,
};

/// Reads a dead letter again; Err: why it can never be a row. `was_row`: it was a valid event when it died.
pub fn revive(topic: &str, offset: u64, was_row: bool, payload: Bytes) -> Result<Item, String> {
    let raw = payload.clone();
    match topic {
        side::CURSOR_TOPIC => match side::cursor(Some(payload))? {
            Some(cursor) if !cursor.user.is_empty() && !cursor.conversation.is_empty() => {
                Ok(Item::Cursor { offset, cursor, raw })
            }
            _ => Err("a cursor of nobody".to_owned()),
        },
        side::AUDIT_TOPIC => match side::audit(Some(payload))? {
            Some(record) if !record.session.is_empty() => {
                Ok(Item::Audit { offset, record: Box::new(record), raw })
            }
            _ => Err("an audit of no session".to_owned()),
        },
        _ if Kind::of_topic(topic).is_none() => Err(format!("nothing of {topic} goes to MySQL")),
        // What could not be read was stepped over only because the epoch's next record continued the index without it. So by
        // the rule of validity it is void for every reader, whether it can be read now or not.
        _ if !was_row => {
            Err("it was no valid record: its epoch goes on with the next index without it".to_owned())
        }
        _ => {
            let read = record::decode(offset, Some(&raw)).map_err(|error| error.to_string())?;
            if !record::is_event(&read) {
                return Err("no event of a conversation".to_owned());
            }
            Ok(Item::Row(Box::new(Row::of(offset, Position::default(), read, raw))))
        }
    }
}

/// A state event, folded again together with everything newer that has a row. What it writes is what all of them together say of
/// the users that it names and of the conversation, so nothing moves back, and a part that nothing newer contradicts is made up for.
#[derive(Debug)]
pub struct Refold<'a> {
    row: &'a Row,
    key: ConversationKey,
    conversation: Conversation,
    members: Members,
}

impl<'a> Refold<'a> {
    pub fn new(row: &'a Row) -> Self {
        let (key, record) = (key_of(&row.record), &row.record);
        let (mut conversation, mut members) = (Conversation::default(), Members::default());
        conversation.fold(record);
        members.fold(&key, record);
        Self { row, key, conversation, members }
    }

    /// Each newer state event of the conversation that has a row, in order of seq.
    pub fn newer(&mut self, record: &Record) {
        debug_assert!(record.seq > self.row.record.seq);
        self.conversation.fold(record);
        self.members.fold_known(&self.key, record);
    }

    pub fn plan(self) -> Plan<'a> {
        Plan {
            messages: [(self.row.shard, vec![self.row])].into(),
            conversations: vec![(self.key, self.conversation)],
            members: self.members.take(),
            ..Plan::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use lapwing_proto::{
        Message as _,
        record::{
            AuditRecord, CursorRecord, MembersAdded, MembersRemoved, Message, Settings, message, record::Body,
        },
    };

    use super::*;

    fn event(seq: u64, body: Body) -> Record {
        Record {
            tenant: "t".into(),
            conversation: "grp.g".into(),
            seq,
            n: 1,
            body: Some(body),
            ..Record::default()
        }
    }

    fn users(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn added(seq: u64, names: &[&str], from_seq: u64, member_count: u32) -> Record {
        let role = String::new();
        event(seq, Body::MembersAdded(MembersAdded { users: users(names), role, member_count, from_seq }))
    }

    fn removed(seq: u64, names: &[&str], member_count: u32) -> Record {
        event(seq, Body::MembersRemoved(MembersRemoved { users: users(names), member_count }))
    }

    /// User, from, to.
    type Times = Vec<(String, Option<u64>, u64)>;

    /// Of a replay of the first with the others as rows: members, the conversation, the rows written.
    fn replayed(dead: Record, newer: &[Record]) -> (Times, Conversation, Vec<u64>) {
        let row = Row::of(7, Position::default(), dead, Bytes::new());
        let mut refold = Refold::new(&row);
        newer.iter().for_each(|record| refold.newer(record));
        let plan = refold.plan();
        let members = plan.members.iter().map(|m| (m.user.clone(), m.from_seq, m.to_seq)).collect();
        let rows = plan.messages.values().flatten().map(|row| row.record.seq).collect();
        (members, plan.conversations[0].1.clone(), rows)
    }

    // R-PST-5
    #[test]
    fn an_old_removal_takes_nobody_away_who_came_back_and_still_removes_the_others() {
        let dead = removed(5, &["ann", "bob"], 1);
        let (members, conversation, rows) =
            replayed(dead, &[added(8, &["ann", "eve"], 1, 3), removed(9, &["eve"], 2)]);
        let of = |name: &str, from, to| (name.to_owned(), from, to);
        assert_eq!(members, [of("ann", Some(1), 0), of("bob", None, 5)], "eve is not named by it");
        assert_eq!((conversation.head, conversation.member_count), (9, Some(2)), "the newest count");
        assert_eq!(rows, [5], "the newer rows are there already");
    }

    // R-PST-5
    #[test]
    fn an_old_join_gives_back_the_time_between_it_and_a_newer_removal() {
        let (members, conversation, _) = replayed(added(5, &["bob"], 0, 3), &[removed(9, &["bob"], 2)]);
        assert_eq!(members, [("bob".to_owned(), Some(5), 9)]);
        assert_eq!(conversation.member_count, Some(2));
        let (members, conversation, _) = replayed(added(5, &["bob"], 0, 3), &[]);
        assert_eq!(members, [("bob".to_owned(), Some(5), 0)]);
        assert_eq!(conversation.member_count, Some(3));
    }

    // R-PST-5
    #[test]
    fn old_settings_do_not_replace_newer_ones() {
        let settings = |seq, open| {
            event(seq, Body::Settings(Settings { history_for_new_members: open, ..Settings::default() }))
        };
        let (_, conversation, _) = replayed(settings(5, true), &[settings(6, false), removed(7, &["x"], 4)]);
        assert_eq!((conversation.history_for_new_members, conversation.member_count), (Some(false), Some(4)));
        assert_eq!(replayed(settings(5, true), &[]).1.history_for_new_members, Some(true));
    }

    // R-PST-5
    #[test]
    fn only_what_was_valid_or_has_no_order_comes_back() {
        let body = Message { body: Some(message::Body::Text("x".into())), r#type: String::new() };
        let raw = Bytes::from(event(4, Body::Message(body)).encode_to_vec());
        let Ok(Item::Row(row)) = revive("lapwing.group", 9, true, raw.clone()) else { panic!("a row") };
        assert_eq!((row.offset, row.record.seq, row.raw), (9, 4, raw.clone()));
        let never = revive("lapwing.group", 9, false, raw.clone()).unwrap_err();
        assert!(never.contains("no valid record"), "{never}");
        assert!(revive("lapwing.group", 9, true, Bytes::from_static(b"\xff")).is_err());
        assert!(revive("lapwing.tenants", 9, true, raw).is_err());

        let cursor =
            CursorRecord { user: "ann".into(), conversation: "grp.g".into(), ..CursorRecord::default() };
        let cursor = Bytes::from(cursor.encode_to_vec());
        assert!(matches!(revive("lapwing.cursor", 1, false, cursor), Ok(Item::Cursor { .. })));
        assert!(revive("lapwing.cursor", 1, false, Bytes::new()).is_err(), "its bytes were never had");
        let audit = AuditRecord { session: "s".into(), ..AuditRecord::default() };
        let audit = Bytes::from(audit.encode_to_vec());
        assert!(matches!(revive("lapwing.audit", 1, false, audit), Ok(Item::Audit { .. })));
        assert!(revive("lapwing.audit", 1, false, Bytes::new()).is_err());
    }
}
