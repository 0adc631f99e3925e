//! Reading the own partition back: judge, match with what is pending, release what is acknowledged (I1, I2, I3).

use std::sync::Arc;

use lapwing_model::{Code, MidEntry, Refusal, Verdict, Void, event, record, view::mid_hash};
use lapwing_proto::{
    Message as _, bus, client,
    record::{Claim, Record, record::Body},
};

use crate::{
    Effect, Now, Partition, Released, State, conversation::EntryId, partition::Unreleased, requests::Slot,
    safeguard::Safeguard,
};

impl Partition {
    /// The next record of the partition, in log order. `Err`: nobody can parse it.
    pub fn read(&mut self, offset: u64, record: Result<Record, record::BadRecord>, now: Now) {
        if self.nonce.is_none() || offset < self.at.offset {
            return;
        }
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                // Stepped over; if it was a valid one, the index behind it tells and everything after it is void.
                self.at.offset = offset + 1;
                return self.effects.push_back(Effect::Alarm(format!("{}: {error}", self.id)));
            }
        };
        let rule = Safeguard::rule(self.options.without);
        match record::follow_by(rule, &mut self.at, offset, &record) {
            Verdict::Claim => self.read_claim(offset, &record, now),
            Verdict::Valid => self.read_valid(offset, record, now),
            Verdict::Void(void) => self.read_void(&record, void, now),
        }
        self.release_acknowledged(now);
    }

    fn read_claim(&mut self, offset: u64, record: &Record, now: Now) {
        let Some(Body::Claim(Claim { nonce, router })) = &record.body else { return };
        let expected = self.state == State::Claiming && self.claim_read.is_none();
        if self.lacks(Safeguard::Fold) && self.state == (State::Serving { epoch: offset }) {
            return;
        }
        let by_name = self.lacks(Safeguard::Nonce) && *router == self.options.router;
        if Some(*nonce) == self.nonce || by_name {
            if matches!(self.state, State::Releasing { .. }) {
                return self.step_down(None);
            }
            // Our claim, or a double of it: the later one is the epoch and what is pending is sequenced anew.
            self.state = State::Claiming;
            self.claim_read = Some(offset);
            self.adopt_if_acknowledged(now);
        } else if !expected || self.claim_due.is_some() {
            self.step_down(Some(router.clone()));
        }
        // Waiting for the own claim: read on over foreign ones.
    }

    fn read_valid(&mut self, offset: u64, record: Record, now: Now) {
        let own = self
            .inflight
            .front()
            .is_some_and(|first| (first.epoch, first.index) == (record.epoch, record.index));
        let entry = if own { self.inflight.pop_front().map(|first| first.entry) } else { None };
        if record::is_event(&record) {
            if self.forgotten == u64::MAX {
                self.forgotten = record.sent_at_ms;
            }
            let record = Arc::new(record);
            self.unreleased.push_back(Unreleased { offset, after: self.at, record, entry, since: now.mono });
        }
    }

    fn read_void(&mut self, record: &Record, void: Void, now: Now) {
        if let (Void::Hole, State::Serving { epoch } | State::Releasing { epoch }) = (void, self.state)
            && record.epoch == epoch
        {
            self.claim_again("an own record is void behind a hole", now);
        }
    }

    /// The log took a record of ours: all in-sync replicas have everything up to `offset`.
    pub fn produced(&mut self, offset: u64, now: Now) {
        if self.nonce.is_none() {
            return;
        }
        self.acked = Some(self.acked.map_or(offset, |acked| acked.max(offset)));
        if self.lacks(Safeguard::Fold) && self.state == State::Claiming && !self.ever_served {
            self.claim_read = Some(offset);
        }
        self.adopt_if_acknowledged(now);
        self.release_acknowledged(now);
    }

    /// A final failure, definite or not: nobody knows what stands, so a claim decides.
    pub fn produce_failed(&mut self, epoch: u64, error: &str, now: Now) {
        let current = match self.state {
            State::Serving { epoch: current } | State::Releasing { epoch: current } => epoch == current,
            State::Claiming => epoch == 0,
            State::Idle => false,
        };
        if current {
            self.claim_again(error, now);
        }
    }

    /// The first claim after a doubt is immediate, from the second within 60 s on they wait 1–30 s (see `tick`).
    pub(crate) fn claim_again(&mut self, why: &str, now: Now) {
        self.effects.push_back(Effect::Alarm(format!("{}: in doubt about the log: {why}", self.id)));
        if matches!(self.state, State::Releasing { .. }) {
            // The next owner's claim decides as well, and sooner.
            return self.step_down(None);
        }
        let recent = now.mono.saturating_sub(self.last_claim) < 60_000;
        let wait = if recent { 1000u64 << self.claims_sent.saturating_sub(1).min(5) } else { 0 };
        if !recent {
            self.claims_sent = 1;
        }
        self.state = State::Claiming;
        if self.claims_sent > 1 && now.mono.saturating_sub(self.last_claim) < wait.min(30_000) {
            self.claim_due = Some(self.last_claim + wait.min(30_000));
        } else {
            self.claim(now);
        }
    }

    fn adopt_if_acknowledged(&mut self, now: Now) {
        if let Some(epoch) = self.claim_read
            && self.acked.is_some_and(|acked| acked >= epoch)
        {
            self.claim_read = None;
            self.adopt(epoch, now);
        }
    }

    fn adopt(&mut self, epoch: u64, now: Now) {
        self.release_acknowledged(now);
        self.state = State::Serving { epoch };
        self.ever_served = true;
        // Nothing folded: whatever was stored may have been stored until now.
        self.forgotten = if self.forgotten == u64::MAX { now.wall } else { self.forgotten };
        self.index = 0;
        self.claim_due = None;
        let mut waiting: Vec<EntryId> = Vec::new();
        for inflight in std::mem::take(&mut self.inflight) {
            if waiting.last() != Some(&inflight.entry) {
                waiting.push(inflight.entry);
            }
        }
        for conversation in self.conversations.values_mut() {
            conversation.forget_inflight();
            conversation.reweigh(&mut self.weight);
        }
        // What did not stand before the claim goes through admission again, in its order, before what came later.
        for id in waiting.iter().rev() {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.sequenced = 0;
                let key = entry.key.clone();
                self.conversation(&key, now.mono).queue.push_front(*id);
            }
        }
        self.effects.push_back(Effect::Serving { epoch });
        let mut keys: Vec<_> =
            waiting.iter().filter_map(|id| self.entries.get(id)).map(|entry| entry.key.clone()).collect();
        let mut others: Vec<_> = self
            .conversations
            .iter()
            .filter_map(|(key, conversation)| Some((*conversation.queue.front()?, key.clone())))
            .collect();
        others.sort_unstable();
        keys.extend(others.into_iter().map(|(_, key)| key));
        for key in keys {
            self.drain(&key, now);
        }
    }

    fn release_acknowledged(&mut self, now: Now) {
        let mut moved = false;
        while let Some(first) = self.unreleased.front()
            && (self.acked.is_some_and(|acked| acked >= first.offset) || self.lacks(Safeguard::Acknowledged))
        {
            let Some(first) = self.unreleased.pop_front() else { break };
            self.release_one(first, now);
            moved = true;
        }
        if self.unreleased.is_empty() && (moved || self.at.offset > self.advanced.offset) {
            let settled = self.acked.is_some_and(|acked| acked + 1 >= self.at.offset);
            if settled && self.at.offset > self.advanced.offset {
                self.advanced = self.at;
                self.effects.push_back(Effect::Advanced(self.at));
            }
        }
    }

    fn release_one(&mut self, read: Unreleased, now: Now) {
        let Unreleased { offset, after, record, entry, since: _ } = read;
        let own = entry.and_then(|id| self.entries.get(&id)).map(|entry| entry.key.clone());
        let key = own.unwrap_or_else(|| self.shared(record::key_of(&record)));
        let (conversation, weight) = self.weighed(&key, now.mono);
        conversation.release(offset, &record, entry.is_some());
        conversation.reweigh(weight);
        let waits = conversation.state_inflight == 0 && !conversation.queue.is_empty();
        self.remember(offset, &record);
        if let Some(event) = event::of_record(&record) {
            let event = event.encode_to_vec().into();
            self.released(Arc::new(Released {
                offset,
                after,
                key: key.clone(),
                record: record.clone(),
                event,
                fan_out: crate::FanOut::default(),
            }));
        }
        if let Some(entry) = entry {
            self.entry_released(entry, &record);
        }
        if waits {
            self.drain(&key, now);
        }
    }

    /// Into the dedupe memory: it is ahead of the view's window.
    fn remember(&mut self, offset: u64, record: &Record) {
        let Ok(content_hash) = <[u8; 16]>::try_from(&record.content_hash[..]) else { return };
        if record.client_mid.is_empty() {
            return;
        }
        let mid = mid_hash(&record.tenant, &record.sender, &record.client_mid);
        let entry = MidEntry { seq: record.seq, n: record.n, sent_at_ms: record.sent_at_ms, content_hash };
        self.stored.insert(mid, entry);
        self.stored_order.push_back((offset, mid));
    }

    fn entry_released(&mut self, id: EntryId, record: &Record) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.sequenced = entry.sequenced.saturating_sub(1);
        if entry.sequenced > 0 {
            return;
        }
        let Some(entry) = self.entries.remove(&id) else { return };
        if let Some(mid) = entry.mid() {
            self.pending.remove(&mid);
        }
        for (position, (request, slot)) in entry.waiters.iter().enumerate() {
            // The first to wait is told accepted, who joined it later is a duplicate.
            let outcome = if position == 0 { client::Outcome::Accepted } else { client::Outcome::Duplicate };
            self.answer(*request, *slot, answer_of(record, entry.mid().is_some(), outcome));
        }
    }
}

impl Partition {
    /// What the simulation must not let pass: an answer before the record was read.
    pub(crate) fn answer_unread(&mut self, id: EntryId, record: &Record) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let publish = entry.mid().is_some();
        for (request, slot) in std::mem::take(&mut entry.waiters) {
            self.answer(request, slot, answer_of(record, publish, client::Outcome::Accepted));
        }
    }
}

fn answer_of(record: &Record, publish: bool, outcome: client::Outcome) -> Slot {
    if publish {
        Slot::Published(client::Published {
            conversation: record.conversation.clone(),
            seq: record.seq,
            client_mid: record.client_mid.clone(),
            outcome: outcome.into(),
            n: record.n,
            sent_at_ms: record.sent_at_ms,
        })
    } else {
        Slot::Changed(bus::CommandReply {
            conversation: record.conversation.clone(),
            head: record.seq,
            changed: true,
        })
    }
}

/// What is refused before anything was produced.
pub(crate) fn not_ready(key: &lapwing_model::ConversationKey, why: &str) -> Refusal {
    Refusal::new(Code::NotReady, format!("{}: {why}", key.conversation)).retry_after(200)
}
