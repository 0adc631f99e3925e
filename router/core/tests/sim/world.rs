//! Everything around the owners: the log, the views, delays and faults, drawn from one seed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

use lapwing_model::{ConversationKey, Family, Op, Position, view::FAMILIES};
use lapwing_proto::bus;
use lapwing_router_core::{Lookup, LookupAnswer, Now, RequestId, Safeguard, view::Batch};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::{
    client::{Admin, GROUPS, Session, USERS},
    faults::{self, Break},
    log::Log,
    router::Router,
    view::View,
};

/// One step of the clock.
pub(crate) const STEP_MS: u64 = 10;
pub(crate) const ROUTERS: usize = 3;

#[derive(Debug, Clone)]
pub(crate) enum Ask {
    Publish(bus::PublishBatch),
    Command(ConversationKey, bus::command::Body),
    Fetch(bus::Fetch),
}

/// What arrives somewhere later.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Ask(RequestId, Ask),
    LookedUp(u64, LookupAnswer),
    Produced(u64, u64),
    Failed(u64, u64),
    Applied(u64, usize, Option<Result<(), Position>>, Position),
    TakeOver([Position; 2], Position),
    Mark(Position),
    /// At the view, whoever sent it.
    Look(u64, Lookup),
    Apply(u64, Batch),
    /// At the log.
    Append(Option<bytes::Bytes>),
    Answer(RequestId, bus::RouterReply),
}

/// Who asked, and what.
pub(crate) struct Asked {
    pub(crate) by: By,
    pub(crate) ask: Ask,
}

#[derive(Clone, Copy)]
pub(crate) enum By {
    Session(usize),
    Admin(usize),
    Reader,
}

/// How often things happened, to see that the schedules reach them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts(pub BTreeMap<&'static str, u64>);

impl Counts {
    pub(crate) fn add(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
}

pub(crate) struct World {
    pub(crate) random: StdRng,
    pub(crate) broken: Option<Break>,
    pub(crate) faulty: bool,
    pub(crate) clock: u64,
    pub(crate) log: Log,
    pub(crate) views: [View; 2],
    pub(crate) past_views: [Vec<View>; 2],
    pub(crate) owned: BTreeMap<(String, String), [u8; 16]>,
    pub(crate) routers: Vec<Router>,
    pub(crate) believed_owner: usize,
    pub(crate) sessions: Vec<Session>,
    pub(crate) admins: Vec<Admin>,
    pub(crate) asked: BTreeMap<RequestId, Asked>,
    pub(crate) persisted: Position,
    pub(crate) refused: Vec<(String, String, String)>,
    /// Refused for good at least once, whether or not the client heard of it: when it comes again, it may come late.
    pub(crate) turned_away: BTreeSet<(String, String)>,
    pub(crate) shown: Vec<(String, String, u64)>,
    pub(crate) wrong: Vec<String>,
    pub(crate) counts: Counts,
    later: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, (usize, Event)>,
    number: u64,
}

impl World {
    pub(crate) fn new(seed: u64, broken: Option<Break>) -> Self {
        let p2p = lapwing_model::kind::p2p_id("t", USERS[0], USERS[1]);
        let sessions = vec![
            Session::new(USERS[0], GROUPS[0]),
            Session::new(USERS[1], GROUPS[0]),
            Session::new(USERS[2], GROUPS[1]),
            Session::new(USERS[3], GROUPS[1]),
            Session::new(USERS[0], &p2p),
            Session::new(USERS[1], &p2p),
        ];
        Self {
            random: StdRng::seed_from_u64(seed),
            broken,
            faulty: true,
            clock: 0,
            log: Log::new(Safeguard::rule(faults::of_core(broken))),
            views: [View::default(), View::default()],
            past_views: [Vec::new(), Vec::new()],
            owned: BTreeMap::new(),
            routers: (0..ROUTERS).map(|name| Router::new(name, broken)).collect(),
            believed_owner: 0,
            sessions,
            admins: vec![Admin::default(), Admin::default()],
            asked: BTreeMap::new(),
            persisted: Position::default(),
            refused: Vec::new(),
            turned_away: BTreeSet::new(),
            shown: Vec::new(),
            wrong: Vec::new(),
            counts: Counts::default(),
            later: BinaryHeap::new(),
            events: BTreeMap::new(),
            number: 0,
        }
    }

    pub(crate) fn now(&self) -> Now {
        Now { mono: self.clock * STEP_MS, wall: 1_700_000_000_000 + self.clock * STEP_MS }
    }

    pub(crate) fn fault(&mut self, probability: f64) -> bool {
        self.faulty && self.random.random_bool(probability)
    }

    pub(crate) fn fresh(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Sooner or later.
    pub(crate) fn later(&mut self, router: usize, event: Event) {
        let most = [3, 3, 10, 20, 150][self.random.random_range(0..5)];
        self.within(most, router, event);
    }

    pub(crate) fn within(&mut self, most: u64, router: usize, event: Event) {
        let most = if self.faulty { most } else { most.min(3) };
        let at = self.clock + self.random.random_range(0..=most);
        let number = self.fresh();
        self.later.push(Reverse((at, number)));
        self.events.insert(number, (router, event));
    }

    /// The clock moves on, and what is due arrives.
    pub(crate) fn tick(&mut self) {
        self.clock += 1;
        while let Some(Reverse((at, number))) = self.later.peek().copied()
            && at <= self.clock
        {
            self.later.pop();
            if let Some((router, event)) = self.events.remove(&number) {
                self.arrive(router, event);
            }
        }
        for router in 0..ROUTERS {
            if self.awake(router) && !self.routers[router].inbox.is_empty() {
                // Stopped for a while: it cannot have heard its own heartbeat.
                self.routers[router].core.set_isolated(true);
                for event in std::mem::take(&mut self.routers[router].inbox) {
                    self.hear(router, event);
                }
                self.routers[router].core.set_isolated(false);
            }
        }
    }

    pub(crate) fn awake(&self, router: usize) -> bool {
        self.routers[router].asleep_until <= self.clock
    }

    fn arrive(&mut self, router: usize, event: Event) {
        match event {
            Event::Look(tenure, lookup) => self.look(router, tenure, &lookup),
            Event::Apply(tenure, batch) => self.take_batch(router, tenure, &batch),
            Event::Append(value) => drop(self.log.append(value)),
            Event::Answer(request, reply) => self.answered(request, &reply),
            event if self.awake(router) => self.hear(router, event),
            event => self.routers[router].inbox.push_back(event),
        }
    }

    /// A cold load and the client_mid's key, both at the view.
    fn look(&mut self, router: usize, tenure: u64, lookup: &Lookup) {
        use lapwing_router_core::{Load, Own};
        let load = match &lookup.load {
            None => Load::NotAsked,
            Some(_) if self.fault(0.05) => Load::Unavailable,
            Some(ask) => {
                let mut ask = ask.clone();
                if self.broken == Some(Break::Lowest) {
                    ask.lowest = 0;
                }
                self.views[0].load(&lookup.key, &ask)
            }
        };
        let own = match &lookup.own {
            None => Own::NotAsked,
            Some(ask) => {
                let place = (ask.sender.to_string(), ask.client_mid.to_string());
                if self.broken == Some(Break::Retries) {
                    Own::New
                } else if self.fault(0.05) {
                    self.counts.add("a skipped client_mid check");
                    Own::Skipped
                } else {
                    match self.owned.get(&place) {
                        None => {
                            self.owned.insert(place, ask.content_hash);
                            Own::New
                        }
                        Some(hash) if *hash == ask.content_hash => Own::SameContent,
                        Some(_) => Own::OtherContent,
                    }
                }
            }
        };
        let answer = LookupAnswer { ticket: lookup.ticket, load, own };
        self.later(router, Event::LookedUp(tenure, answer));
    }

    fn take_batch(&mut self, router: usize, tenure: u64, batch: &Batch) {
        let family = place(batch.family);
        let result = self.apply(family, batch.expected, batch.new, &batch.ops);
        let result = if self.fault(0.1) { None } else { Some(result) };
        self.within(10, router, Event::Applied(tenure, family, result, batch.new));
    }

    /// The view's script.
    pub(crate) fn apply(
        &mut self,
        family: usize,
        expected: Position,
        new: Position,
        ops: &[Op],
    ) -> Result<(), Position> {
        let before = self.views[family].clone();
        let result = if self.broken == Some(Break::Position) {
            self.views[family].force(new, ops);
            Ok(())
        } else {
            self.views[family].apply(expected, new, ops)
        };
        if self.views[family].at != before.at {
            self.past_views[family].push(before);
        }
        result
    }

    /// A view that loses its last changes, or all of them.
    pub(crate) fn roll_back(&mut self, family: usize, applies: usize) {
        let past = &mut self.past_views[family];
        let kept = past.len().saturating_sub(applies);
        past.truncate(kept + 1);
        if kept == 0 {
            past.clear();
        }
        self.views[family] = past.pop().unwrap_or_default();
        self.counts.add("a view moved back");
    }

    /// One record of some producer reaches the log, or does not.
    pub(crate) fn append(&mut self) {
        let tenures: Vec<u64> = self.log.wires.keys().copied().collect();
        if tenures.is_empty() {
            return;
        }
        let tenure = tenures[self.random.random_range(0..tenures.len())];
        let Some(sent) = self.log.take(tenure) else { return };
        let (lost, late, doubled) = (self.fault(0.01), self.fault(0.02), self.fault(0.03));
        let garbled = self.fault(0.003);
        if lost || late {
            if self.fault(0.7) {
                self.later(sent.router, Event::Failed(tenure, sent.epoch));
            }
        } else {
            let offset = self.log.append(if garbled { None } else { Some(sent.value.clone()) });
            if self.fault(0.02) {
                self.later(sent.router, Event::Failed(tenure, sent.epoch));
            } else {
                self.within(20, sent.router, Event::Produced(tenure, offset));
            }
        }
        if late || doubled {
            self.later(sent.router, Event::Append(Some(sent.value)));
        }
    }
}

pub(crate) fn place(family: Family) -> usize {
    FAMILIES.iter().position(|of| *of == family).unwrap_or_default()
}
