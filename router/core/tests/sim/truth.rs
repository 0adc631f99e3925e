//! The log folded plainly, by code of its own, and what everyone was told compared with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lapwing_contracts::{OfUser, Piece};
use lapwing_model::{ConversationKey, Header, Member, MidEntry, view::mid_hash};
use lapwing_proto::{
    Message as _, client,
    record::{Record, record::Body},
};

use crate::{log::Log, redis::family_of, world::Part};

/// A user's times in a conversation: from, to (0 = still there).
pub(crate) type Times = BTreeMap<(String, String), Vec<(u64, u64)>>;

/// (sender, client_mid) → where it stands: conversation, seq, text.
type ByMid = BTreeMap<(String, String), Vec<(String, u64, String)>>;

#[derive(Default)]
pub(crate) struct Truth {
    pub(crate) heads: BTreeMap<String, Header>,
    pub(crate) times: Times,
    /// Since which offset a user is a member or is not.
    membership: BTreeMap<(String, String), Vec<(u64, bool)>>,
    rows: BTreeMap<(ConversationKey, u64), Record>,
    pub(crate) by_mid: ByMid,
    read: BTreeMap<(String, String), (u64, u64)>,
    mids: BTreeMap<[u8; 16], MidEntry>,
    peers: BTreeSet<String>,
    pub(crate) wrong: Vec<String>,
}

impl Truth {
    pub(crate) fn of(log: &Log) -> Self {
        let mut truth = Self::default();
        for ((conversation, seq), offsets) in &log.valid {
            if offsets.len() > 1 {
                truth.wrong.push(format!("{conversation} has seq {seq} at the offsets {offsets:?}"));
            }
        }
        for (offset, record) in log.events() {
            truth.fold(offset, &record);
        }
        truth
    }

    fn active(&self, conversation: &str, user: &str) -> bool {
        let times = self.times.get(&(conversation.to_owned(), user.to_owned()));
        times.and_then(|times| times.last()).is_some_and(|(_, to)| *to == 0)
    }

    fn fold(&mut self, offset: u64, record: &Record) {
        self.rows.insert((lapwing_model::record::key_of(record), record.seq), record.clone());
        let place = format!("{} seq {} at offset {offset}", record.conversation, record.seq);
        let header = self.heads.entry(record.conversation.clone()).or_default();
        if record.seq != header.head + 1 {
            self.wrong.push(format!("{place} follows seq {}", header.head));
        }
        if record.n != header.n + u64::from(record.countable) {
            self.wrong.push(format!("{place} has n {} after {}", record.n, header.n));
        }
        (header.head, header.n) = (record.seq, record.n);
        if let Some(Body::Message(message)) = &record.body {
            self.fold_message(&place, record, message);
        } else {
            self.fold_members(&place, offset, record);
        }
    }

    fn fold_message(&mut self, place: &str, record: &Record, message: &lapwing_proto::record::Message) {
        if !self.active(&record.conversation, &record.sender) {
            self.wrong.push(format!("{place} is of {}, who is no member then", record.sender));
        }
        let said = match &message.body {
            Some(lapwing_proto::record::message::Body::Text(text)) => text.clone(),
            other => format!("{other:?}"),
        };
        let mid = (record.sender.clone(), record.client_mid.clone());
        self.by_mid.entry(mid).or_default().push((record.conversation.clone(), record.seq, said));
        self.read.insert((record.sender.clone(), record.conversation.clone()), (record.seq, record.n));
        let entry = MidEntry {
            seq: record.seq,
            n: record.n,
            sent_at_ms: record.sent_at_ms,
            content_hash: record.content_hash[..].try_into().unwrap(),
        };
        self.mids.insert(mid_hash(&record.tenant, &record.sender, &record.client_mid), entry);
    }

    fn fold_members(&mut self, place: &str, offset: u64, record: &Record) {
        let (joined, left, count): (&[String], &[String], u32) = match record.body.as_ref().unwrap() {
            Body::Created(created) => (&created.members, &[], created.member_count),
            Body::MembersAdded(added) => (&added.users, &[], added.member_count),
            Body::MembersRemoved(removed) => (&[], &removed.users, removed.member_count),
            other => panic!("{other:?}"),
        };
        let p2p = record.conversation.starts_with("p2p.");
        let from = if p2p || record.seq == 1 { 1 } else { record.seq };
        for user in joined {
            if self.active(&record.conversation, user) {
                self.wrong.push(format!("{place} adds {user}, who is a member"));
            }
            self.times.entry((record.conversation.clone(), user.clone())).or_default().push((from, 0));
            self.note(record, user, offset, true);
        }
        for user in left {
            if !self.active(&record.conversation, user) {
                self.wrong.push(format!("{place} removes {user}, who is no member"));
            }
            self.note(record, user, offset, false);
            let times = self.times.entry((record.conversation.clone(), user.clone())).or_default();
            if let Some(last) = times.last_mut() {
                last.1 = record.seq;
            }
        }
        if p2p && record.seq == 1 {
            self.peers.insert(record.conversation.clone());
        }
        let active = self
            .times
            .iter()
            .filter(|((conversation, _), times)| {
                *conversation == record.conversation && times.last().is_some_and(|last| last.1 == 0)
            })
            .count() as u32;
        if count != active {
            self.wrong.push(format!("{place} counts {count} members, there are {active}"));
        }
        self.heads.entry(record.conversation.clone()).or_default().member_count = count;
    }

    fn note(&mut self, record: &Record, user: &str, offset: u64, is: bool) {
        let place = (record.conversation.clone(), user.to_owned());
        self.membership.entry(place).or_default().push((offset, is));
    }

    /// In each prefix of the log from one length to the other.
    pub(crate) fn was_member(&self, conversation: &str, user: &str, from: u64, to: u64) -> bool {
        let Some(changes) = self.membership.get(&(conversation.to_owned(), user.to_owned())) else {
            return false;
        };
        let at = |len: u64| changes.iter().rev().find(|(offset, _)| *offset < len).is_some_and(|(_, is)| *is);
        at(from) && changes.iter().all(|(offset, is)| *is || *offset < from || *offset >= to)
    }

    pub(crate) fn sees(&self, conversation: &str, user: &str, seq: u64) -> bool {
        let times = self.times.get(&(conversation.to_owned(), user.to_owned()));
        times.is_some_and(|times| times.iter().any(|(from, to)| seq >= *from && (*to == 0 || seq <= *to)))
    }

    fn members(&self) -> BTreeMap<(String, String), Member> {
        let last = |times: &Vec<(u64, u64)>| times.last().map(|(from, to)| (*from, *to)).unwrap_or_default();
        self.times
            .iter()
            .map(|(place, times)| {
                let (from_seq, to_seq) = last(times);
                (place.clone(), Member { from_seq, to_seq })
            })
            .collect()
    }

    /// The views must hold what the log says, at a position that the log has.
    pub(crate) fn compare(&mut self, part: &Part) {
        let log = &part.log;
        let (mut commit, mut user) = (Piece::default(), Piece::default());
        for (number, piece) in part.pieces.iter().enumerate() {
            let (view, at) = (&piece.view, piece.view.position());
            let there = log.position(at.offset.min(log.len()));
            if at != there {
                self.wrong.push(format!("piece {number} stands at {at:?}, the log at {there:?}"));
            }
            match family_of(number) {
                lapwing_model::Family::Commit => absorb(&mut commit, view),
                lapwing_model::Family::User => absorb(&mut user, view),
            }
        }
        let key = |conversation: &String| ConversationKey::new("t", conversation.as_str());
        let heads: BTreeMap<_, _> = self.heads.iter().map(|(of, header)| (key(of), header.clone())).collect();
        self.same("heads", &commit.heads, &heads);
        let members: BTreeMap<_, _> = self
            .members()
            .into_iter()
            .map(|((of, user), member)| ((key(&of), Arc::<str>::from(user)), member))
            .collect();
        self.same("members", &commit.members, &members);
        let mids: BTreeMap<_, _> = commit.mids.iter().map(|((.., mid), entry)| (*mid, *entry)).collect();
        let expected = self.mids.clone();
        self.same("client_mids", &mids, &expected);
        let told = |event: &bytes::Bytes| {
            let event = client::Event::decode(event.clone()).unwrap_or_default();
            (event.conversation, event.seq, event.n, event.sender, event.client_mid)
        };
        let hot: Vec<_> = commit.hot.values().map(told).collect();
        let mut events: Vec<_> = log
            .events()
            .into_iter()
            .map(|(_, of)| (of.conversation, of.seq, of.n, of.sender, of.client_mid))
            .collect();
        events.sort();
        self.same("hot windows", &hot, &events);
        let by_user = |of: &BTreeMap<OfUser, Member>| -> BTreeMap<(String, String), Member> {
            of.iter().map(|((_, user, of), member)| ((of.to_string(), user.to_string()), *member)).collect()
        };
        let members = self.members();
        self.same("users' conversations", &by_user(&user.joined), &members);
        let read: BTreeMap<_, _> = user
            .sent
            .keys()
            .chain(user.cursors.keys())
            .map(|place| (place, user.cursor(place)))
            .map(|((_, user, of), (seq, n, _))| ((user.to_string(), of.to_string()), (seq, n)))
            .collect();
        let expected = self.read.clone();
        self.same("read cursors", &read, &expected);
        let peers: BTreeSet<_> = user.peers.keys().map(|(_, _, of)| of.to_string()).collect();
        let expected = self.peers.clone();
        self.same("peers", &peers, &expected);
    }

    /// What the persister wrote is what stands up to its position.
    pub(crate) fn compare_tables(&mut self, part: &Part) {
        let tables = &part.persister.tables;
        let end = part.log.end();
        // What nobody can read at the very end is held back until more follows.
        if !part.persister.stopped && (tables.at.epoch, tables.at.index) != (end.epoch, end.index) {
            self.wrong.push(format!("{}: MySQL is at {:?}, the log ends at {end:?}", part.id, tables.at));
        }
        if part.persister.stopped {
            return;
        }
        let rows = self.rows.clone();
        self.same("messages", &tables.messages, &rows);
        let heads: BTreeMap<_, _> = tables
            .conversations
            .iter()
            .map(|(key, of)| {
                let header = Header {
                    head: of.head,
                    n: of.n,
                    member_count: of.member_count.unwrap_or_default(),
                    history_for_new_members: of.history_for_new_members.unwrap_or_default(),
                };
                (key.conversation.to_string(), header)
            })
            .collect();
        let expected = self.heads.clone();
        self.same("MySQL's heads", &heads, &expected);
        let members: BTreeMap<_, _> = tables
            .members
            .iter()
            .map(|((key, user), (from_seq, to_seq))| {
                let member = Member { from_seq: *from_seq, to_seq: *to_seq };
                ((key.conversation.to_string(), user.clone()), member)
            })
            .collect();
        let expected = self.members();
        self.same("MySQL's members", &members, &expected);
        let expected = self.read.clone();
        self.same("MySQL's cursors", &tables.cursors, &expected);
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, view: &T, log: &T) {
        if view != log {
            self.wrong.push(format!("the view's {what} are {view:?}, the log's {log:?}"));
        }
    }
}

fn absorb(into: &mut Piece, other: &Piece) {
    into.heads.extend(other.heads.clone());
    into.hot.extend(other.hot.clone());
    into.mids.extend(other.mids.clone());
    into.members.extend(other.members.clone());
    into.joined.extend(other.joined.clone());
    into.peers.extend(other.peers.clone());
    into.cursors.extend(other.cursors.clone());
    into.sent.extend(other.sent.clone());
}
