//! What one transaction writes: rows by table, heads and read cursors merged to their maximum, membership and settings.

use std::collections::BTreeMap;

use lapwing_model::{
    ConversationKey, Kind,
    fold::{MemberChange, header_changes, member_changes},
    record::key_of,
};
use lapwing_proto::record::{AuditRecord, Record, record::Body};

use crate::{batch::Row, side, topic::Item};

/// What a batch says of a conversation; None: that column stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conversation {
    pub kind: u8,
    pub head: u64,
    pub n: u64,
    pub member_count: Option<u32>,
    pub history_for_new_members: Option<bool>,
    pub created_at_ms: Option<u64>,
}

/// `from_seq` is None when the member had joined before this batch: only its end is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    pub key: ConversationKey,
    pub user: String,
    pub from_seq: Option<u64>,
    pub to_seq: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    pub tenant: String,
    pub user: String,
    pub conversation: String,
    pub read_seq: u64,
    pub read_n: u64,
    pub delivered_seq: u64,
}

#[derive(Debug, Default)]
pub struct Plan<'a> {
    /// By table; each sorted by primary key, so that transactions lock in one order.
    pub messages: BTreeMap<String, Vec<&'a Row>>,
    /// The rows may be there already, copied from another instance.
    pub again: bool,
    pub conversations: Vec<(ConversationKey, Conversation)>,
    pub members: Vec<Membership>,
    pub cursors: Vec<Cursor>,
    pub audits: Vec<AuditRecord>,
}

pub fn kind_number(conversation: &str) -> u8 {
    match Kind::of_conversation(conversation) {
        None => 0,
        Some(Kind::P2p) => 1,
        Some(Kind::Group) => 2,
        Some(Kind::System) => 3,
    }
}

impl<'a> Plan<'a> {
    /// `items` in log order; the unreadable ones are not for a plan.
    pub fn of(items: impl IntoIterator<Item = &'a Item>) -> Self {
        let mut messages: BTreeMap<String, Vec<&'a Row>> = BTreeMap::new();
        let mut conversations: BTreeMap<ConversationKey, Conversation> = BTreeMap::new();
        let mut members = Members::default();
        let mut cursors = CursorMaxima::default();
        let mut audits = Vec::new();
        for item in items {
            match item {
                Item::Row(row) => {
                    let (record, key) = (&row.record, key_of(&row.record));
                    messages.entry(row.table()).or_default().push(row);
                    members.fold(&key, record);
                    conversations.entry(key).or_default().fold(record);
                    cursors.fold(record);
                }
                Item::Cursor { cursor, .. } => cursors.add(cursor.clone()),
                Item::Audit { record, .. } => audits.push(AuditRecord::clone(record)),
                Item::Unreadable(_) => {}
            }
        }
        for table in messages.values_mut() {
            table.sort_by(|a, b| order(&a.record).cmp(&order(&b.record)));
        }
        Self {
            messages,
            again: false,
            conversations: conversations.into_iter().collect(),
            members: members.0.into_values().collect(),
            cursors: cursors.take(),
            audits: side::merge_audits(audits),
        }
    }

    pub fn rows(&self) -> usize {
        self.messages.values().map(Vec::len).sum()
    }
}

fn order(record: &Record) -> (&str, &str, u64) {
    (&record.tenant, &record.conversation, record.seq)
}

impl Conversation {
    fn fold(&mut self, record: &Record) {
        let (count, history) = header_changes(record);
        self.kind = kind_number(&record.conversation);
        self.head = self.head.max(record.seq);
        self.n = self.n.max(record.n);
        self.member_count = count.or(self.member_count);
        self.history_for_new_members = history.or(self.history_for_new_members);
        if matches!(record.body, Some(Body::Created(_))) {
            self.created_at_ms = Some(record.sent_at_ms);
        }
    }
}

#[derive(Default)]
struct Members(BTreeMap<(ConversationKey, String), Membership>);

impl Members {
    fn fold(&mut self, key: &ConversationKey, record: &Record) {
        for change in member_changes(record) {
            let (user, from_seq, to_seq) = match change {
                MemberChange::Joined { user, from_seq } => (user, Some(from_seq), 0),
                MemberChange::Left { user, to_seq } => (user, None, to_seq),
            };
            let member = self.0.entry((key.clone(), user.to_owned())).or_insert_with(|| Membership {
                key: key.clone(),
                user: user.to_owned(),
                from_seq: None,
                to_seq: 0,
            });
            member.from_seq = from_seq.or(member.from_seq);
            member.to_seq = to_seq;
        }
    }
}

/// Cursors merged to their maximum: order and doubles do not matter.
#[derive(Debug, Default)]
pub struct CursorMaxima(BTreeMap<(String, String, String), (u64, u64, u64)>);

impl CursorMaxima {
    /// R-FAN-8: a user's own message moves its read cursor.
    fn fold(&mut self, record: &Record) {
        if record.countable && !record.sender.is_empty() {
            self.add(Cursor {
                tenant: record.tenant.clone(),
                user: record.sender.clone(),
                conversation: record.conversation.clone(),
                read_seq: record.seq,
                read_n: record.n,
                delivered_seq: 0,
            });
        }
    }

    pub fn add(&mut self, cursor: Cursor) {
        let key = (cursor.tenant, cursor.user, cursor.conversation);
        let max = self.0.entry(key).or_default();
        max.0 = max.0.max(cursor.read_seq);
        max.1 = max.1.max(cursor.read_n);
        max.2 = max.2.max(cursor.delivered_seq);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sorted by primary key.
    pub fn take(self) -> Vec<Cursor> {
        self.0
            .into_iter()
            .map(|((tenant, user, conversation), (read_seq, read_n, delivered_seq))| Cursor {
                tenant,
                user,
                conversation,
                read_seq,
                read_n,
                delivered_seq,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lapwing_model::Position;
    use lapwing_proto::record::{Created, MembersAdded, MembersRemoved, Message, Settings, message};

    use super::*;

    fn row(conversation: &str, seq: u64, sender: &str, body: Body) -> Item {
        let countable = matches!(body, Body::Message(_));
        let record = Record {
            tenant: "t".into(),
            conversation: conversation.into(),
            seq,
            n: seq,
            sender: sender.into(),
            sent_at_ms: 1000 + seq,
            countable,
            body: Some(body),
            ..Record::default()
        };
        let row = Row {
            offset: seq,
            behind: Position::default(),
            shard: 3,
            own_table: None,
            record,
            raw: Bytes::new(),
        };
        Item::Row(Box::new(row))
    }

    fn text(conversation: &str, seq: u64, sender: &str) -> Item {
        let body = Message { body: Some(message::Body::Text("x".into())), r#type: String::new() };
        row(conversation, seq, sender, Body::Message(body))
    }

    // R-PST-3
    #[test]
    fn heads_and_read_cursors_are_merged_to_their_maximum() {
        let rows = [
            text("p2p.b", 4, "x"),
            text("p2p.a", 1, "x"),
            text("p2p.b", 5, "y"),
            text("p2p.b", 6, "x"),
            text("p2p.b", 7, ""),
        ];
        let plan = Plan::of(&rows);
        let heads: Vec<_> =
            plan.conversations.iter().map(|(k, c)| (&*k.conversation, c.head, c.n, c.kind)).collect();
        assert_eq!(heads, [("p2p.a", 1, 1, 1), ("p2p.b", 7, 7, 1)]);
        let cursors: Vec<_> =
            plan.cursors.iter().map(|c| (&*c.user, &*c.conversation, c.read_seq, c.read_n)).collect();
        assert_eq!(cursors, [("x", "p2p.a", 1, 1), ("x", "p2p.b", 6, 6), ("y", "p2p.b", 5, 5)]);
        let order: Vec<_> =
            plan.messages["messages_03"].iter().map(|r| (&*r.record.conversation, r.record.seq)).collect();
        assert_eq!(order, [("p2p.a", 1), ("p2p.b", 4), ("p2p.b", 5), ("p2p.b", 6), ("p2p.b", 7)]);
        assert!(plan.members.is_empty());
    }

    #[test]
    fn state_events_say_only_what_changes() {
        let users = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let added = |names: &[&str], from_seq, member_count| {
            Body::MembersAdded(MembersAdded {
                users: users(names),
                role: String::new(),
                member_count,
                from_seq,
            })
        };
        let removed = |names: &[&str], member_count| {
            Body::MembersRemoved(MembersRemoved { users: users(names), member_count })
        };
        let created = Created {
            kind: 2,
            name: "g".into(),
            members: users(&["a", "b"]),
            member_count: 2,
            ..Created::default()
        };
        let rows = [
            row("grp.g", 1, "a", Body::Created(created)),
            text("grp.g", 2, "a"),
            row("grp.g", 3, "", added(&["c"], 0, 3)),
            row("grp.g", 4, "", removed(&["b", "c"], 1)),
        ];
        let plan = Plan::of(&rows);
        let conversation = &plan.conversations[0].1;
        assert_eq!((conversation.head, conversation.member_count), (4, Some(1)));
        assert_eq!(
            (conversation.created_at_ms, conversation.history_for_new_members),
            (Some(1001), Some(false))
        );
        let members: Vec<_> = plan.members.iter().map(|m| (&*m.user, m.from_seq, m.to_seq)).collect();
        assert_eq!(members, [("a", Some(1), 0), ("b", Some(1), 4), ("c", Some(3), 4)]);

        let settings = Settings { history_for_new_members: true, ..Settings::default() };
        let later = [
            row("grp.g", 5, "", Body::Settings(settings)),
            row("grp.g", 6, "", added(&["b", "d"], 1, 3)),
            row("grp.g", 7, "", removed(&["a"], 2)),
        ];
        let plan = Plan::of(&later);
        let conversation = &plan.conversations[0].1;
        assert_eq!((conversation.history_for_new_members, conversation.created_at_ms), (Some(true), None));
        let members: Vec<_> = plan.members.iter().map(|m| (&*m.user, m.from_seq, m.to_seq)).collect();
        assert_eq!(members, [("a", None, 7), ("b", Some(1), 0), ("d", Some(1), 0)]);
    }
}
