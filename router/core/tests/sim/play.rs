//! A run: clients send and retry, everything fails at times; then the faults end, one router is left, and all is compared.

use lapwing_model::ConversationKey;
use lapwing_proto::{bus, bus::router_reply};
use lapwing_router_core::RequestId;
use rand::Rng as _;

use crate::{
    client::{Word, words},
    faults::Break,
    truth::Truth,
    world::{Ask, Asked, By, Event, ROUTERS, World},
};

const STEPS: u64 = 2000;
/// An answer that takes longer is given up.
const PATIENCE: u64 = 60;

impl World {
    fn route(&mut self) -> usize {
        if self.random.random_bool(0.85) { self.believed_owner } else { self.random.random_range(0..ROUTERS) }
    }

    pub(crate) fn send(&mut self, number: usize, write: bool) {
        self.give_up_old(number);
        let session = &mut self.sessions[number];
        if write && session.todo.len() < 3 {
            session.write(&mut self.random, number);
        }
        if session.flight.is_some() || session.todo.is_empty() {
            return;
        }
        let count = self.random.random_range(1..=3);
        let now = self.now().wall;
        let batch = self.sessions[number].batch(count, self.broken != Some(Break::Retries), now);
        let request = self.fresh();
        self.sessions[number].flight = Some((request, self.clock));
        let ask = Ask::Publish(batch);
        self.asked.insert(request, Asked { by: By::Session(number), ask: ask.clone() });
        let to = self.route();
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
        let ask = Ask::Command(ConversationKey::new("t", to), body);
        self.asked.insert(request, Asked { by: By::Admin(number), ask: ask.clone() });
        let to = self.route();
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
                    self.settled(number, item, word, current);
                }
            }
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

    fn settled(&mut self, number: usize, item: &bus::PublishItem, word: Word, current: bool) {
        let session = &mut self.sessions[number];
        let said = match item.content.as_ref().and_then(|content| content.body.as_ref()) {
            Some(lapwing_proto::client::content::Body::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let found = session.todo.iter().position(|of| of.mid == item.client_mid && of.content == said);
        let Some(place) = found else { return };
        let word = match word {
            Word::Nothing if self.broken == Some(Break::Silence) => Word::Refused("nothing".to_owned()),
            word => word,
        };
        match word {
            Word::Published(told) => {
                let sent = session.todo.remove(place);
                if sent.is_some_and(|sent| !sent.reused) {
                    session.accepted.push((order_of(&item.client_mid), told.seq));
                }
            }
            // An answer to an attempt that was given up settles nothing.
            Word::Refused(_) if current => {
                let sent = session.todo.remove(place);
                if sent.is_some_and(|sent| !sent.unclear) {
                    self.refused.push((session.user.clone(), item.client_mid.clone(), said));
                }
            }
            // Given up after a redirect, it has to be as if it had never been sent.
            Word::Redirected if current && !session.todo[place].unclear && self.random.random_bool(0.2) => {
                session.todo.remove(place);
                self.refused.push((session.user.clone(), item.client_mid.clone(), said));
            }
            Word::Nothing if current => session.todo[place].unclear = true,
            Word::Refused(_) | Word::Redirected | Word::Nothing | Word::Later => {}
        }
    }

    fn mark(&mut self) {
        let acked = self.routers.iter().filter_map(|router| router.acked).max();
        let Some(acked) = acked.filter(|acked| *acked > self.persisted.offset) else { return };
        let at = self.random.random_range(self.persisted.offset..=acked);
        self.persisted = self.log.position(at);
        for router in 0..ROUTERS {
            if !self.fault(0.3) {
                self.later(router, Event::Mark(self.persisted));
            }
        }
    }

    fn step(&mut self) {
        self.tick();
        let router = self.random.random_range(0..ROUTERS);
        let family = self.random.random_range(0..2);
        let session = self.random.random_range(0..self.sessions.len());
        let admin = self.random.random_range(0..self.admins.len());
        let many = self.random.random_range(1..6);
        let awake = self.awake(router);
        match self.random.random_range(0..1000) {
            0..170 => self.send(session, true),
            170..210 => self.command(admin, true),
            210..450 => self.append(),
            450..700 if awake => self.read(router, many),
            700..800 if awake => self.apply_some(router, family),
            800..850 if awake => self.replay(router, family),
            850..910 if awake => self.pass(router),
            910..930 => self.look_at(router),
            930..940 => self.mark(),
            940..960 if awake => self.wish(router),
            960..962 => self.release(router),
            962..964 => {
                self.routers[router].crash();
                self.counts.add("a crash");
            }
            964..967 => {
                self.routers[router].asleep_until = self.clock + self.random.random_range(20..300);
                self.counts.add("a pause");
            }
            967..969 => self.roll_back(family, many as usize),
            969..970 => self.roll_back(family, usize::MAX),
            _ => {}
        }
    }

    /// Most wishes to own come when nobody does, some at any time.
    fn wish(&mut self, router: usize) {
        let owned = self.routers.iter().any(|router| router.owns() || router.taking_over);
        if self.routers[router].owns()
            || self.routers[router].taking_over
            || owned && self.random.random_bool(0.85)
        {
            return;
        }
        self.take_over(router);
    }

    fn pass(&mut self, router: usize) {
        let now = self.now();
        self.routers[router].core.tick(now);
        self.carry_out(router);
    }

    fn release(&mut self, router: usize) {
        if self.awake(router) {
            let now = self.now();
            self.routers[router].core.release(now);
            self.carry_out(router);
        }
    }

    /// The faults end and one router is left. What takes it more than some rounds counts as stuck.
    fn settle(&mut self) {
        self.faulty = false;
        let survivor = self.random.random_range(0..ROUTERS);
        for router in 0..ROUTERS {
            self.routers[router].asleep_until = 0;
            if router != survivor {
                self.routers[router].crash();
            }
        }
        self.believed_owner = survivor;
        for _ in 0..25 {
            if !self.routers[survivor].owns() && !self.routers[survivor].taking_over {
                self.take_over(survivor);
            }
            self.run_dry(survivor);
            // Longer than any backoff lasts after three rounds.
            self.clock += 1500;
            self.pass(survivor);
            for number in 0..self.sessions.len() {
                self.send(number, false);
            }
            for number in 0..self.admins.len() {
                self.command(number, false);
            }
        }
        self.run_dry(survivor);
    }

    fn run_dry(&mut self, survivor: usize) {
        for round in 0..2000 {
            self.append();
            self.tick();
            self.read(survivor, 10);
            for family in 0..2 {
                self.apply_some(survivor, family);
                self.replay(survivor, family);
            }
            let all_read = self.routers[survivor].core.position().offset == self.log.len();
            if round > 30 && self.quiet() && (all_read || !self.routers[survivor].owns()) {
                return;
            }
        }
    }

    /// Nothing is on its way but the views' beats.
    fn quiet(&self) -> bool {
        self.log.wires.is_empty()
            && self.routers.iter().all(|router| router.core.pending() == 0 || !router.serves())
    }

    fn compare(&mut self) -> Vec<String> {
        let mut truth = Truth::of(&self.log);
        truth.compare(&self.log, &self.views);
        let mut wrong = std::mem::take(&mut self.wrong);
        wrong.append(&mut truth.wrong);
        for ((user, mid), stands) in &truth.by_mid {
            if stands.len() > 1 {
                wrong.push(format!("{mid} of {user} stands {} times: {stands:?}", stands.len()));
            }
        }
        for (user, mid, said) in &self.refused {
            let stands = truth.by_mid.get(&(user.clone(), mid.clone()));
            if stands.is_some_and(|stands| stands.iter().any(|(_, _, content)| content == said)) {
                wrong.push(format!("{mid} of {user} was refused for good and stands: {stands:?}"));
            }
        }
        for (conversation, user, seq) in &self.shown {
            if !truth.sees(conversation, user, *seq) {
                wrong.push(format!("{conversation} seq {seq} was shown to {user}"));
            }
        }
        for (number, session) in self.sessions.iter().enumerate() {
            let mut accepted = session.accepted.clone();
            accepted.sort_unstable();
            let turned_away = |mid: &String| self.turned_away.contains(&(session.user.clone(), mid.clone()));
            accepted.retain(|(mid, _)| !turned_away(&format!("{number}-{mid}")));
            if !accepted.is_sorted_by_key(|(_, seq)| *seq) {
                wrong
                    .push(format!("{} in {} out of order: {accepted:?}", session.user, session.conversation));
            }
            wrong.extend(session.todo.iter().map(|item| format!("{} is never answered", item.mid)));
        }
        for admin in &self.admins {
            wrong.extend(admin.todo.iter().map(|todo| format!("{todo:?} is never answered")));
        }
        wrong
    }

    /// What is wrong in the end: nothing.
    pub(crate) fn run(&mut self) -> Vec<String> {
        for _ in 0..STEPS {
            self.step();
        }
        self.settle();
        let events = self.log.events().len() as u64;
        *self.counts.0.entry("an event accepted").or_default() += events;
        self.compare()
    }
}

/// Client_mids are `session-number`, numbers in sending order.
fn order_of(mid: &str) -> u64 {
    mid.split_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or_default()
}
