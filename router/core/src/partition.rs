//! One partition's owner: its states, its memory, and the inputs that move it. IO-free; the shell carries out the effects.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use lapwing_model::{ConversationKey, MidEntry, PartitionId, Position};
use lapwing_proto::{
    Message as _,
    record::{Claim, Record, record::Body},
};

use crate::{
    Effect, Load, Now, RequestId,
    admission::Entry,
    conversation::{Conversation, EntryId},
    io::{LookupAnswer, Released},
    reads::Reader,
    recent::Recent,
    requests::{Form, Requests, Slot},
    safeguard::Safeguard,
};

#[derive(Debug, Clone)]
pub struct Options {
    pub router: String,
    /// Publishes and commands in memory, from lookup to release.
    pub max_entries: usize,
    pub max_conversations: usize,
    /// After this without its read-back an own record counts as failed: claim again.
    pub readback_ms: u64,
    pub recent_bytes: usize,
    pub recent_mids: usize,
    /// Stored client_mids that are younger stay in memory beyond `recent_mids` (up to eight times as many).
    pub mids_ms: u64,
    /// How far the clocks of gateways and routers may differ.
    pub clocks_ms: u64,
    /// For the simulation only: no service leaves one out.
    #[doc(hidden)]
    pub without: Option<Safeguard>,
}

impl Options {
    pub fn new(router: impl Into<String>) -> Self {
        Self {
            router: router.into(),
            max_entries: 4096,
            max_conversations: 50_000,
            readback_ms: 60_000,
            recent_bytes: 16 << 20,
            recent_mids: 16_384,
            mids_ms: 6000,
            clocks_ms: 5000,
            without: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Idle,
    /// The claim is on its way, or what stands before it is being folded.
    Claiming,
    Serving {
        epoch: u64,
    },
    /// Serving what is in hand, taking nothing new.
    Releasing {
        epoch: u64,
    },
}

/// Beyond this multiple of `recent_mids` even young ones are forgotten.
const MIDS_HARD: usize = 8;

/// A produced record that was not read back yet.
pub(crate) struct InFlight {
    pub(crate) epoch: u64,
    pub(crate) index: u64,
    pub(crate) entry: EntryId,
    pub(crate) since: u64,
}

/// Read and judged valid; not released before its acknowledgement.
pub(crate) struct Unreleased {
    pub(crate) offset: u64,
    pub(crate) after: Position,
    pub(crate) record: Arc<Record>,
    pub(crate) entry: Option<EntryId>,
    pub(crate) since: u64,
}

pub(crate) enum Asker {
    Entry(EntryId),
    Reader(Reader),
}

pub(crate) struct Asked {
    pub(crate) key: ConversationKey,
    pub(crate) generation: u64,
    pub(crate) users: Vec<Arc<str>>,
    pub(crate) asker: Asker,
}

pub struct Partition {
    pub id: PartitionId,
    pub(crate) options: Options,
    pub(crate) state: State,
    /// Of this tenure, from the wish to own until step-down: a claim of another tenure is never adopted.
    pub(crate) nonce: Option<u64>,
    /// Epoch whose claim was read but is not acknowledged yet.
    pub(crate) claim_read: Option<u64>,
    pub(crate) ever_served: bool,
    pub(crate) at: Position,
    pub(crate) index: u64,
    /// Highest offset of an own acknowledged produce in this tenure.
    pub(crate) acked: Option<u64>,
    /// Highest view position ever acknowledged to this owner; cold loads need a view at or past it.
    pub(crate) view_acked: u64,
    /// Whatever stands at or past this offset and was released is in memory; what memory lacks stands before it.
    begins: u64,
    pub(crate) claims_sent: u32,
    pub(crate) last_claim: u64,
    /// A further claim waits until then: backoff limits only the rate.
    pub(crate) claim_due: Option<u64>,
    /// Up to where the views were told.
    pub(crate) advanced: Position,
    pub(crate) isolated: bool,
    pub(crate) inflight: VecDeque<InFlight>,
    pub(crate) unreleased: VecDeque<Unreleased>,
    pub(crate) conversations: HashMap<ConversationKey, Conversation>,
    pub(crate) entries: HashMap<EntryId, Entry>,
    /// Pending publishes by (tenant, sender, client_mid).
    pub(crate) pending: HashMap<[u8; 16], EntryId>,
    /// Stored messages that the view may not have yet, and some more.
    pub(crate) stored: HashMap<[u8; 16], MidEntry>,
    pub(crate) stored_order: VecDeque<(u64, [u8; 16])>,
    /// Whatever was stored at a later time than this (wall clock, as in the records) is in `stored`.
    pub(crate) forgotten: u64,
    pub(crate) lookups: HashMap<u64, Asked>,
    pub(crate) requests: Requests,
    pub(crate) recent: Recent,
    pub(crate) effects: VecDeque<Effect>,
    next_id: u64,
}

impl Partition {
    pub fn new(id: PartitionId, options: Options) -> Self {
        let recent = Recent::new(options.recent_bytes);
        Self {
            id,
            options,
            state: State::Idle,
            nonce: None,
            claim_read: None,
            ever_served: false,
            at: Position::default(),
            index: 0,
            acked: None,
            view_acked: 0,
            begins: 0,
            claims_sent: 0,
            last_claim: 0,
            claim_due: None,
            advanced: Position::default(),
            isolated: false,
            inflight: VecDeque::new(),
            unreleased: VecDeque::new(),
            conversations: HashMap::new(),
            entries: HashMap::new(),
            pending: HashMap::new(),
            stored: HashMap::new(),
            stored_order: VecDeque::new(),
            forgotten: u64::MAX,
            lookups: HashMap::new(),
            requests: Requests::default(),
            recent,
            effects: VecDeque::new(),
            next_id: 1,
        }
    }

    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn position(&self) -> Position {
        self.at
    }

    pub fn pending(&self) -> usize {
        self.entries.len()
    }

    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    pub fn view_acked(&self) -> u64 {
        self.view_acked
    }

    /// Takes the partition: folds from `from`, which was read from the view *before* this call; `view` is the view's own
    /// position (≥ from when the fold starts earlier, so that receipts and reads survive the change of owner).
    pub fn take_over(&mut self, nonce: u64, from: Position, view: Position, now: Now) {
        self.forget();
        self.nonce = Some(nonce);
        self.state = State::Claiming;
        self.at = from;
        self.advanced = from;
        self.view_acked = view.offset;
        self.begins = from.offset;
        self.claim(now);
    }

    /// Appends a claim: the first time, or again after any doubt. Memory stays; what is pending waits until it is read.
    pub(crate) fn claim(&mut self, now: Now) {
        let Some(nonce) = self.nonce else { return };
        self.state = State::Claiming;
        self.claim_read = None;
        self.claim_due = None;
        self.claims_sent += 1;
        self.last_claim = now.mono;
        let body = Body::Claim(Claim { nonce, router: self.options.router.clone() });
        let record = Record { body: Some(body), sent_at_ms: now.wall, ..Record::default() };
        self.effects.push_back(Effect::Produce {
            epoch: 0,
            index: 0,
            key: bytes::Bytes::new(),
            value: record.encode_to_vec().into(),
            traceparent: String::new(),
        });
    }

    /// Stops taking new work; what is in hand is finished, then `SteppedDown` follows.
    pub fn release(&mut self, now: Now) {
        match self.state {
            State::Serving { epoch } => self.state = State::Releasing { epoch },
            State::Claiming => self.step_down(None),
            State::Idle | State::Releasing { .. } => {}
        }
        self.tick(now);
    }

    /// Everyone who waits is told to ask the owner: nothing of theirs was produced, or it is void for ever. Of what may stand
    /// all the same nothing is said, so that it is sent again as a retry.
    pub(crate) fn step_down(&mut self, by: Option<String>) {
        let read = self.unreleased.iter().filter_map(|of| of.entry);
        // Behind another one's claim nothing that was not read before it can stand.
        let unread = self.inflight.iter().filter(|_| by.is_none()).map(|of| of.entry);
        let publishes =
            read.chain(unread).filter_map(|id| self.entries.get(&id)).filter(|of| of.mid().is_some());
        let unknown: Vec<_> = publishes.flat_map(|of| of.waiters.clone()).collect();
        for (request, slot) in unknown {
            self.answer(request, slot, Slot::Unknown);
        }
        for (request, reply) in self.requests.give_up(20) {
            self.effects.push_back(Effect::Reply { request, reply });
        }
        self.forget();
        self.effects.push_back(Effect::SteppedDown { by });
    }

    fn forget(&mut self) {
        let (id, options, effects, next_id) =
            (self.id.clone(), self.options.clone(), std::mem::take(&mut self.effects), self.next_id);
        *self = Self::new(id, options);
        self.effects = effects;
        self.next_id = next_id;
    }

    /// Whether this router heard its own heartbeat lately; else it admits and refuses nothing, it only redirects.
    pub fn set_isolated(&mut self, isolated: bool) {
        self.isolated = isolated;
    }

    pub(crate) fn admits(&self) -> bool {
        match self.state {
            State::Serving { .. } => !self.isolated,
            // A claim again: what comes meanwhile waits behind what is pending.
            State::Claiming => self.ever_served && !self.isolated,
            State::Idle | State::Releasing { .. } => false,
        }
    }

    /// The views have everything below this offset.
    pub fn view_at(&mut self, offset: u64) {
        let moves_back = self.lacks(Safeguard::AckedForward);
        self.view_acked = if moves_back { offset } else { self.view_acked.max(offset) };
    }

    /// Time passes: claims again after silence, finishes a release, evicts.
    pub fn tick(&mut self, now: Now) {
        let silent = |since: u64| now.mono.saturating_sub(since) > self.options.readback_ms;
        let serving = matches!(self.state, State::Serving { .. } | State::Releasing { .. });
        // Not read back, or read without a word on its acknowledgement.
        let oldest = [self.inflight.front().map(|of| of.since), self.unreleased.front().map(|of| of.since)];
        let lost = serving && oldest.into_iter().flatten().any(silent);
        let claim_lost = self.state == State::Claiming && silent(self.last_claim);
        if self.claim_due.is_some_and(|due| due <= now.mono) {
            self.claim(now);
        } else if self.claim_due.is_none() && (lost || claim_lost) {
            self.claim_again("an own record was not read back or not acknowledged in time", now);
        }
        if matches!(self.state, State::Releasing { .. })
            && self.entries.is_empty()
            && self.unreleased.is_empty()
        {
            self.step_down(None);
        }
        self.recent.shrink(self.view_acked);
        self.forget_mids(now);
        self.shrink();
    }

    fn forget_mids(&mut self, now: Now) {
        let surplus = self.stored_order.len() > self.options.recent_mids;
        // A window that was asked is right up to where the view stood then: what came later has to stay until it is used.
        let asked = self.entries.values().filter(|_| surplus).map(|entry| entry.asked_at).min();
        let safe = asked.map_or(self.view_acked, |asked| asked.min(self.view_acked));
        while self.stored_order.len() > self.options.recent_mids {
            let few = self.stored_order.len() <= self.options.recent_mids * MIDS_HARD;
            let young = |mid: &[u8; 16]| {
                self.stored.get(mid).is_some_and(|of| of.sent_at_ms + self.options.mids_ms > now.wall)
            };
            match self.stored_order.front() {
                Some((offset, mid)) if *offset < safe && !(few && young(mid)) => {
                    if let Some(entry) = self.stored.remove(mid) {
                        self.forgotten = self.forgotten.max(entry.sent_at_ms);
                    }
                    self.stored_order.pop_front();
                }
                _ => break,
            }
        }
    }

    /// Where cold loads are served from, at least.
    pub(crate) fn lowest(&self) -> u64 {
        if self.lacks(Safeguard::ColdCheck) { 0 } else { self.view_acked }
    }

    fn shrink(&mut self) {
        if self.conversations.len() <= self.options.max_conversations {
            return;
        }
        let asked: std::collections::HashSet<_> =
            self.lookups.values().map(|asked| asked.key.clone()).collect();
        let mut idle: Vec<_> = self
            .conversations
            .iter()
            .filter(|(key, conversation)| match self.options.without {
                Some(Safeguard::Evict) => true,
                Some(Safeguard::ColdSince) => conversation.evictable(self.view_acked),
                _ => conversation.evictable(self.view_acked) && !asked.contains(*key),
            })
            .map(|(key, conversation)| ((conversation.last_used, conversation.generation), key.clone()))
            .collect();
        idle.sort_unstable_by_key(|(age, _)| *age);
        let surplus = self.conversations.len() - self.options.max_conversations * 9 / 10;
        for (_, key) in idle.into_iter().take(surplus) {
            let newest = self.conversations.remove(&key).and_then(|of| of.newest_offset);
            self.begins = self.begins.max(newest.map_or(0, |newest| newest + 1));
        }
    }

    pub(crate) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn conversation(&mut self, key: &ConversationKey, now: u64) -> &mut Conversation {
        let next_id = &mut self.next_id;
        let conversation = self.conversations.entry(key.clone()).or_insert_with(|| {
            *next_id += 1;
            Conversation::new(key, *next_id)
        });
        conversation.last_used = now;
        conversation
    }

    /// The same key, sharing its text with everything else that is kept of this conversation.
    pub(crate) fn shared(&self, key: ConversationKey) -> ConversationKey {
        self.conversations.get_key_value(&key).map_or(key, |(known, _)| known.clone())
    }

    pub(crate) fn open(&mut self, request: RequestId, form: Form, slots: usize) {
        if let Some(reply) = self.requests.open(request, form, slots) {
            self.effects.push_back(Effect::Reply { request, reply });
        }
    }

    pub(crate) fn answer(&mut self, request: RequestId, slot: usize, value: Slot) {
        if let Some(reply) = self.requests.fill(request, slot, value) {
            self.effects.push_back(Effect::Reply { request, reply });
        }
    }

    /// The views' answer to a lookup.
    pub fn looked_up(&mut self, answer: LookupAnswer, now: Now) {
        let Some(asked) = self.lookups.remove(&answer.ticket) else { return };
        let cold_since = self.lacks(Safeguard::ColdSince);
        // MySQL may be behind what was evicted, or behind where this owner began.
        let late = |at: u64| at < self.begins && !self.lacks(Safeguard::Behind);
        let answer = match answer.load {
            Load::Persisted(at, _) if late(at) => LookupAnswer { load: Load::Unavailable, ..answer },
            _ => answer,
        };
        if let Load::Found(loaded) | Load::Persisted(_, loaded) = &answer.load
            && let Some(conversation) = self.conversations.get_mut(&asked.key)
            && (conversation.generation == asked.generation || cold_since)
        {
            conversation.load(loaded, &asked.users);
        }
        match asked.asker {
            Asker::Entry(entry) => self.entry_looked_up(entry, &answer, now),
            Asker::Reader(reader) => self.read_ready(&asked.key, reader, now),
        }
    }

    pub(crate) fn released(&mut self, released: Arc<Released>) {
        let persisted_before = released.offset < self.recent.persisted();
        self.recent.push(released.clone());
        self.effects.push_back(Effect::Released(released));
        if persisted_before {
            // A persister was faster than this owner's reading.
            let now = self.recent.tell();
            self.tell_persisted(now);
        }
    }
}
