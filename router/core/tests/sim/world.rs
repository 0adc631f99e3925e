//! Everything around the owners: logs, views, delays and faults, drawn from one seed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    time::{Duration, Instant},
};

use lapwing_model::{ConversationKey, PartitionId, Position};
use lapwing_proto::bus;
use lapwing_router_core::{Lookup, LookupAnswer, Now, RequestId, Safeguard, view::Batch};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::{
    client::{Admin, Session},
    faults::{self, Break},
    gateway::{Gateway, LaneKey},
    log::Log,
    machine::Machine,
    persister::Persister,
    plan::{GATEWAYS, GROUPS, Plan, ROUTERS, USERS, p2p},
    redis::{Instance, Kept},
    slot::Slot,
};

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
    TakeOver(Vec<Position>, Position),
    Mark(Position),
    Beat(bus::RouterHeartbeat),
    /// At the view, whoever sent it.
    Look(u64, Lookup),
    Apply(u64, usize, Batch),
    /// At the log.
    Append(Option<bytes::Bytes>),
    Answer(RequestId, bus::RouterReply),
    /// At a gateway.
    GatewayBeat(usize, bus::RouterHeartbeat),
    LaneTimeout(LaneKey, RequestId),
    LaneWake(LaneKey),
}

/// Who asked, what, and when.
pub(crate) struct Asked {
    pub(crate) by: By,
    pub(crate) ask: Ask,
    pub(crate) at: u64,
}

#[derive(Clone, Copy)]
pub(crate) enum By {
    Session(usize),
    Lane(LaneKey),
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

/// One partition: its log, its pieces of the views, its persister.
pub(crate) struct Part {
    pub(crate) id: PartitionId,
    pub(crate) log: Log,
    pub(crate) pieces: Vec<Kept>,
    pub(crate) persister: Persister,
    /// By the epoch that was heard.
    pub(crate) believed_owner: (u64, usize),
    /// When another router began to serve it.
    pub(crate) changes: Vec<u64>,
    /// The log's length at each step.
    pub(crate) lengths: Vec<(u64, u64)>,
}

pub(crate) struct World {
    pub(crate) random: StdRng,
    pub(crate) broken: Option<Break>,
    pub(crate) plan: Plan,
    pub(crate) faulty: bool,
    pub(crate) clock: u64,
    pub(crate) start: Instant,
    pub(crate) ids: Vec<PartitionId>,
    /// Conversation → its partition's number.
    places: BTreeMap<String, usize>,
    pub(crate) parts: Vec<Part>,
    pub(crate) instances: Vec<Instance>,
    pub(crate) machines: Vec<Machine>,
    /// Router × partitions + partition.
    pub(crate) slots: Vec<Slot>,
    /// (router, router) or (router, routers + gateway) that cannot hear each other in this direction, until then.
    pub(crate) cuts: BTreeMap<(usize, usize), u64>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) admins: Vec<Admin>,
    pub(crate) asked: BTreeMap<RequestId, Asked>,
    pub(crate) refused: Vec<(String, String, String)>,
    /// Refused for good at least once, whether or not the client heard of it: when it comes again, it may come late.
    pub(crate) turned_away: BTreeSet<(String, String)>,
    /// Of permission: partition, conversation, user, and between which lengths of the log it has to be right.
    pub(crate) refusals: Vec<(usize, String, String, u64, u64)>,
    pub(crate) shown: Vec<(String, String, u64)>,
    pub(crate) wrong: Vec<String>,
    pub(crate) counts: Counts,
    later: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, (usize, Event)>,
    number: u64,
}

impl World {
    pub(crate) fn new(seed: u64, broken: Option<Break>) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let plan = Plan::draw(&mut random);
        let ids = plan.partitions();
        let rule = Safeguard::rule(faults::of_core(broken));
        let part = |id: &PartitionId| Part {
            id: id.clone(),
            log: Log::new(rule),
            pieces: vec![Kept::default(); 2 * plan.instances.len()],
            persister: Persister::default(),
            believed_owner: (0, 0),
            changes: Vec::new(),
            lengths: vec![(0, 0)],
        };
        let slots = (0..ROUTERS).flat_map(|router| {
            let (ids, plan) = (&ids, &plan);
            (0..ids.len()).map(move |part| Slot::new(router, part, &ids[part], plan, broken))
        });
        let conversations =
            [&GROUPS[0], &GROUPS[0], &GROUPS[1], &GROUPS[1], &p2p(), &p2p()].map(String::clone);
        let users = [USERS[0], USERS[1], USERS[2], USERS[3], USERS[0], USERS[1]];
        let sessions = users.iter().zip(&conversations).enumerate();
        Self {
            slots: slots.collect(),
            parts: ids.iter().map(part).collect(),
            instances: plan.instances.iter().map(|_| Instance::default()).collect(),
            machines: (0..ROUTERS).map(|router| Machine::new(router, 0, 1, plan.step_ms)).collect(),
            gateways: (0..GATEWAYS).map(|_| Gateway::default()).collect(),
            sessions: sessions.map(|(n, (user, of))| Session::new(user, of, n % GATEWAYS)).collect(),
            admins: vec![Admin::default(), Admin::default()],
            random,
            broken,
            faulty: true,
            clock: 0,
            start: Instant::now(),
            places: conversations.iter().map(|of| (of.clone(), plan.part(&ids, of))).collect(),
            ids,
            plan,
            cuts: BTreeMap::new(),
            asked: BTreeMap::new(),
            refused: Vec::new(),
            turned_away: BTreeSet::new(),
            refusals: Vec::new(),
            shown: Vec::new(),
            wrong: Vec::new(),
            counts: Counts::default(),
            later: BinaryHeap::new(),
            events: BTreeMap::new(),
            number: 0,
        }
    }

    pub(crate) fn part_of(&self, conversation: &str) -> usize {
        self.places[conversation]
    }

    pub(crate) fn slot_of(&self, router: usize, part: usize) -> usize {
        router * self.parts.len() + part
    }

    pub(crate) fn ms(&self) -> u64 {
        self.clock * self.plan.step_ms
    }

    pub(crate) fn instant(&self) -> Instant {
        self.start + Duration::from_millis(self.ms())
    }

    /// A router's own clocks.
    pub(crate) fn now(&self, router: usize) -> Now {
        Now { mono: self.machines[router].mono + self.ms(), wall: self.wall(self.machines[router].skew) }
    }

    pub(crate) fn wall(&self, skew: i64) -> u64 {
        (1_700_000_000_000 + self.ms()).saturating_add_signed(skew)
    }

    pub(crate) fn fault(&mut self, probability: f64) -> bool {
        self.faulty && probability > 0.0 && self.random.random_bool(probability)
    }

    pub(crate) fn fresh(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Sooner or later.
    pub(crate) fn later(&mut self, slot: usize, event: Event) {
        let most = [3, 3, 10, 20, 150][self.random.random_range(0..5)];
        self.within(most, slot, event);
    }

    pub(crate) fn within(&mut self, most: u64, slot: usize, event: Event) {
        let most = if self.faulty { most } else { most.min(3) };
        let at = self.clock + self.random.random_range(0..=most);
        self.at(at, slot, event);
    }

    pub(crate) fn at(&mut self, at: u64, slot: usize, event: Event) {
        let number = self.fresh();
        self.later.push(Reverse((at, number)));
        self.events.insert(number, (slot, event));
    }

    /// The clock moves on, and what is due arrives.
    pub(crate) fn tick(&mut self) {
        self.clock += 1;
        while let Some(Reverse((at, number))) = self.later.peek().copied()
            && at <= self.clock
        {
            self.later.pop();
            if let Some((slot, event)) = self.events.remove(&number) {
                self.arrive(slot, event);
            }
        }
        for router in 0..ROUTERS {
            if self.awake(router) && !self.machines[router].inbox.is_empty() {
                self.wake(router);
            }
        }
        for part in &mut self.parts {
            let len = part.log.len();
            if part.lengths.last().is_none_or(|(_, last)| *last != len) {
                part.lengths.push((self.clock, len));
            }
        }
    }

    pub(crate) fn awake(&self, router: usize) -> bool {
        self.machines[router].asleep_until <= self.clock
    }

    fn arrive(&mut self, slot: usize, event: Event) {
        let router = self.slots[slot].router;
        match event {
            Event::Look(tenure, lookup) => self.look(slot, tenure, &lookup),
            Event::Apply(tenure, piece, batch) => self.take_batch(slot, tenure, piece, &batch),
            Event::Append(value) => drop(self.parts[self.slots[slot].part].log.append(value)),
            event if self.sleeping_gateway(&event).is_some() => {
                let until = self.sleeping_gateway(&event).unwrap_or_default();
                self.at(until, slot, event);
            }
            Event::Answer(request, reply) => self.answered(request, &reply),
            Event::GatewayBeat(gateway, beat) => self.gateway_hears(gateway, &beat),
            Event::LaneTimeout(lane, request) => self.lane_timeout(lane, request),
            Event::LaneWake(lane) => self.drive(lane),
            event if self.awake(router) => self.hear(slot, event),
            event => self.machines[router].inbox.push_back((slot, event)),
        }
    }

    /// Until when the gateway that it is for is stopped.
    fn sleeping_gateway(&self, event: &Event) -> Option<u64> {
        let gateway = match event {
            Event::GatewayBeat(gateway, _) => *gateway,
            Event::LaneTimeout(lane, _) | Event::LaneWake(lane) => lane.gateway,
            Event::Answer(request, _) => match self.asked.get(request)?.by {
                By::Lane(lane) => lane.gateway,
                _ => return None,
            },
            _ => return None,
        };
        let until = self.gateways[gateway].asleep_until;
        (until > self.clock).then_some(until)
    }

    /// One record of some producer reaches its log, or does not.
    pub(crate) fn append(&mut self, part: usize) {
        let tenures: Vec<u64> = self.parts[part].log.wires.keys().copied().collect();
        if tenures.is_empty() {
            return;
        }
        let tenure = tenures[self.random.random_range(0..tenures.len())];
        let Some(sent) = self.parts[part].log.take(tenure) else { return };
        let of = self.plan.faults.clone();
        let (lost, late) = (self.fault(of.lost_append), self.fault(of.late_append));
        let (doubled, garbled) = (self.fault(of.doubled_append), self.fault(of.garbled));
        if lost || late {
            if self.fault(0.7) {
                self.later(sent.slot, Event::Failed(tenure, sent.epoch));
            }
        } else {
            let value = if garbled { None } else { Some(sent.value.clone()) };
            let offset = self.parts[part].log.append(value);
            if self.fault(of.false_failure) {
                self.later(sent.slot, Event::Failed(tenure, sent.epoch));
            } else {
                self.within(20, sent.slot, Event::Produced(tenure, offset));
            }
        }
        if late || doubled {
            self.later(sent.slot, Event::Append(Some(sent.value)));
        }
    }
}
