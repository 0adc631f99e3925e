//! What becomes of one publish or command, given the state with pending events: pure questions and answers.

use bytes::Bytes;
use lapwing_model::{Code, ConversationKey, Header, Kind, MidEntry, Refusal, event};
use lapwing_proto::{
    bus,
    record::{self, Record, record::Body},
};

use crate::{
    Own,
    admission::{Entry, LookupDone, Publish},
    commit::not_ready,
    conversation::Conversation,
};

/// Largest list of members in one event.
pub(crate) const MAX_LIST: usize = 1000;
pub(crate) const MAX_MEMBERS: u32 = 100_000;

pub(crate) enum Decision {
    Wait,
    AskWindow,
    Refuse(Refusal),
    Duplicate(MidEntry),
    Unchanged,
    Produce(Vec<Record>),
}

pub(crate) fn conflict(key: &ConversationKey, client_mid: &str) -> Refusal {
    let message = format!(
        "{}: client_mid {client_mid} was used for other content or in another conversation; use a new one",
        key.conversation
    );
    Refusal::new(Code::ClientMidConflict, message)
}

pub(crate) fn behind_refusal(key: &ConversationKey) -> Refusal {
    not_ready(key, "what was sent before it was refused for now; send them again in their order")
}

fn not_found(key: &ConversationKey) -> Refusal {
    Refusal::new(Code::NotFound, format!("{}: no such conversation", key.conversation))
}

pub(crate) fn decide_publish(
    publish: &Publish,
    entry: &Entry,
    lookup: &LookupDone,
    conversation: &Conversation,
    key: &ConversationKey,
) -> Decision {
    let used_before = matches!(entry.own, Own::SameContent | Own::OtherContent);
    if !lookup.window_known && used_before && !entry.asked_window {
        return Decision::AskWindow;
    }
    // While the window cannot be read a first attempt passes, a retry waits (R-ACK-4).
    if !lookup.window_known && (used_before || !publish.first_attempt) {
        return Decision::Refuse(not_ready(key, "the dedupe window cannot be read now"));
    }
    if !conversation.loaded {
        return Decision::Refuse(not_ready(key, "its state cannot be read now"));
    }
    if entry.own == Own::OtherContent {
        return Decision::Refuse(conflict(key, &publish.item.client_mid));
    }
    if conversation.head().head == 0 {
        return Decision::Refuse(not_found(key));
    }
    if !publish.server {
        match conversation.member(&publish.sender) {
            None => return Decision::Refuse(not_ready(key, "its members cannot be read now")),
            Some(Some(member)) if member.active() => {}
            // A p2p conversation of two others answers like one that does not exist.
            Some(None) if Kind::of_conversation(&key.conversation) == Some(Kind::P2p) => {
                return Decision::Refuse(not_found(key));
            }
            Some(_) => {
                let message = format!("{}: {} is not a member", key.conversation, publish.sender);
                return Decision::Refuse(Refusal::new(Code::Forbidden, message));
            }
        }
    }
    let content = publish.item.content.clone().unwrap_or_default();
    Decision::Produce(vec![Record {
        sender: publish.sender.to_string(),
        device: publish.device.clone(),
        client_mid: publish.item.client_mid.clone(),
        content_hash: Bytes::copy_from_slice(&publish.hash),
        receipt: publish.item.receipt,
        countable: true,
        body: Some(Body::Message(event::of_client(content))),
        ..Record::default()
    }])
}

pub(crate) fn decide_command(
    body: &bus::command::Body,
    conversation: &Conversation,
    key: &ConversationKey,
) -> Decision {
    if !conversation.loaded {
        return Decision::Refuse(not_ready(key, "its state cannot be read now"));
    }
    let header = conversation.head();
    let exists = header.exists();
    let active = |user: &String| matches!(conversation.member(user), Some(Some(member)) if member.active());
    let known = |users: &[String]| users.iter().all(|user| conversation.member(user).is_some());
    let pick = |users: &[String], wanted: bool| -> Vec<String> {
        let mut picked: Vec<String> = users.iter().filter(|user| active(user) == wanted).cloned().collect();
        picked.sort_unstable();
        picked.dedup();
        picked
    };
    let unknown = || Decision::Refuse(not_ready(key, "its members cannot be read now"));
    match body {
        bus::command::Body::EnsureP2p(ask) => {
            let users = [ask.a.clone(), ask.b.clone()];
            match (exists, known(&users)) {
                (false, _) => Decision::Produce(create(record::Kind::P2p, "", &dedup(&users), None)),
                (true, false) => unknown(),
                // R-PERM-2: repairs both sides.
                (true, true) => join(key, pick(&users, false), header.member_count, 1),
            }
        }
        bus::command::Body::CreateGroup(ask) => {
            let settings = ask.settings.clone().map(event::settings_of_client);
            match (exists, known(&ask.members)) {
                (false, _) if ask.members.len() > MAX_MEMBERS as usize => too_many(key),
                (false, _) => {
                    Decision::Produce(create(record::Kind::Group, &ask.name, &dedup(&ask.members), settings))
                }
                (true, false) => unknown(),
                (true, true) => {
                    join(key, pick(&ask.members, false), header.member_count, history_from(header))
                }
            }
        }
        bus::command::Body::AddMembers(_) | bus::command::Body::RemoveMembers(_) if !exists => {
            Decision::Refuse(not_found(key))
        }
        bus::command::Body::AddMembers(ask) if known(&ask.users) => {
            join(key, pick(&ask.users, false), header.member_count, history_from(header))
        }
        bus::command::Body::RemoveMembers(ask) if known(&ask.users) => {
            leave(pick(&ask.users, true), header.member_count)
        }
        _ => unknown(),
    }
}

fn history_from(header: &Header) -> u64 {
    u64::from(header.history_for_new_members)
}

fn dedup(users: &[String]) -> Vec<String> {
    let mut users = users.to_vec();
    users.sort_unstable();
    users.dedup();
    users
}

fn create(
    kind: record::Kind,
    name: &str,
    members: &[String],
    settings: Option<record::Settings>,
) -> Vec<Record> {
    let (first, rest) = members.split_at(members.len().min(MAX_LIST));
    let from_seq = 1;
    let created = record::Created {
        kind: kind.into(),
        name: name.to_owned(),
        settings,
        members: first.to_vec(),
        member_count: first.len() as u32,
    };
    let mut records = vec![Record { body: Some(Body::Created(created)), ..Record::default() }];
    records.extend(added(rest, first.len() as u32, from_seq));
    records
}

fn added(users: &[String], before: u32, from_seq: u64) -> impl Iterator<Item = Record> {
    users.chunks(MAX_LIST).enumerate().map(move |(i, users)| {
        let member_count = before + (i * MAX_LIST + users.len()) as u32;
        let body =
            record::MembersAdded { users: users.to_vec(), role: String::new(), member_count, from_seq };
        Record { body: Some(Body::MembersAdded(body)), ..Record::default() }
    })
}

fn join(key: &ConversationKey, users: Vec<String>, before: u32, from_seq: u64) -> Decision {
    if users.is_empty() {
        return Decision::Unchanged;
    }
    if before + users.len() as u32 > MAX_MEMBERS {
        return too_many(key);
    }
    Decision::Produce(added(&users, before, from_seq).collect())
}

fn too_many(key: &ConversationKey) -> Decision {
    let message = format!("{}: a group has at most {MAX_MEMBERS} members", key.conversation);
    Decision::Refuse(Refusal::new(Code::Invalid, message))
}

fn leave(users: Vec<String>, before: u32) -> Decision {
    if users.is_empty() {
        return Decision::Unchanged;
    }
    let removed = users.chunks(MAX_LIST).enumerate().map(|(i, users)| {
        let gone = (i * MAX_LIST + users.len()) as u32;
        let member_count = before.saturating_sub(gone);
        let body = record::MembersRemoved { users: users.to_vec(), member_count };
        Record { body: Some(Body::MembersRemoved(body)), ..Record::default() }
    });
    Decision::Produce(removed.collect())
}
