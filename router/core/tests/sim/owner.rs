//! What happens to a router, and what becomes of its effects: the shell of the real service, without its threads.

use lapwing_model::{Code, Position};
use lapwing_proto::bus;
use lapwing_router_core::{Effect, Released, RequestId, view::Repair};
use rand::Rng as _;

use crate::{
    client::{Word, words},
    faults::Break,
    log::Sent,
    plan::USERS,
    world::{Ask, Asked, By, Event, Part, World},
};

/// An owner reads its partition at least so often (steps).
pub(crate) const MOST_BEHIND: u64 = 60;

impl World {
    pub(crate) fn hear(&mut self, slot: usize, event: Event) {
        let now = self.now(self.slots[slot].router);
        let of = &mut self.slots[slot];
        let tenure = of.tenure;
        match event {
            Event::Ask(request, ask) => match ask {
                Ask::Publish(batch) => of.core.publish(request, batch, now),
                Ask::Command(key, body) => of.core.command(request, key, body, now),
                Ask::Fetch(ask) => of.core.fetch(request, ask, now),
            },
            Event::LookedUp(of_tenure, answer) if of_tenure == tenure => of.core.looked_up(answer, now),
            Event::Produced(of_tenure, offset) if of_tenure == tenure => {
                of.acked = of.acked.max(Some(offset));
                of.core.produced(offset, now);
            }
            Event::Failed(of_tenure, epoch) if of_tenure == tenure => {
                of.core.produce_failed(epoch, "the producer gave up", now);
            }
            Event::Applied(of_tenure, piece, result, new) if of_tenure == tenure => {
                self.applied(slot, piece, result, new);
            }
            Event::TakeOver(views, from) => self.begin(slot, &views, from),
            Event::Beat(beat) => {
                let router = of.router;
                self.hear_beat(router, &beat);
            }
            Event::Mark(at) => of.core.mark(at, &[]),
            _ => {}
        }
        self.carry_out(slot);
    }

    /// The views' positions are read now, the claim follows later. Without Redis: from where MySQL is.
    pub(crate) fn take_over(&mut self, slot: usize) {
        let of = &self.parts[self.slots[slot].part];
        let persisted = of.persister.tables.at;
        let mut views: Vec<Position> = of.pieces.iter().map(|piece| piece.view.position()).collect();
        if !self.redis_up() || self.fault(0.1) {
            self.counts.add("a take-over without Redis");
            views.fill(persisted);
        }
        let lowest = views.iter().copied().min_by_key(|at| at.offset).unwrap_or_default();
        let look_back = persisted.offset < lowest.offset && self.random.random_bool(0.5);
        let from = if look_back { persisted } else { lowest };
        self.slots[slot].taking_over = true;
        self.within(30, slot, Event::TakeOver(views, from));
    }

    fn begin(&mut self, slot: usize, views: &[Position], from: Position) {
        let (nonce, now) = (self.fresh(), self.now(self.slots[slot].router));
        let of = &mut self.slots[slot];
        let end = self.parts[of.part].log.end();
        of.taking_over = false;
        if of.owns() {
            return;
        }
        let nonce = if self.broken == Some(Break::Nonce) { of.router as u64 + 1 } else { nonce };
        let from = if self.broken == Some(Break::Start) { end } else { from };
        of.begin(nonce, views);
        of.caught_up = self.clock;
        let commits = views.iter().step_by(2).copied();
        let lowest = commits.min_by_key(|at| at.offset).unwrap_or_default();
        of.core.take_over(nonce, from, lowest, now);
        self.counts.add("a take-over");
    }

    pub(crate) fn carry_out(&mut self, slot: usize) {
        let (router, part) = (self.slots[slot].router, self.slots[slot].part);
        while let Some(effect) = self.slots[slot].core.next_effect() {
            let tenure = self.slots[slot].tenure;
            match effect {
                Effect::Lookup(lookup) => self.within(20, slot, Event::Look(tenure, lookup)),
                Effect::Produce { epoch, value, .. } => {
                    self.parts[part].log.send(tenure, Sent { slot, epoch, value });
                }
                Effect::Reply { request, reply } => self.reply(slot, request, &reply),
                Effect::Released(released) => {
                    self.check_released(slot, &released);
                    self.slots[slot].cursors.iter_mut().for_each(|cursor| cursor.push(released.clone()));
                }
                Effect::Advanced(to) => {
                    self.slots[slot].cursors.iter_mut().for_each(|cursor| cursor.advance(to));
                }
                Effect::Receipts { key, receipt } => self.check_receipts(part, &key.conversation, &receipt),
                Effect::Serving { epoch } => {
                    let of = &mut self.parts[part];
                    of.believed_owner = of.believed_owner.max((epoch, router));
                    self.parts[part].changes.push(self.clock);
                    self.counts.add("a claim adopted");
                    if self.plan.assigned {
                        self.beat(router);
                    }
                }
                Effect::SteppedDown { by } => {
                    self.slots[slot].leave();
                    self.counts.add(if by.is_some() { "deposed" } else { "released" });
                    let now = self.now(router).mono;
                    if by.is_some() && self.broken != Some(Break::Waits) {
                        self.machines[router].assignment.deposed(&self.ids[part], now);
                    }
                    if self.plan.assigned {
                        self.beat(router);
                    }
                }
                Effect::Alarm(_) => self.counts.add("in doubt"),
                Effect::Persisted { .. } | Effect::Cursor { .. } | Effect::Interest { .. } => {}
            }
        }
    }

    /// I2: released is what is valid and acknowledged, once, in order.
    fn check_released(&mut self, slot: usize, released: &Released) {
        let of = &mut self.slots[slot];
        let log = &self.parts[of.part].log;
        let place = (released.record.conversation.clone(), released.record.seq);
        let valid = log.valid.get(&place).is_some_and(|at| at.contains(&released.offset));
        let acked = of.acked.is_some_and(|acked| acked >= released.offset);
        let in_order = of.last_released.is_none_or(|last| last < released.offset);
        of.last_released = Some(released.offset);
        if !(valid && acked && in_order) {
            self.wrong.push(format!(
                "slot {slot} released {place:?} of offset {}: valid {valid}, acknowledged {acked}, in order {in_order}",
                released.offset
            ));
        }
    }

    /// R-ACK-3: told to be in MySQL is what is there.
    fn check_receipts(&mut self, part: usize, conversation: &str, receipt: &bus::Receipt) {
        let of = &self.parts[part];
        for seq in receipt.senders.iter().flat_map(|of| &of.seqs) {
            let at = of.log.valid.get(&(conversation.to_owned(), *seq)).and_then(|at| at.first().copied());
            if at.is_none_or(|at| at >= of.persister.tables.at.offset) {
                self.wrong.push(format!("{conversation} seq {seq} was called persisted, it is at {at:?}"));
            }
            self.counts.add("a receipt");
        }
    }

    fn reply(&mut self, slot: usize, request: RequestId, reply: &bus::RouterReply) {
        let Some(Asked { by, ask, at }) = self.asked.get(&request) else { return };
        let (by, at) = (*by, *at);
        match (by, ask) {
            (By::Session(_) | By::Lane(_), Ask::Publish(batch)) => {
                let words = words(reply, batch.items.len());
                let batch = batch.clone();
                if words.len() != batch.items.len() {
                    self.wrong.push(format!("{} words to {} items", words.len(), batch.items.len()));
                }
                for (word, item) in words.iter().zip(&batch.items) {
                    self.check_word(slot, at, &batch, item, word);
                }
            }
            (By::Reader, Ask::Fetch(fetch)) => {
                let fetch = fetch.clone();
                self.check_fetch(self.slots[slot].part, &fetch, reply);
            }
            _ => {}
        }
        let lost = match by {
            By::Lane(lane) => self.cut(self.slots[slot].router, crate::plan::ROUTERS + lane.gateway),
            _ => false,
        };
        if !lost && !self.fault(self.plan.faults.lost_answer) {
            self.within(5, slot, Event::Answer(request, reply.clone()));
        }
    }

    /// What anyone is told stands, valid and acknowledged, at that moment already.
    fn check_word(
        &mut self,
        slot: usize,
        asked_at: u64,
        batch: &bus::PublishBatch,
        item: &bus::PublishItem,
        word: &Word,
    ) {
        if let Word::Refused(name) = word {
            self.turned_away.insert((batch.sender.clone(), item.client_mid.clone()));
            self.note_refusal(slot, asked_at, batch, name);
        }
        let Word::Published(told) = word else {
            self.counts.add(match word {
                Word::Refused(_) => "refused",
                Word::Redirected => "redirected in hand",
                Word::Nothing => "nothing said",
                _ => "refused for now",
            });
            return;
        };
        self.counts.add("published");
        let place = (batch.conversation.clone(), told.seq);
        let log = &self.parts[self.slots[slot].part].log;
        let offset = log.valid.get(&place).and_then(|at| at.first().copied());
        let record = offset.and_then(|offset| log.get(offset).ok());
        let stands = record.is_some_and(|record| {
            let key = lapwing_model::record::key_of(&record);
            let hash = lapwing_model::record::content_hash(&key, &item.content.clone().unwrap_or_default());
            record.sender == batch.sender
                && record.client_mid == item.client_mid
                && record.content_hash[..] == hash
        });
        let accepted = told.outcome() == lapwing_proto::client::Outcome::Accepted;
        let acked = !accepted || offset.is_some_and(|at| self.slots[slot].acked >= Some(at));
        if !stands || !acked {
            self.wrong.push(format!(
                "slot {slot} told {} of {} {told:?}: stands {stands}, acknowledged {acked}",
                item.client_mid, batch.sender
            ));
        }
    }

    /// R-PERM-1: a refusal of permission is right at some moment since it was asked, or shortly before.
    fn note_refusal(&mut self, slot: usize, asked_at: u64, batch: &bus::PublishBatch, name: &str) {
        if [Code::Forbidden, Code::NotFound].iter().all(|code| code.line().name != name) {
            return;
        }
        let part = self.slots[slot].part;
        let of = &self.parts[part];
        let from = of.length_at(asked_at.saturating_sub(MOST_BEHIND));
        let (conversation, sender) = (batch.conversation.clone(), batch.sender.clone());
        self.refusals.push((part, conversation, sender, from, of.log.len()));
    }

    /// I4 begins here: contiguous, ascending; R-PERM-3 is checked when the log is whole.
    fn check_fetch(&mut self, part: usize, ask: &bus::Fetch, reply: &bus::RouterReply) {
        let Some(bus::router_reply::Body::Fetch(reply)) = &reply.body else { return };
        let mut before: Option<u64> = None;
        for event in &reply.events {
            let valid = self.parts[part].log.valid.contains_key(&(ask.conversation.clone(), event.seq));
            let contiguous = before.is_none_or(|before| event.seq == before + 1);
            if !valid || !contiguous || event.seq > reply.head {
                self.wrong.push(format!("{} showed {} behind {before:?}", ask.conversation, event.seq));
            }
            before = Some(event.seq);
            self.shown.push((ask.conversation.clone(), ask.user.clone(), event.seq));
            self.counts.add("an event fetched");
        }
    }

    pub(crate) fn read(&mut self, slot: usize, records: u64) {
        let part = self.slots[slot].part;
        for _ in 0..records {
            let of = &self.slots[slot];
            let offset = of.core.position().offset;
            if !of.owns() || offset >= self.parts[part].log.len() {
                break;
            }
            let (record, now) = (self.parts[part].log.get(offset), self.now(of.router));
            self.slots[slot].core.read(offset, record, now);
            self.carry_out(slot);
        }
        let of = &self.slots[slot];
        if !of.owns() || of.core.position().offset >= self.parts[part].log.len() {
            self.caught_up(slot);
        }
    }

    pub(crate) fn apply_some(&mut self, slot: usize, piece: usize) {
        let (records, tenure) = (self.random.random_range(1..8), self.slots[slot].tenure);
        let Some(cursor) = self.slots[slot].cursors.get_mut(piece) else { return };
        let Some(batch) = cursor.next(records, 1 << 20, true) else { return };
        if self.fault(self.plan.faults.lost_apply / 3.0) {
            let lost = Event::Applied(tenure, piece, None, batch.new);
            return self.within(10, slot, lost);
        }
        self.within(10, slot, Event::Apply(tenure, piece, batch));
    }

    fn applied(&mut self, slot: usize, piece: usize, result: Option<Result<(), Position>>, new: Position) {
        let cursor = &mut self.slots[slot].cursors[piece];
        match result {
            None => cursor.unanswered(),
            Some(Ok(())) => {
                cursor.applied(new);
                self.piece_acked(slot, piece, new.offset);
            }
            Some(Err(stored)) => self.repair(slot, piece, stored),
        }
    }

    fn repair(&mut self, slot: usize, piece: usize, stored: Position) {
        if stored.offset <= self.slots[slot].core.position().offset {
            self.piece_acked(slot, piece, stored.offset);
        }
        let of = &mut self.slots[slot];
        match of.cursors[piece].mismatch(stored) {
            Repair::Replay { from, to } => {
                of.start_replay(piece, from, to);
                self.counts.add("a replay");
            }
            Repair::Ahead(_) => self.counts.add("a view ahead"),
            Repair::Resumed => self.counts.add("a view resumed"),
        }
    }

    pub(crate) fn replay(&mut self, slot: usize, piece: usize) {
        let records = self.random.random_range(1..10);
        let of = &mut self.slots[slot];
        let Some(Some(replay)) = of.replays.get_mut(piece) else { return };
        if replay.done() {
            of.replays[piece] = None;
            return of.cursors[piece].replayed();
        }
        let log = &self.parts[of.part].log;
        let (expected, new, ops) = replay.section(log, piece, records, self.broken);
        if self.instances[piece / 2].down_until > self.clock {
            return;
        }
        let result = self.apply(slot, piece, expected, new, ops);
        if self.fault(self.plan.faults.lost_apply) {
            return;
        }
        match result {
            Ok(()) => {
                self.slots[slot].replays[piece].iter_mut().for_each(|replay| replay.taken());
                self.piece_acked(slot, piece, new.offset);
            }
            Err(stored) => {
                self.slots[slot].replays[piece] = None;
                self.repair(slot, piece, stored);
            }
        }
    }

    /// Somebody looks at a conversation's newest events.
    pub(crate) fn look_at(&mut self, router: usize) {
        let conversation =
            self.sessions[self.random.random_range(0..self.sessions.len())].conversation.clone();
        let user = USERS[self.random.random_range(0..USERS.len())].to_owned();
        let after = self.random.random_range(0..20);
        let slot = self.slot_of(router, self.part_of(&conversation));
        let ask = Ask::Fetch(bus::Fetch { tenant: "t".into(), conversation, after, limit: 10, user });
        let request = self.fresh();
        self.asked.insert(request, Asked { by: By::Reader, ask: ask.clone(), at: self.clock });
        self.later(slot, Event::Ask(request, ask));
    }
}

impl Part {
    /// How long the log was at some step.
    fn length_at(&self, step: u64) -> u64 {
        let behind = self.lengths.partition_point(|(at, _)| *at <= step);
        self.lengths[..behind].last().map_or(0, |(_, len)| *len)
    }
}
