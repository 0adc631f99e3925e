//! One owner between a log, a view and its clients, each step at the test's command.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use lapwing_contracts::Piece;
use lapwing_model::{
    ConversationKey, Family, PartitionId, Position,
    kind::p2p_id,
    record::content_hash,
    view::{Applied, Expect},
};
use lapwing_proto::{
    Message as _, bus,
    bus::{publish_outcome, router_reply},
    client,
    record::{Claim, Record, record::Body},
};
use lapwing_router_core::{
    Effect, Lookup, LookupAnswer, Now, Options, Own, Partition, Released, RequestId, State, view::ViewCursor,
};

use crate::view;

pub(crate) const NONCE: u64 = 7;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    Accepted(u64),
    Duplicate(u64),
    Refused(String),
    NotOwner,
    /// Nothing was said: it may stand.
    Nothing,
}

pub(crate) struct Sent {
    pub(crate) epoch: u64,
    pub(crate) index: u64,
    pub(crate) record: Record,
}

pub(crate) struct Rig {
    pub(crate) core: Partition,
    pub(crate) now: Now,
    pub(crate) log: Vec<Record>,
    read: usize,
    pub(crate) view: Piece,
    pub(crate) cursor: ViewCursor,
    pub(crate) own: Own,
    owned: HashMap<(Arc<str>, Arc<str>), [u8; 16]>,
    pub(crate) wire: VecDeque<Sent>,
    pub(crate) lookups: VecDeque<Lookup>,
    pub(crate) replies: BTreeMap<RequestId, bus::RouterReply>,
    pub(crate) released: Vec<Arc<Released>>,
    pub(crate) others: Vec<Effect>,
    requests: RequestId,
}

pub(crate) fn key(conversation: &str) -> ConversationKey {
    ConversationKey::new("t", conversation)
}

pub(crate) fn users(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(crate) fn text(text: &str) -> client::Content {
    client::Content { body: Some(client::content::Body::Text(text.into())), ..Default::default() }
}

pub(crate) fn item(mid: &str, content: &str, attempt: u32) -> bus::PublishItem {
    let content = Some(text(content));
    bus::PublishItem { client_mid: mid.into(), content, attempt, receipt: true, traceparent: String::new() }
}

pub(crate) fn claim(nonce: u64) -> Record {
    let claim = Claim { nonce, router: format!("r{nonce}") };
    Record { body: Some(Body::Claim(claim)), ..Record::default() }
}

pub(crate) fn message(epoch: u64, index: u64, (to, sender, mid): (&str, &str, &str), seq: u64) -> Record {
    let content = text(mid);
    Record {
        epoch,
        index,
        tenant: "t".into(),
        conversation: to.into(),
        sender: sender.into(),
        client_mid: mid.into(),
        content_hash: content_hash(&key(to), &content).to_vec().into(),
        seq,
        n: seq - 1,
        countable: true,
        receipt: true,
        body: Some(Body::Message(lapwing_model::event::of_client(content))),
        ..Record::default()
    }
}

impl Rig {
    pub(crate) fn idle(options: Options) -> Self {
        Self {
            core: Partition::new(PartitionId::new("lapwing.group", 0), options),
            now: Now { mono: 1_000_000, wall: 1_700_000_000_000 },
            log: Vec::new(),
            read: 0,
            view: Piece::begun(),
            cursor: ViewCursor::new(Family::Commit, Position::default(), 1 << 20),
            own: Own::NotAsked,
            owned: HashMap::new(),
            wire: VecDeque::new(),
            lookups: VecDeque::new(),
            replies: BTreeMap::new(),
            released: Vec::new(),
            others: Vec::new(),
            requests: 0,
        }
    }

    pub(crate) fn serving() -> Self {
        let mut rig = Self::idle(Options::new("r7"));
        rig.take_over();
        rig.settle();
        assert!(matches!(rig.core.state(), State::Serving { .. }));
        rig
    }

    /// Serving, with a group of these members.
    pub(crate) fn with_group(members: &[&str]) -> Self {
        let mut rig = Self::serving();
        rig.create("grp.g", members);
        rig.settle();
        rig
    }

    pub(crate) fn take_over(&mut self) {
        self.read = self.view.position().offset as usize;
        let at = self.view.position();
        self.core.take_over(NONCE, at, at, self.now);
        self.pump();
    }

    pub(crate) fn pump(&mut self) {
        while let Some(effect) = self.core.next_effect() {
            match effect {
                Effect::Lookup(lookup) => self.lookups.push_back(lookup),
                Effect::Produce { epoch, index, value, .. } => {
                    let record = lapwing_model::record::decode(0, Some(&value)).unwrap();
                    self.wire.push_back(Sent { epoch, index, record });
                }
                Effect::Reply { request, reply } => {
                    assert!(self.replies.insert(request, reply).is_none(), "{request} was answered twice");
                }
                Effect::Released(released) => {
                    self.cursor.push(released.clone());
                    self.released.push(released);
                }
                Effect::Advanced(to) => self.cursor.advance(to),
                other => self.others.push(other),
            }
        }
    }

    /// Until nothing moves: lookups answered, records appended, read back, acknowledged.
    pub(crate) fn settle(&mut self) {
        while !self.lookups.is_empty() || !self.wire.is_empty() || self.read < self.log.len() {
            self.answer_lookups();
            self.append_all();
            self.read_back();
            self.acknowledge();
        }
    }

    pub(crate) fn answer_lookups(&mut self) {
        while let Some(lookup) = self.lookups.pop_front() {
            self.answer(&lookup);
        }
    }

    pub(crate) fn answer(&mut self, lookup: &Lookup) {
        self.answer_with(lookup, self.load(lookup));
    }

    /// What the view says now.
    pub(crate) fn load(&self, lookup: &Lookup) -> lapwing_router_core::Load {
        match &lookup.load {
            None => lapwing_router_core::Load::NotAsked,
            Some(ask) => view::load(&self.view, &lookup.key, lookup.bucket, ask, self.now.wall),
        }
    }

    pub(crate) fn answer_with(&mut self, lookup: &Lookup, load: lapwing_router_core::Load) {
        let own = match &lookup.own {
            None => Own::NotAsked,
            Some(_) if self.own != Own::NotAsked => self.own,
            Some(ask) => {
                let place = (ask.sender.clone(), ask.client_mid.clone());
                match self.owned.insert(place, ask.content_hash) {
                    None => Own::New,
                    Some(hash) if hash == ask.content_hash => Own::SameContent,
                    Some(_) => Own::OtherContent,
                }
            }
        };
        self.core.looked_up(LookupAnswer { ticket: lookup.ticket, load, own }, self.now);
        self.pump();
    }

    /// Every lookup on its way finds the views as they say; the client_mid's key as set.
    pub(crate) fn answer_lookups_with(&mut self, load: lapwing_router_core::Load) {
        while let Some(lookup) = self.lookups.pop_front() {
            let load = if lookup.load.is_some() { load.clone() } else { lapwing_router_core::Load::NotAsked };
            self.answer_with(&lookup, load);
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        match self.core.state() {
            State::Serving { epoch } | State::Releasing { epoch } => epoch,
            state => panic!("{state:?}"),
        }
    }

    /// Another router's claim and its messages: (conversation, sender, client_mid, seq).
    pub(crate) fn foreign_epoch(&mut self, nonce: u64, messages: &[(&str, &str, &str, u64)]) {
        let epoch = self.log.len() as u64;
        self.log.push(claim(nonce));
        for (i, (to, sender, mid, seq)) in messages.iter().enumerate() {
            self.log.push(message(epoch, i as u64 + 1, (to, sender, mid), *seq));
        }
    }

    pub(crate) fn append_all(&mut self) {
        self.log.extend(self.wire.drain(..).map(|sent| sent.record));
    }

    pub(crate) fn read_back(&mut self) {
        while self.read < self.log.len() {
            let (offset, record) = (self.read as u64, self.log[self.read].clone());
            self.read += 1;
            self.core.read(offset, Ok(record), self.now);
            self.pump();
        }
    }

    /// The log's newest record is on all in-sync replicas.
    pub(crate) fn acknowledge(&mut self) {
        if let Some(newest) = (self.log.len() as u64).checked_sub(1) {
            self.core.produced(newest, self.now);
            self.pump();
        }
    }

    pub(crate) fn fail(&mut self, epoch: u64) {
        self.core.produce_failed(epoch, "gone", self.now);
        self.pump();
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now.mono += ms;
        self.core.tick(self.now);
        self.pump();
    }

    /// The view takes all that was released.
    pub(crate) fn apply(&mut self) {
        while let Some(batch) = self.cursor.next(100, 1 << 20, false) {
            let expect = Expect::Move(batch.expected, batch.new);
            assert_eq!(self.view.apply(&expect, &batch.ops), Applied::Ok);
            self.cursor.applied(batch.new);
            self.core.view_at(batch.new.offset);
        }
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now.mono += ms;
        self.now.wall += ms;
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        self.requests
    }

    pub(crate) fn batch(&mut self, to: &str, sender: &str, items: Vec<bus::PublishItem>) -> RequestId {
        self.late_batch(to, sender, items, 0)
    }

    /// It was sent so many milliseconds ago.
    pub(crate) fn late_batch(
        &mut self,
        to: &str,
        sender: &str,
        items: Vec<bus::PublishItem>,
        ago: u64,
    ) -> RequestId {
        let batch = bus::PublishBatch {
            tenant: "t".into(),
            conversation: to.into(),
            sender: sender.into(),
            items,
            sent_at_ms: self.now.wall - ago,
            ..bus::PublishBatch::default()
        };
        let request = self.request();
        self.core.publish(request, batch, self.now);
        self.pump();
        request
    }

    pub(crate) fn publish(&mut self, to: &str, sender: &str, mid: &str) -> RequestId {
        self.batch(to, sender, vec![item(mid, mid, 1)])
    }

    pub(crate) fn retry(&mut self, to: &str, sender: &str, mid: &str) -> RequestId {
        self.batch(to, sender, vec![item(mid, mid, 2)])
    }

    pub(crate) fn command(&mut self, to: &str, body: bus::command::Body) -> RequestId {
        let request = self.request();
        self.core.command(request, key(to), body, self.now);
        self.pump();
        request
    }

    pub(crate) fn create(&mut self, group: &str, members: &[&str]) -> RequestId {
        let ask = bus::CreateGroup { name: group.into(), members: users(members), settings: None };
        let request = self.command(group, bus::command::Body::CreateGroup(ask));
        // What is sent from now on was sent long after this owner's memory began.
        self.wait(10_000);
        request
    }

    pub(crate) fn add(&mut self, group: &str, members: &[&str]) -> RequestId {
        self.command(group, bus::command::Body::AddMembers(bus::AddMembers { users: users(members) }))
    }

    pub(crate) fn remove(&mut self, group: &str, members: &[&str]) -> RequestId {
        self.command(group, bus::command::Body::RemoveMembers(bus::RemoveMembers { users: users(members) }))
    }

    /// Returns the conversation's id.
    pub(crate) fn ensure_p2p(&mut self, a: &str, b: &str) -> (String, RequestId) {
        let id = p2p_id("t", a, b);
        let ask = bus::EnsureP2p { a: a.into(), b: b.into() };
        let request = self.command(&id, bus::command::Body::EnsureP2p(ask));
        (id, request)
    }

    pub(crate) fn fetch(&mut self, from: &str, user: &str, after: u64) -> bus::FetchReply {
        let ask = bus::Fetch {
            tenant: "t".into(),
            conversation: from.into(),
            user: user.into(),
            after,
            limit: 100,
        };
        let request = self.request();
        self.core.fetch(request, ask, self.now);
        self.pump();
        self.settle();
        match self.replies[&request].body.clone() {
            Some(router_reply::Body::Fetch(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn attach(&mut self, to: &str, user: &str) -> bus::Attached {
        let request = self.start_attach(to, user);
        self.settle();
        self.attached(request)
    }

    /// Nothing else moves; lookups find what is said.
    pub(crate) fn attach_now(
        &mut self,
        to: &str,
        user: &str,
        load: lapwing_router_core::Load,
    ) -> bus::Attached {
        let request = self.start_attach(to, user);
        self.answer_lookups_with(load);
        self.attached(request)
    }

    fn start_attach(&mut self, to: &str, user: &str) -> RequestId {
        let item = bus::AttachItem { tenant: "t".into(), conversation: to.into(), user: user.into() };
        let batch = bus::AttachBatch { node: "g1".into(), incarnation: 1, counter: 1, items: vec![item] };
        let request = self.request();
        self.core.attach(request, batch, self.now);
        self.pump();
        request
    }

    fn attached(&self, request: RequestId) -> bus::Attached {
        match &self.replies[&request].body {
            Some(router_reply::Body::Attach(reply)) => reply.items[0].clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn cursors(&mut self, cursors: Vec<lapwing_proto::record::CursorRecord>) -> RequestId {
        let request = self.request();
        self.core.cursors(request, bus::CursorBatch { cursors }, self.now);
        self.pump();
        request
    }

    pub(crate) fn waits(&self, request: RequestId) -> bool {
        !self.replies.contains_key(&request)
    }

    pub(crate) fn told(&self, request: RequestId) -> Told {
        self.told_all(request)[0].clone()
    }

    pub(crate) fn told_all(&self, request: RequestId) -> Vec<Told> {
        let reply = self.replies.get(&request).unwrap_or_else(|| panic!("{request} waits"));
        match &reply.body {
            Some(router_reply::Body::NotOwner(_)) => vec![Told::NotOwner],
            Some(router_reply::Body::Error(error)) => vec![Told::Refused(error.name.clone())],
            Some(router_reply::Body::Publish(reply)) => reply.outcomes.iter().map(told).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// (head, changed) of a command.
    pub(crate) fn changed(&self, request: RequestId) -> (u64, bool) {
        match &self.replies[&request].body {
            Some(router_reply::Body::Command(reply)) => (reply.head, reply.changed),
            other => panic!("{other:?}"),
        }
    }

    /// Seqs of a conversation as released, in order.
    pub(crate) fn seqs(&self, of: &str) -> Vec<u64> {
        let of = key(of);
        self.released.iter().filter(|r| r.key == of).map(|released| released.record.seq).collect()
    }

    pub(crate) fn stepped_down(&self) -> bool {
        self.others.iter().any(|effect| matches!(effect, Effect::SteppedDown { .. }))
    }
}

fn told(outcome: &bus::PublishOutcome) -> Told {
    match &outcome.outcome {
        Some(publish_outcome::Outcome::Published(published)) => match published.outcome() {
            client::Outcome::Accepted => Told::Accepted(published.seq),
            _ => Told::Duplicate(published.seq),
        },
        Some(publish_outcome::Outcome::Error(error)) => Told::Refused(error.name.clone()),
        Some(publish_outcome::Outcome::NotOwner(_)) => Told::NotOwner,
        None => Told::Nothing,
    }
}

pub(crate) fn refused(name: &str) -> Told {
    Told::Refused(name.to_owned())
}

/// The bytes of an event are its client form.
pub(crate) fn event_of(released: &Released) -> client::Event {
    client::Event::decode(released.event.clone()).unwrap()
}
