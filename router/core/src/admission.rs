//! ① admit and ② sequence: dedupe, permission on the state with pending events, the seq, and the record.

use std::sync::Arc;

use bytes::Bytes;
use lapwing_model::{Bucket, Code, ConversationKey, MidEntry, Refusal, record::content_hash, view::mid_hash};
use lapwing_proto::{
    Message as _, bus,
    client::{self, Outcome},
    record::Record,
};

use crate::{
    Effect, Load, Lookup, LookupAnswer, Now, Own, Partition, RequestId, State,
    commit::not_ready,
    conversation::EntryId,
    decide::{Decision, behind_refusal, conflict, decide_command, decide_publish},
    io::{LoadAsk, OwnAsk},
    partition::{Asked, Asker, InFlight},
    requests::{Form, Slot, not_owner},
    safeguard::Safeguard,
};

pub(crate) struct Entry {
    pub(crate) key: ConversationKey,
    bucket: Bucket,
    pub(crate) what: What,
    pub(crate) waiters: Vec<(RequestId, usize)>,
    /// Records that were produced and not released.
    pub(crate) sequenced: usize,
    /// What the views said; None while they are being asked.
    lookup: Option<LookupDone>,
    pub(crate) own: Own,
    /// The dedupe window was asked (or need not be).
    pub(crate) asked_window: bool,
    /// Where the view stood at admission, at least: what was stored later is found in memory only.
    pub(crate) asked_at: u64,
    traceparent: String,
}

pub(crate) enum What {
    Publish(Box<Publish>),
    Command(bus::command::Body),
}

pub(crate) struct Publish {
    mid: [u8; 16],
    pub(crate) hash: [u8; 16],
    pub(crate) sender: Arc<str>,
    pub(crate) device: String,
    pub(crate) server: bool,
    pub(crate) first_attempt: bool,
    pub(crate) item: bus::PublishItem,
}

#[derive(Clone, Copy)]
pub(crate) struct LookupDone {
    stored: Option<MidEntry>,
    pub(crate) window_known: bool,
}

impl Entry {
    pub(crate) fn mid(&self) -> Option<[u8; 16]> {
        match &self.what {
            What::Publish(publish) => Some(publish.mid),
            What::Command(_) => None,
        }
    }
}

impl Partition {
    /// Publishes of one session to one conversation, in sending order. The shell has checked ids and sizes.
    pub fn publish(&mut self, request: RequestId, batch: bus::PublishBatch, now: Now) {
        if !self.admits() {
            return self.redirect(request);
        }
        let key = self.shared(ConversationKey::new(batch.tenant.as_str(), batch.conversation.as_str()));
        let sender: Arc<str> = batch.sender.as_str().into();
        let empty = client::Content::default();
        self.open(request, Form::Publish, batch.items.len());
        let fresh = self.fresh(batch.sent_at_ms);
        for (slot, item) in batch.items.into_iter().enumerate() {
            let publish = Publish {
                mid: mid_hash(&batch.tenant, &batch.sender, &item.client_mid),
                hash: content_hash(&key, item.content.as_ref().unwrap_or(&empty)),
                sender: sender.clone(),
                device: batch.device.clone(),
                server: batch.server,
                first_attempt: item.attempt == 1 && fresh,
                item,
            };
            self.admit(&key, publish, (request, slot), now);
        }
    }

    /// Nobody overtook it unseen: had a retry of it been stored since it was sent, memory would know. Else it counts as a
    /// retry, however it is marked, and is looked up in the window.
    fn fresh(&self, sent_at_ms: u64) -> bool {
        sent_at_ms > self.forgotten.saturating_add(self.options.clocks_ms) || self.lacks(Safeguard::Overtaken)
    }

    fn behind_refusal(&self, waiter: (RequestId, usize)) -> bool {
        self.requests.behind_refusal(waiter.0, waiter.1) && !self.lacks(Safeguard::Order)
    }

    fn redirect(&mut self, request: RequestId) {
        self.effects.push_back(Effect::Reply { request, reply: not_owner(50) });
    }

    /// Dedupe first: what is pending is joined, what is stored gets its seq again (R-ACK-4).
    fn admit(&mut self, key: &ConversationKey, publish: Publish, waiter: (RequestId, usize), now: Now) {
        let traceparent = publish.item.traceparent.clone();
        let dedupe = !self.lacks(Safeguard::Dedupe);
        if let (Some(id), true) = (self.pending.get(&publish.mid), dedupe) {
            let Some(entry) = self.entries.get_mut(id) else { return };
            let What::Publish(pending) = &entry.what else { return };
            if pending.hash != publish.hash {
                // It rests on a pending message, so nothing definite can be said yet.
                let refusal = not_ready(key, "another message with this client_mid is on its way");
                return self.answer(waiter.0, waiter.1, Slot::refused(&refusal, &traceparent));
            }
            return entry.waiters.push(waiter);
        }
        if let (Some(stored), true) = (self.stored.get(&publish.mid).copied(), dedupe) {
            let slot = duplicate_or_conflict(key, &publish, stored);
            return self.answer(waiter.0, waiter.1, slot);
        }
        if self.entries.len() >= self.options.max_entries {
            let refusal = Refusal::new(Code::Overloaded, format!("{}: too many publishes in hand", self.id));
            return self.answer(waiter.0, waiter.1, Slot::refused(&refusal, &traceparent));
        }
        if self.behind_refusal(waiter) {
            return self.answer(waiter.0, waiter.1, Slot::refused(&behind_refusal(key), &traceparent));
        }
        let (mid, first) = (publish.mid, publish.first_attempt);
        let own = OwnAsk {
            sender: publish.sender.clone(),
            client_mid: publish.item.client_mid.as_str().into(),
            content_hash: publish.hash,
        };
        let users = if publish.server { Vec::new() } else { vec![publish.sender.clone()] };
        let id = self.enter(key, What::Publish(Box::new(publish)), waiter, traceparent, now);
        self.pending.insert(mid, id);
        self.look_up(id, users, (!first).then_some(mid), Some(own), now);
    }

    /// A state change by the server API.
    pub fn command(&mut self, request: RequestId, key: ConversationKey, body: bus::command::Body, now: Now) {
        if !self.admits() {
            return self.redirect(request);
        }
        self.open(request, Form::Command, 1);
        let users: Vec<Arc<str>> = match &body {
            bus::command::Body::EnsureP2p(ask) => vec![ask.a.as_str().into(), ask.b.as_str().into()],
            bus::command::Body::CreateGroup(ask) => arcs(&ask.members),
            bus::command::Body::AddMembers(ask) => arcs(&ask.users),
            bus::command::Body::RemoveMembers(ask) => arcs(&ask.users),
        };
        let id = self.enter(&key, What::Command(body), (request, 0), String::new(), now);
        self.look_up(id, users, None, None, now);
    }

    fn enter(
        &mut self,
        key: &ConversationKey,
        what: What,
        waiter: (RequestId, usize),
        traceparent: String,
        now: Now,
    ) -> EntryId {
        let id = self.fresh_id();
        let conversation = self.conversation(key, now.mono);
        conversation.queue.push_back(id);
        let bucket = conversation.bucket;
        let entry = Entry {
            key: key.clone(),
            bucket,
            what,
            waiters: vec![waiter],
            sequenced: 0,
            lookup: None,
            own: Own::NotAsked,
            asked_window: false,
            asked_at: self.view_acked,
            traceparent,
        };
        self.entries.insert(id, entry);
        id
    }

    /// Asks the views for what memory lacks: header, members, the client_mid's window.
    fn look_up(
        &mut self,
        id: EntryId,
        users: Vec<Arc<str>>,
        mid: Option<[u8; 16]>,
        own: Option<OwnAsk>,
        now: Now,
    ) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.asked_window |= mid.is_some();
        let key = entry.key.clone();
        let lowest = self.lowest();
        let conversation = self.conversation(&key, now.mono);
        let users: Vec<_> = users.into_iter().filter(|user| conversation.member(user).is_none()).collect();
        let load = (!conversation.loaded || !users.is_empty() || mid.is_some()).then(|| LoadAsk {
            lowest,
            users: users.clone(),
            mid,
            cold: !conversation.loaded || !users.is_empty(),
        });
        if load.is_none() && own.is_none() {
            let answer = LookupAnswer { ticket: 0, load: Load::NotAsked, own: Own::NotAsked };
            return self.entry_looked_up(id, &answer, now);
        }
        self.ask(&key, users, Asker::Entry(id), load, own, now);
    }

    pub(crate) fn ask(
        &mut self,
        key: &ConversationKey,
        users: Vec<Arc<str>>,
        asker: Asker,
        load: Option<LoadAsk>,
        own: Option<OwnAsk>,
        now: Now,
    ) {
        let ticket = self.fresh_id();
        let conversation = self.conversation(key, now.mono);
        let (generation, bucket) = (conversation.generation, conversation.bucket);
        self.lookups.insert(ticket, Asked { key: key.clone(), generation, users, asker });
        self.effects.push_back(Effect::Lookup(Lookup { ticket, key: key.clone(), bucket, load, own }));
    }

    pub(crate) fn entry_looked_up(&mut self, id: EntryId, answer: &LookupAnswer, now: Now) {
        let no_window = !self.lacks(Safeguard::NoWindow);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let (stored, window_known) = match &answer.load {
            Load::Found(loaded) => (loaded.mid, entry.asked_window),
            Load::Persisted(..) => (None, entry.asked_window && !no_window),
            Load::NotAsked | Load::Unavailable => (None, false),
        };
        if answer.own != Own::NotAsked {
            entry.own = answer.own;
        }
        entry.lookup = Some(LookupDone { stored, window_known });
        let key = entry.key.clone();
        self.drain(&key, now);
    }

    /// Decides what waits for this conversation, strictly in order of arrival.
    pub(crate) fn drain(&mut self, key: &ConversationKey, now: Now) {
        while matches!(self.state, State::Serving { .. } | State::Releasing { .. }) {
            let Some(id) = self.conversations.get(key).and_then(|c| c.queue.front().copied()) else { return };
            let decision = self.decide(id, key);
            match decision {
                Decision::Wait => return,
                Decision::AskWindow => return self.ask_window(id, now),
                Decision::Produce(records) => self.produce(id, key, records, now),
                // A zombie that woke up turns nobody away by its old state.
                Decision::Refuse(_) if self.isolated => {
                    self.settle(id, key, |_| Slot::NotOwner { retry_after_ms: 50 });
                }
                Decision::Refuse(refusal) => {
                    let traceparent =
                        self.entries.get(&id).map(|e| e.traceparent.clone()).unwrap_or_default();
                    self.settle(id, key, |_| Slot::refused(&refusal, &traceparent));
                }
                Decision::Duplicate(stored) => self.settle(id, key, |entry| match &entry.what {
                    What::Publish(publish) => duplicate_or_conflict(&entry.key, publish, stored),
                    What::Command(_) => Slot::Done,
                }),
                Decision::Unchanged => {
                    let head = self.conversations.get(key).map_or(0, |c| c.header.head);
                    let conversation = key.conversation.to_string();
                    let reply = bus::CommandReply { conversation, head, changed: false };
                    self.settle(id, key, |_| Slot::Changed(reply.clone()));
                }
            }
        }
    }

    /// A first attempt whose client_mid turned out to be known: the window is asked after all.
    fn ask_window(&mut self, id: EntryId, now: Now) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(mid) = entry.mid() else { return };
        entry.asked_window = true;
        entry.lookup = None;
        let key = entry.key.clone();
        let load = LoadAsk { lowest: self.lowest(), users: Vec::new(), mid: Some(mid), cold: false };
        self.ask(&key, Vec::new(), Asker::Entry(id), Some(load), None, now);
    }

    fn settle(&mut self, id: EntryId, key: &ConversationKey, slot: impl Fn(&Entry) -> Slot) {
        if let Some(conversation) = self.conversations.get_mut(key) {
            conversation.queue.pop_front();
        }
        let Some(entry) = self.entries.remove(&id) else { return };
        if let Some(mid) = entry.mid() {
            self.pending.remove(&mid);
        }
        for (request, place) in &entry.waiters {
            self.answer(*request, *place, slot(&entry));
        }
    }

    fn decide(&mut self, id: EntryId, key: &ConversationKey) -> Decision {
        let (Some(entry), Some(conversation)) = (self.entries.get(&id), self.conversations.get(key)) else {
            return Decision::Wait;
        };
        let Some(lookup) = &entry.lookup else {
            // Its lookup or its window is still on the way.
            return Decision::Wait;
        };
        let rests_on_pending = conversation.state_inflight > 0 && !self.lacks(Safeguard::Pending);
        match &entry.what {
            What::Publish(publish) => {
                if let Some(stored) = self.stored.get(&publish.mid).copied().or(lookup.stored)
                    && !self.lacks(Safeguard::Dedupe)
                {
                    return Decision::Duplicate(stored);
                }
                if entry.waiters.first().is_some_and(|first| self.behind_refusal(*first)) {
                    return Decision::Refuse(behind_refusal(key));
                }
                match decide_publish(publish, entry, lookup, conversation, key) {
                    Decision::Refuse(_) if rests_on_pending => Decision::Wait,
                    decision => decision,
                }
            }
            What::Command(body) => match decide_command(body, conversation, key) {
                Decision::Refuse(_) | Decision::Unchanged if rests_on_pending => Decision::Wait,
                decision => decision,
            },
        }
    }

    /// Gives seq and index, and hands the records to the log in order.
    fn produce(&mut self, id: EntryId, key: &ConversationKey, records: Vec<Record>, now: Now) {
        let (State::Serving { epoch } | State::Releasing { epoch }) = self.state else { return };
        let (Some(entry), Some(conversation)) = (self.entries.get_mut(&id), self.conversations.get_mut(key))
        else {
            return;
        };
        conversation.queue.pop_front();
        let mut last = None;
        for mut record in records {
            self.index += 1;
            record.epoch = epoch;
            record.index = self.index;
            record.bucket = entry.bucket;
            record.tenant = key.tenant.to_string();
            record.conversation = key.conversation.to_string();
            record.sent_at_ms = now.wall;
            record.traceparent.clone_from(&entry.traceparent);
            conversation.sequence(&mut record);
            entry.sequenced += 1;
            self.inflight.push_back(InFlight { epoch, index: self.index, entry: id, since: now.mono });
            self.effects.push_back(Effect::Produce {
                epoch,
                index: self.index,
                key: lapwing_model::record::kafka_key(key),
                value: Bytes::from(record.encode_to_vec()),
                traceparent: entry.traceparent.clone(),
            });
            last = Some(record);
        }
        if self.lacks(Safeguard::Readback)
            && let Some(record) = last
        {
            self.answer_unread(id, &record);
        }
    }
}

fn duplicate_or_conflict(key: &ConversationKey, publish: &Publish, stored: MidEntry) -> Slot {
    if stored.content_hash != publish.hash {
        return Slot::refused(&conflict(key, &publish.item.client_mid), &publish.item.traceparent);
    }
    Slot::Published(client::Published {
        conversation: key.conversation.to_string(),
        seq: stored.seq,
        client_mid: publish.item.client_mid.clone(),
        outcome: Outcome::Duplicate.into(),
        n: stored.n,
        sent_at_ms: stored.sent_at_ms,
    })
}

fn arcs(users: &[String]) -> Vec<Arc<str>> {
    users.iter().map(|user| user.as_str().into()).collect()
}
