//! A router's process: its clocks, its heartbeats, and the real assignment that decides what it claims and releases.

use std::collections::{BTreeSet, VecDeque};

use lapwing_model::PartitionId;
use lapwing_proto::bus::{Owned, RouterHeartbeat};
use lapwing_router_core::{
    Assignment, State,
    assign::{Order, Times},
};
use rand::Rng as _;

use crate::{
    plan::{GATEWAYS, ROUTERS},
    world::{Event, World},
};

/// The lease is 60 steps of 50 ms.
pub(crate) const LEASE_MS: u64 = 3000;
const BEAT_MS: u64 = 500;

pub(crate) struct Machine {
    pub(crate) incarnation: u64,
    pub(crate) assignment: Assignment,
    counter: u64,
    next_beat: u64,
    pub(crate) asleep_until: u64,
    /// What arrived while it was stopped, in order.
    pub(crate) inbox: VecDeque<(usize, Event)>,
    /// Where its monotonic clock began.
    pub(crate) mono: u64,
    /// How far its wall clock is off.
    pub(crate) skew: i64,
}

pub(crate) fn name_of(router: usize) -> String {
    format!("r{router}")
}

impl Machine {
    pub(crate) fn new(router: usize, ms: u64, incarnation: u64, step_ms: u64) -> Self {
        let mono = 1000 * incarnation + 77;
        let times = Times { lease_ms: LEASE_MS, ..Times::default() };
        Self {
            incarnation,
            assignment: Assignment::new(name_of(router), incarnation, times, mono + ms),
            counter: 0,
            next_beat: ms / step_ms,
            asleep_until: 0,
            inbox: VecDeque::new(),
            mono,
            skew: 0,
        }
    }
}

impl World {
    /// All that a process does by itself, between the steps that are drawn.
    pub(crate) fn run_machines(&mut self) {
        for router in 0..ROUTERS {
            if self.awake(router) && self.machines[router].next_beat <= self.clock {
                self.machines[router].next_beat = self.clock + BEAT_MS / self.plan.step_ms;
                self.beat(router);
                self.follow(router);
            }
        }
        if self.clock.is_multiple_of(5) {
            (0..GATEWAYS).for_each(|gateway| self.run_gateway(gateway));
        }
    }

    fn mine(&self, router: usize) -> BTreeSet<PartitionId> {
        let of = self.slots.iter().filter(|slot| slot.router == router && (slot.owns() || slot.taking_over));
        of.map(|slot| self.parts[slot.part].id.clone()).collect()
    }

    pub(crate) fn beat(&mut self, router: usize) {
        let now = self.now(router).mono;
        let owned = self.slots.iter().filter(|of| of.router == router && (of.owns() || of.taking_over));
        let owned = owned.map(|slot| {
            let id = &self.parts[slot.part].id;
            let epoch = match slot.core.state() {
                State::Serving { epoch } | State::Releasing { epoch } => Some(epoch),
                State::Idle | State::Claiming => None,
            };
            Owned {
                topic: id.topic.to_string(),
                partition: id.partition,
                epoch: epoch.unwrap_or_default(),
                serving: epoch.is_some(),
                ..Owned::default()
            }
        });
        let owned: Vec<Owned> = owned.collect();
        let of = &mut self.machines[router];
        of.counter += 1;
        of.assignment.sent(of.counter, now);
        // As the service does: who does not hear itself lists nothing.
        let isolated = of.assignment.isolated(now);
        let beat = RouterHeartbeat {
            router: name_of(router),
            incarnation: of.incarnation,
            counter: of.counter,
            owned: if isolated { Vec::new() } else { owned },
            draining: isolated,
            ..RouterHeartbeat::default()
        };
        for to in 0..ROUTERS + GATEWAYS {
            if self.cut(router, to) || self.fault(self.plan.faults.lost_beat) {
                continue;
            }
            if to < ROUTERS {
                let slot = self.slot_of(to, 0);
                self.within(2, slot, Event::Beat(beat.clone()));
            } else if self.plan.gateways {
                self.within(2, 0, Event::GatewayBeat(to - ROUTERS, beat.clone()));
            }
        }
    }

    pub(crate) fn cut(&self, from: usize, to: usize) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|until| *until > self.clock)
    }

    /// One direction, or both, or all of a router's.
    pub(crate) fn cut_off(&mut self) {
        let until = self.clock + self.random.random_range(40..400);
        let (from, to) =
            (self.random.random_range(0..ROUTERS), self.random.random_range(0..ROUTERS + GATEWAYS));
        match self.random.random_range(0..4) {
            0 => self.cuts.extend((0..ROUTERS + GATEWAYS).map(|to| ((from, to), until))),
            1 if to < ROUTERS => {
                self.cuts.insert((from, to), until);
                self.cuts.insert((to, from), until);
            }
            _ => self.cuts.extend([((from, to), until)]),
        }
        self.counts.add("a cut of the bus");
    }

    pub(crate) fn hear_beat(&mut self, router: usize, beat: &RouterHeartbeat) {
        let now = self.now(router).mono;
        self.machines[router].assignment.heard(beat, now);
        self.follow(router);
    }

    /// What the assignment says is done: the shell's `follow`.
    fn follow(&mut self, router: usize) {
        if !self.plan.assigned {
            return;
        }
        self.tell_isolation(router);
        let (now, mine) = (self.now(router).mono, self.mine(router));
        for order in self.machines[router].assignment.decide(&self.ids, &mine, now) {
            let (Order::Claim(id) | Order::Release(id)) = &order;
            let Some(part) = self.ids.iter().position(|of| of == id) else { continue };
            let slot = self.slot_of(router, part);
            match order {
                Order::Claim(_) => self.take_over(slot),
                Order::Release(_) => self.release(slot),
            }
        }
    }

    fn tell_isolation(&mut self, router: usize) {
        let now = self.now(router).mono;
        let isolated = self.plan.assigned && self.machines[router].assignment.isolated(now);
        for slot in self.slots.iter_mut().filter(|slot| slot.router == router) {
            slot.core.set_isolated(isolated || slot.stale);
        }
    }

    /// It was stopped for a while: it cannot have heard its own heartbeat, and by the time it does it has read on.
    pub(crate) fn wake(&mut self, router: usize) {
        for slot in self.slots.iter_mut().filter(|slot| slot.router == router) {
            slot.stale = true;
            // Its reading takes its time, too.
            slot.caught_up = self.clock;
        }
        self.tell_isolation(router);
        for (slot, event) in std::mem::take(&mut self.machines[router].inbox) {
            self.hear(slot, event);
        }
    }

    /// A slot has read all that there is.
    pub(crate) fn caught_up(&mut self, slot: usize) {
        self.slots[slot].caught_up = self.clock;
        if self.slots[slot].stale {
            self.slots[slot].stale = false;
            self.tell_isolation(self.slots[slot].router);
        }
    }

    pub(crate) fn crash(&mut self, router: usize) {
        let incarnation = self.machines[router].incarnation + 1;
        let (asleep_until, skew) = (self.machines[router].asleep_until, self.machines[router].skew);
        let new = Machine::new(router, self.ms(), incarnation, self.plan.step_ms);
        self.machines[router] = Machine { asleep_until, skew, ..new };
        for slot in 0..self.slots.len() {
            if self.slots[slot].router == router {
                let part = self.slots[slot].part;
                self.slots[slot].crash(&self.ids[part], &self.plan, self.broken);
            }
        }
        self.counts.add("a crash");
    }

    /// Wall clocks are off by what the owners allow for at most.
    pub(crate) fn jump_clock(&mut self) {
        let most = self.plan.step_ms as i64 * 10;
        let skew = self.random.random_range(-most..=most);
        let which = self.random.random_range(0..ROUTERS + GATEWAYS);
        match which.checked_sub(ROUTERS) {
            None => self.machines[which].skew = skew,
            Some(gateway) => self.gateways[gateway].skew = skew,
        }
        self.counts.add("a clock jump");
    }
}
