//! A run: clients send and retry, everything fails at times. How it ends stands in `settle`.

use lapwing_model::ConversationKey;
use lapwing_proto::{bus, bus::router_reply};
use lapwing_router_core::RequestId;
use rand::Rng as _;

use crate::{
    client::{Told, Word, words},
    faults::Break,
    owner::MOST_BEHIND,
    plan::{GATEWAYS, ROUTERS, TENANT},
    slot::Slot,
    world::{Ask, Asked, By, Event, World},
};

/// An answer that takes longer is given up.
const PATIENCE: u64 = 60;

impl World {
    fn route(&mut self, part: usize) -> usize {
        let believed = self.parts[part].believed_owner.1;
        let router =
            if self.random.random_bool(0.85) { believed } else { self.random.random_range(0..ROUTERS) };
        self.slot_of(router, part)
    }

    pub(crate) fn send(&mut self, number: usize, write: bool) {
        let session = &mut self.sessions[number];
        if write && session.todo.len() < 3 {
            session.write(&mut self.random, number);
        }
        if self.plan.gateways {
            return self.send_by_gateway(number);
        }
        self.give_up_old(number);
        let session = &self.sessions[number];
        if session.flight.is_some() || session.todo.is_empty() {
            return;
        }
        let part = self.part_of(&session.conversation);
        let count = self.random.random_range(1..=3);
        let now = self.wall(0);
        let batch = self.sessions[number].batch(count, self.broken != Some(Break::Retries), now);
        let request = self.fresh();
        self.sessions[number].flight = Some((request, self.clock));
        let ask = Ask::Publish(batch);
        self.asked.insert(request, Asked { by: By::Session(number), ask: ask.clone(), at: self.clock });
        let to = self.route(part);
        // At times later than the patience, so that a first attempt comes after its retry.
        let most = [3, 3, 20, 60, 300][self.random.random_range(0..5)];
        self.within(most, to, Event::Ask(request, ask));
    }

    fn give_up_old(&mut self, number: usize) {
        if let Some((request, since)) = self.sessions[number].flight
            && self.clock > since + PATIENCE
        {
            let mids = self.mids_of(request);
            self.sessions[number].give_up_flight(request, &mids);
        }
    }

    fn mids_of(&self, request: RequestId) -> Vec<String> {
        match self.asked.get(&request).map(|asked| &asked.ask) {
            Some(Ask::Publish(batch)) => batch.items.iter().map(|item| item.client_mid.clone()).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn command(&mut self, number: usize, think: bool) {
        let admin = &mut self.admins[number];
        if admin.flight.is_some_and(|(_, since)| self.clock > since + PATIENCE) {
            admin.flight = None;
        }
        if think && admin.todo.is_none() {
            admin.think(&mut self.random);
        }
        let Some((to, body)) = admin.todo.clone().filter(|_| admin.flight.is_none()) else { return };
        let request = self.fresh();
        self.admins[number].flight = Some((request, self.clock));
        let part = self.part_of(&to);
        let ask = Ask::Command(ConversationKey::new(TENANT, to), body);
        self.asked.insert(request, Asked { by: By::Admin(number), ask: ask.clone(), at: self.clock });
        let to = self.route(part);
        self.later(to, Event::Ask(request, ask));
    }

    pub(crate) fn answered(&mut self, request: RequestId, reply: &bus::RouterReply) {
        let Some(asked) = self.asked.get(&request) else { return };
        match (asked.by, &asked.ask) {
            (By::Session(number), Ask::Publish(batch)) => {
                let batch = batch.clone();
                let current = self.sessions[number].flight.is_some_and(|(flight, _)| flight == request);
                if current {
                    self.sessions[number].flight = None;
                }
                for (word, item) in words(reply, batch.items.len()).into_iter().zip(&batch.items) {
                    self.heard_word(number, item, word, current);
                }
            }
            (By::Lane(lane), _) => self.lane_answered(lane, request, reply),
            (By::Admin(number), _) => {
                let admin = &mut self.admins[number];
                if admin.flight.is_some_and(|(flight, _)| flight == request) {
                    admin.flight = None;
                    match &reply.body {
                        Some(router_reply::Body::Command(_)) => admin.todo = None,
                        Some(router_reply::Body::Error(error)) if !error.temporary => admin.todo = None,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn heard_word(&mut self, number: usize, item: &bus::PublishItem, word: Word, current: bool) {
        let said = match item.content.as_ref().and_then(|content| content.body.as_ref()) {
            Some(lapwing_proto::client::content::Body::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let told = match word {
            Word::Nothing if self.broken == Some(Break::Silence) => Told::Refused,
            Word::Published(told) => Told::Published(told),
            // An answer to an attempt that was given up settles nothing.
            _ if !current => return,
            Word::Refused(_) => Told::Refused,
            Word::Nothing => Told::Unknown,
            Word::Redirected | Word::Later => Told::Later,
        };
        self.settled(number, &item.client_mid, &said, told);
    }

    /// The client takes an answer in.
    pub(crate) fn settled(&mut self, number: usize, mid: &str, said: &str, told: Told) {
        let give_up = self.random.random_bool(0.1);
        let session = &mut self.sessions[number];
        let found = session.todo.iter().position(|of| of.mid == mid && of.content == said);
        let Some(place) = found else { return };
        session.todo[place].out = false;
        let unclear = session.todo[place].unclear;
        match told {
            Told::Published(told) => {
                let sent = session.todo.remove(place);
                if sent.is_some_and(|sent| !sent.reused) {
                    session.accepted.push((order_of(mid), told.seq));
                }
            }
            Told::Unknown => session.todo[place].unclear = true,
            // Given up before anything was handed over, it has to be as if it had never been sent.
            Told::Refused => {
                session.todo.remove(place);
                if !unclear {
                    self.refused.push((session.user.clone(), mid.to_owned(), said.to_owned()));
                }
            }
            Told::Later if give_up && !unclear => {
                session.todo.remove(place);
                self.refused.push((session.user.clone(), mid.to_owned(), said.to_owned()));
            }
            Told::Later => {}
        }
    }

    pub(crate) fn step(&mut self) {
        self.tick();
        if self.plan.assigned {
            self.run_machines();
        }
        self.read_what_is_late();
        let acts = if self.plan.wide { 2 } else { 1 };
        (0..acts).for_each(|_| self.act());
    }

    /// No owner that runs is further behind than this: its reading is a task of its own.
    fn read_what_is_late(&mut self) {
        for slot in 0..self.slots.len() {
            let of = &self.slots[slot];
            if of.owns() && of.caught_up + MOST_BEHIND - 10 < self.clock && self.awake(of.router) {
                self.read(slot, u64::MAX);
            }
        }
    }

    fn act(&mut self) {
        let slot = self.random.random_range(0..self.slots.len());
        let (router, part) = (self.slots[slot].router, self.slots[slot].part);
        let piece = self.random.random_range(0..2 * self.instances.len());
        let session = self.random.random_range(0..self.sessions.len());
        let admin = self.random.random_range(0..self.admins.len());
        let many = self.random.random_range(1..8);
        let awake = self.awake(router);
        match self.random.random_range(0..1000) {
            0..170 => self.send(session, true),
            170..210 => self.command(admin, true),
            210..450 => self.append(part),
            450..700 if awake => self.read_some(part, many),
            700..800 if awake => self.apply_some(slot, piece),
            800..850 if awake => self.replay(slot, piece),
            850..900 if awake => self.pass(slot),
            900..920 => self.look_at(router),
            920..935 => self.persist(part, many),
            935..950 if awake && !self.plan.assigned => self.wish(slot),
            950..952 => self.release(slot),
            952.. => self.strike(router, part, piece / 2, session),
            _ => {}
        }
    }

    /// One of those who own the partition reads on; who does not has nothing to read.
    fn read_some(&mut self, part: usize, many: u64) {
        let owners: Vec<usize> = (0..self.slots.len())
            .filter(|slot| self.slots[*slot].part == part && self.slots[*slot].owns())
            .filter(|slot| self.awake(self.slots[*slot].router))
            .collect();
        if !owners.is_empty() {
            let slot = owners[self.random.random_range(0..owners.len())];
            self.read(slot, many);
        }
    }

    /// A fault, if this run has it: weights in thousandths of all acts.
    fn strike(&mut self, router: usize, part: usize, instance: usize, session: usize) {
        let of = self.plan.faults.clone();
        let mut left = self.random.random_range(0..48u32);
        let mut hit = |weight: u32| {
            let hit = left < weight;
            left = if hit { u32::MAX } else { left.saturating_sub(weight) };
            hit
        };
        if hit(of.crash) {
            self.crash(router);
        } else if hit(of.pause) {
            let most = [100, 300, 300, 900][self.random.random_range(0..4)];
            self.machines[router].asleep_until = self.clock + self.random.random_range(20..most);
            self.counts.add("a pause");
        } else if hit(of.roll_back) {
            self.roll_back(instance, false);
        } else if hit(of.redis_lost) {
            self.roll_back(instance, true);
        } else if hit(of.redis_down) {
            self.redis_down(instance);
        } else if hit(of.clock_jump) {
            self.jump_clock();
        } else if hit(of.persister_kill) {
            self.kill_persister(part);
        } else if self.plan.assigned && hit(of.cut) {
            self.cut_off();
        } else if self.plan.gateways && hit(of.gateway_crash) {
            self.crash_gateway(session % GATEWAYS);
        } else if self.plan.gateways && hit(of.gateway_pause) {
            self.pause_gateway(session % GATEWAYS);
        } else if self.plan.gateways && hit(of.reconnect) {
            self.reconnect(session);
        }
    }

    /// Most wishes to own come when nobody does, some at any time.
    fn wish(&mut self, slot: usize) {
        let part = self.slots[slot].part;
        let owns = |of: &Slot| of.part == part && (of.owns() || of.taking_over) && self.awake(of.router);
        let owned = self.slots.iter().any(owns);
        let of = &self.slots[slot];
        if of.owns() || of.taking_over || owned && self.random.random_bool(0.85) {
            return;
        }
        self.take_over(slot);
    }

    pub(crate) fn pass(&mut self, slot: usize) {
        let now = self.now(self.slots[slot].router);
        self.slots[slot].core.tick(now);
        self.carry_out(slot);
    }

    pub(crate) fn release(&mut self, slot: usize) {
        if self.awake(self.slots[slot].router) {
            let now = self.now(self.slots[slot].router);
            self.slots[slot].core.release(now);
            self.carry_out(slot);
        }
    }
}

/// Client_mids are `session-number`, numbers in sending order.
pub(crate) fn order_of(mid: &str) -> u64 {
    mid.split_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or_default()
}
