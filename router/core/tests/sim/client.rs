//! Clients: sessions that send in order and retry with the same client_mid, and administrators with idempotent commands.

use std::collections::VecDeque;

use lapwing_proto::{
    bus::{self, publish_outcome, router_reply},
    client,
};
use lapwing_router_core::RequestId;
use rand::{Rng as _, rngs::StdRng};

use crate::{
    gateway::publish_item,
    plan::{GROUPS, TENANT, USERS, p2p},
};

#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) mid: String,
    pub(crate) content: String,
    pub(crate) attempt: u32,
    /// An earlier attempt is without an answer, so a refusal settles nothing.
    pub(crate) unclear: bool,
    /// A client_mid that was used before, with other content.
    pub(crate) reused: bool,
    /// With a gateway.
    pub(crate) out: bool,
}

pub(crate) struct Session {
    pub(crate) user: String,
    pub(crate) conversation: String,
    pub(crate) todo: VecDeque<Item>,
    pub(crate) flight: Option<(RequestId, u64)>,
    pub(crate) gateway: usize,
    pub(crate) connection: u64,
    /// Accepted, in sending order as far as known.
    pub(crate) accepted: Vec<(u64, u64)>,
    sent: u64,
}

/// What a client makes of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    Published(client::Published),
    /// For good.
    Refused,
    /// For now, and nothing of it was handed over: given up, it is as if it had never been sent.
    Later,
    /// It may stand.
    Unknown,
}

/// What became of one item of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Word {
    Published(client::Published),
    /// For good.
    Refused(String),
    /// Refused for now, or another one owns it and nothing was produced.
    Later,
    /// In hand when the owner changed, and certainly not in the log.
    Redirected,
    /// Nothing was said: it may stand.
    Nothing,
}

pub(crate) fn content(text: &str) -> client::Content {
    client::Content { body: Some(client::content::Body::Text(text.into())), ..Default::default() }
}

impl Session {
    pub(crate) fn new(user: &str, conversation: &str, gateway: usize) -> Self {
        Self {
            user: user.into(),
            conversation: conversation.into(),
            todo: VecDeque::new(),
            flight: None,
            gateway,
            connection: 0,
            accepted: Vec::new(),
            sent: 0,
        }
    }

    /// Something new to send, once in a while under a client_mid that was used already.
    pub(crate) fn write(&mut self, random: &mut StdRng, number: usize) {
        self.sent += 1;
        let reused = self.sent > 3 && random.random_bool(0.05);
        let name = if reused { random.random_range(1..self.sent) } else { self.sent };
        let mid = format!("{number}-{name}");
        if self.todo.iter().any(|item| item.mid == mid) {
            return;
        }
        let content = if reused { format!("{mid} again as {}", self.sent) } else { mid.clone() };
        // A client that uses an id again does not know that it does; marked as a retry it is always found out.
        let attempt = if reused { 1 } else { 0 };
        self.todo.push_back(Item { mid, content, attempt, unclear: false, reused, out: false });
    }

    /// The next batch, in order.
    pub(crate) fn batch(&mut self, count: usize, marked: bool, now: u64) -> bus::PublishBatch {
        let items = self.todo.iter_mut().take(count).map(|item| {
            item.attempt += 1;
            publish_item(item, marked)
        });
        bus::PublishBatch {
            items: items.collect(),
            tenant: TENANT.into(),
            conversation: self.conversation.clone(),
            sender: self.user.clone(),
            sent_at_ms: now,
            ..bus::PublishBatch::default()
        }
    }

    pub(crate) fn give_up_flight(&mut self, request: RequestId, mids: &[String]) {
        if self.flight.is_some_and(|(flight, _)| flight == request) {
            self.flight = None;
            for item in self.todo.iter_mut().filter(|item| mids.contains(&item.mid)) {
                item.unclear = true;
            }
        }
    }
}

/// One word an item.
pub(crate) fn words(reply: &bus::RouterReply, items: usize) -> Vec<Word> {
    match &reply.body {
        Some(router_reply::Body::Publish(reply)) => reply.outcomes.iter().map(word).collect(),
        Some(router_reply::Body::NotOwner(_)) => vec![Word::Later; items],
        other => panic!("a publish was answered {other:?}"),
    }
}

fn word(outcome: &bus::PublishOutcome) -> Word {
    match outcome.outcome.clone() {
        Some(publish_outcome::Outcome::Published(published)) => Word::Published(published),
        Some(publish_outcome::Outcome::Error(error)) if error.temporary => Word::Later,
        Some(publish_outcome::Outcome::Error(error)) => Word::Refused(error.name),
        Some(publish_outcome::Outcome::NotOwner(_)) => Word::Redirected,
        None => Word::Nothing,
    }
}

/// A command until it is answered.
#[derive(Default)]
pub(crate) struct Admin {
    thoughts: u64,
    pub(crate) todo: Option<(String, bus::command::Body)>,
    pub(crate) flight: Option<(RequestId, u64)>,
}

impl Admin {
    pub(crate) fn think(&mut self, random: &mut StdRng) {
        let group = GROUPS[random.random_range(0..GROUPS.len())].as_str();
        let some = |random: &mut StdRng, n: usize| -> Vec<String> {
            (0..n).map(|_| USERS[random.random_range(0..USERS.len())].to_owned()).collect()
        };
        let p2p = p2p();
        self.thoughts += 1;
        let choice = if self.thoughts <= 3 { 0 } else { random.random_range(0..10) };
        let (to, body) = match choice {
            0 if self.thoughts == 3 => {
                let ask = bus::EnsureP2p { a: USERS[0].into(), b: USERS[1].into() };
                (p2p, bus::command::Body::EnsureP2p(ask))
            }
            0..3 => {
                let ask = bus::CreateGroup { name: "g".into(), members: some(random, 4), settings: None };
                (group.to_owned(), bus::command::Body::CreateGroup(ask))
            }
            3..6 => {
                let ask = bus::AddMembers { users: some(random, 2) };
                (group.to_owned(), bus::command::Body::AddMembers(ask))
            }
            6..8 => {
                let ask = bus::RemoveMembers { users: some(random, 1) };
                (group.to_owned(), bus::command::Body::RemoveMembers(ask))
            }
            8 => (p2p, bus::command::Body::RemoveMembers(bus::RemoveMembers { users: some(random, 1) })),
            _ => {
                let ask = bus::EnsureP2p { a: USERS[0].into(), b: USERS[1].into() };
                (p2p, bus::command::Body::EnsureP2p(ask))
            }
        };
        self.todo = Some((to, body));
    }
}
