//! What happens to a router, and what becomes of its effects: the shell of the real service, without its threads.

use lapwing_model::{Position, view::FAMILIES};
use lapwing_proto::bus;
use lapwing_router_core::{Effect, Released, RequestId, view::Repair};
use rand::Rng as _;

use crate::{
    client::{USERS, Word, words},
    faults::Break,
    log::Sent,
    world::{Ask, Asked, By, Event, World},
};

impl World {
    pub(crate) fn hear(&mut self, router: usize, event: Event) {
        let now = self.now();
        let of = &mut self.routers[router];
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
            Event::Applied(of_tenure, family, result, new) if of_tenure == tenure => {
                self.applied(router, family, result, new);
            }
            Event::TakeOver(views, from) => self.begin(router, views, from),
            Event::Mark(at) => of.core.mark(at, &[]),
            _ => {}
        }
        self.carry_out(router);
    }

    /// The views' positions are read now, the claim follows later. Without Redis: from where MySQL is.
    pub(crate) fn take_over(&mut self, router: usize) {
        let views = if self.fault(0.1) {
            self.counts.add("a take-over without Redis");
            [self.persisted; 2]
        } else {
            [self.views[0].at, self.views[1].at]
        };
        let lowest = if views[0].offset <= views[1].offset { views[0] } else { views[1] };
        let look_back = self.persisted.offset < lowest.offset && self.random.random_bool(0.5);
        let from = if look_back { self.persisted } else { lowest };
        self.routers[router].taking_over = true;
        self.within(30, router, Event::TakeOver(views, from));
    }

    fn begin(&mut self, router: usize, views: [Position; 2], from: Position) {
        let (nonce, end, now) = (self.fresh(), self.log.end(), self.now());
        let of = &mut self.routers[router];
        of.taking_over = false;
        if of.owns() {
            return;
        }
        let nonce = if self.broken == Some(Break::Nonce) { router as u64 + 1 } else { nonce };
        let from = if self.broken == Some(Break::Start) { end } else { from };
        of.begin(nonce, views);
        of.core.take_over(nonce, from, views[0], now);
        self.counts.add("a take-over");
    }

    pub(crate) fn carry_out(&mut self, router: usize) {
        while let Some(effect) = self.routers[router].core.next_effect() {
            let tenure = self.routers[router].tenure;
            match effect {
                Effect::Lookup(lookup) => self.within(20, router, Event::Look(tenure, lookup)),
                Effect::Produce { epoch, value, .. } => {
                    self.log.send(tenure, Sent { router, epoch, value });
                }
                Effect::Reply { request, reply } => self.reply(router, request, &reply),
                Effect::Released(released) => {
                    self.check_released(router, &released);
                    self.routers[router].cursors.iter_mut().for_each(|cursor| cursor.push(released.clone()));
                }
                Effect::Advanced(to) => {
                    self.routers[router].cursors.iter_mut().for_each(|cursor| cursor.advance(to));
                }
                Effect::Receipts { key, receipt } => self.check_receipts(&key.conversation, &receipt),
                Effect::Serving { .. } => {
                    self.believed_owner = router;
                    self.counts.add("a claim adopted");
                }
                Effect::SteppedDown { by } => {
                    self.routers[router].leave();
                    self.counts.add(if by.is_some() { "deposed" } else { "released" });
                }
                Effect::Alarm(_) => self.counts.add("in doubt"),
                Effect::Persisted { .. } | Effect::Cursor { .. } | Effect::Interest { .. } => {}
            }
        }
    }

    /// I2: released is what is valid and acknowledged, once, in order.
    fn check_released(&mut self, router: usize, released: &Released) {
        let of = &mut self.routers[router];
        let place = (released.record.conversation.clone(), released.record.seq);
        let valid = self.log.valid.get(&place).is_some_and(|at| at.contains(&released.offset));
        let acked = of.acked.is_some_and(|acked| acked >= released.offset);
        let in_order = of.last_released.is_none_or(|last| last < released.offset);
        of.last_released = Some(released.offset);
        if !(valid && acked && in_order) {
            self.wrong.push(format!(
                "router {router} released {place:?} of offset {}: valid {valid}, acknowledged {acked}, in order {in_order}",
                released.offset
            ));
        }
    }

    /// R-ACK-3: told to be in MySQL is what is there.
    fn check_receipts(&mut self, conversation: &str, receipt: &bus::Receipt) {
        for seq in receipt.senders.iter().flat_map(|of| &of.seqs) {
            let at = self.log.valid.get(&(conversation.to_owned(), *seq)).and_then(|at| at.first().copied());
            if at.is_none_or(|at| at >= self.persisted.offset) {
                self.wrong.push(format!("{conversation} seq {seq} was called persisted, it is at {at:?}"));
            }
            self.counts.add("a receipt");
        }
    }

    fn reply(&mut self, router: usize, request: RequestId, reply: &bus::RouterReply) {
        let Some(Asked { by, ask }) = self.asked.get(&request) else { return };
        match (by, ask) {
            (By::Session(_), Ask::Publish(batch)) => {
                let words = words(reply, batch.items.len());
                let batch = batch.clone();
                if words.len() != batch.items.len() {
                    self.wrong.push(format!("{} words to {} items", words.len(), batch.items.len()));
                }
                for (word, item) in words.iter().zip(&batch.items) {
                    self.check_word(router, &batch, item, word);
                }
            }
            (By::Reader, Ask::Fetch(fetch)) => {
                let fetch = fetch.clone();
                self.check_fetch(&fetch, reply);
            }
            _ => {}
        }
        if !self.fault(0.1) {
            self.within(5, router, Event::Answer(request, reply.clone()));
        }
    }

    /// What anyone is told stands, valid and acknowledged, at that moment already.
    fn check_word(&mut self, router: usize, batch: &bus::PublishBatch, item: &bus::PublishItem, word: &Word) {
        if let Word::Refused(_) = word {
            self.turned_away.insert((batch.sender.clone(), item.client_mid.clone()));
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
        let offset = self.log.valid.get(&place).and_then(|at| at.first().copied());
        let record = offset.and_then(|offset| self.log.get(offset).ok());
        let stands = record.is_some_and(|record| {
            let key = lapwing_model::record::key_of(&record);
            let hash = lapwing_model::record::content_hash(&key, &item.content.clone().unwrap_or_default());
            record.sender == batch.sender
                && record.client_mid == item.client_mid
                && record.content_hash[..] == hash
        });
        let accepted = told.outcome() == lapwing_proto::client::Outcome::Accepted;
        let acked = !accepted || offset.is_some_and(|at| self.routers[router].acked >= Some(at));
        if !stands || !acked {
            self.wrong.push(format!(
                "router {router} told {} of {} {told:?}: stands {stands}, acknowledged {acked}",
                item.client_mid, batch.sender
            ));
        }
    }

    /// I4 begins here: contiguous, ascending; R-PERM-3 is checked when the log is whole.
    fn check_fetch(&mut self, ask: &bus::Fetch, reply: &bus::RouterReply) {
        let Some(bus::router_reply::Body::Fetch(reply)) = &reply.body else { return };
        let mut before: Option<u64> = None;
        for event in &reply.events {
            let valid = self.log.valid.contains_key(&(ask.conversation.clone(), event.seq));
            let contiguous = before.is_none_or(|before| event.seq == before + 1);
            if !valid || !contiguous || event.seq > reply.head {
                self.wrong.push(format!("{} showed {} behind {before:?}", ask.conversation, event.seq));
            }
            before = Some(event.seq);
            self.shown.push((ask.conversation.clone(), ask.user.clone(), event.seq));
            self.counts.add("an event fetched");
        }
    }

    pub(crate) fn read(&mut self, router: usize, records: u64) {
        for _ in 0..records {
            let of = &self.routers[router];
            let offset = of.core.position().offset;
            if !of.owns() || offset >= self.log.len() {
                return;
            }
            let (record, now) = (self.log.get(offset), self.now());
            self.routers[router].core.read(offset, record, now);
            self.carry_out(router);
        }
    }

    pub(crate) fn apply_some(&mut self, router: usize, family: usize) {
        let (records, tenure) = (self.random.random_range(1..8), self.routers[router].tenure);
        let Some(cursor) = self.routers[router].cursors.get_mut(family) else { return };
        let Some(batch) = cursor.next(records, 1 << 20, true) else { return };
        if self.fault(0.03) {
            let lost = Event::Applied(tenure, family, None, batch.new);
            return self.within(10, router, lost);
        }
        self.within(10, router, Event::Apply(tenure, batch));
    }

    fn applied(&mut self, router: usize, family: usize, result: Option<Result<(), Position>>, new: Position) {
        let of = &mut self.routers[router];
        match result {
            None => of.cursors[family].unanswered(),
            Some(Ok(())) => {
                of.cursors[family].applied(new);
                if family == 0 {
                    of.core.view_at(new.offset);
                }
            }
            Some(Err(stored)) => self.repair(router, family, stored),
        }
    }

    fn repair(&mut self, router: usize, family: usize, stored: Position) {
        let of = &mut self.routers[router];
        if family == 0 && stored.offset <= of.core.position().offset {
            of.core.view_at(stored.offset);
        }
        match of.cursors[family].mismatch(stored) {
            Repair::Replay { from, to } => {
                of.start_replay(family, from, to);
                self.counts.add("a replay");
            }
            Repair::Ahead(_) => self.counts.add("a view ahead"),
            Repair::Resumed => self.counts.add("a view resumed"),
        }
    }

    pub(crate) fn replay(&mut self, router: usize, family: usize) {
        let records = self.random.random_range(1..10);
        let of = &mut self.routers[router];
        let Some(replay) = &mut of.replays[family] else { return };
        if replay.done() {
            of.replays[family] = None;
            return of.cursors[family].replayed();
        }
        let (expected, new, ops) = replay.section(&self.log, FAMILIES[family], records, self.broken);
        let result = self.apply(family, expected, new, &ops);
        if self.fault(0.1) {
            return;
        }
        let of = &mut self.routers[router];
        match result {
            Ok(()) => {
                of.replays[family].iter_mut().for_each(|replay| replay.taken());
                if family == 0 {
                    of.core.view_at(new.offset);
                }
            }
            Err(stored) => {
                of.replays[family] = None;
                self.repair(router, family, stored);
            }
        }
    }

    /// Somebody looks at a conversation's newest events.
    pub(crate) fn look_at(&mut self, router: usize) {
        let conversation =
            self.sessions[self.random.random_range(0..self.sessions.len())].conversation.clone();
        let user = USERS[self.random.random_range(0..USERS.len())].to_owned();
        let after = self.random.random_range(0..20);
        let ask = Ask::Fetch(bus::Fetch { tenant: "t".into(), conversation, after, limit: 10, user });
        let request = self.fresh();
        self.asked.insert(request, Asked { by: By::Reader, ask: ask.clone() });
        self.later(router, Event::Ask(request, ask));
    }
}
