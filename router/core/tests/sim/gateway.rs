//! Gateways around the real ownership table and the real publish lanes: where a publish goes, when it is sent again, in which
//! order, and what its sender is told.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use lapwing_gateway_core::{
    Lane, Owners,
    lane::{Answer, Reply, Step},
    stall::Stall,
};
use lapwing_proto::{
    bus::{self, RouterHeartbeat, router_reply},
    client::Published,
};
use lapwing_router_core::RequestId;
use rand::Rng as _;

use crate::{
    client::{Item, Told, content},
    faults::Break,
    plan::{GATEWAYS, ROUTERS, TENANT},
    world::{Ask, Asked, By, Event, World},
};

/// A session's lane on one gateway; a session that connects again has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneKey {
    pub(crate) gateway: usize,
    pub(crate) session: usize,
    pub(crate) connection: u64,
}

/// Which of the session's messages waits.
pub(crate) struct Tag {
    mid: String,
    content: String,
}

#[derive(Default)]
struct Driven {
    lane: Lane<Tag>,
    flight: Option<RequestId>,
    /// When the lane wants to be driven next.
    wake: Option<Instant>,
    closing: bool,
}

pub(crate) struct Gateway {
    pub(crate) owners: Owners,
    pub(crate) asleep_until: u64,
    /// What clients sent while it was stopped: (session, connection), in order.
    sockets: Vec<((usize, u64), Tag, bus::PublishItem)>,
    stall: Stall,
    lanes: BTreeMap<(usize, u64), Driven>,
    pub(crate) skew: i64,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            owners: Owners::default(),
            asleep_until: 0,
            sockets: Vec::new(),
            stall: Stall::new(u64::MAX),
            lanes: BTreeMap::new(),
            skew: 0,
        }
    }
}

impl World {
    fn lane(&mut self, key: LaneKey) -> Option<&mut Driven> {
        self.gateways[key.gateway].lanes.get_mut(&(key.session, key.connection))
    }

    fn key_of(&self, number: usize) -> LaneKey {
        let session = &self.sessions[number];
        LaneKey { gateway: session.gateway, session: number, connection: session.connection }
    }

    /// The session gives its gateway what it has to send, in order.
    pub(crate) fn send_by_gateway(&mut self, number: usize) {
        let key = self.key_of(number);
        let of = &self.gateways[key.gateway];
        let asleep = of.asleep_until > self.clock || !of.sockets.is_empty();
        self.gateways[key.gateway].lanes.entry((number, key.connection)).or_default();
        let marked = self.broken != Some(Break::Retries);
        for place in 0..self.sessions[number].todo.len() {
            let item = &mut self.sessions[number].todo[place];
            if item.out {
                continue;
            }
            item.attempt += 1;
            let tag = Tag { mid: item.mid.clone(), content: item.content.clone() };
            let sent = publish_item(item, marked);
            if asleep {
                self.gateways[key.gateway].sockets.push(((number, key.connection), tag, sent));
            } else if !self.push(key, tag, sent) {
                break;
            }
            self.sessions[number].todo[place].out = true;
        }
        if !asleep {
            self.drive(key);
        }
    }

    /// The gateway reads a publish.
    fn push(&mut self, key: LaneKey, tag: Tag, mut item: bus::PublishItem) -> bool {
        let (now, ms) = (self.instant(), self.ms());
        let stopped = self.gateways[key.gateway].stall.lately(ms);
        let Some(of) = self.lane(key) else { return false };
        if stopped {
            item.attempt = item.attempt.max(2);
            of.lane.woke(now);
        }
        let admitted = of.lane.admit(&tag.mid, now).is_ok();
        if admitted {
            of.lane.push(tag, item, now);
        }
        admitted
    }

    /// A process that runs ticks each 250 ms; one that was stopped reads its sockets, ticker first or not.
    pub(crate) fn run_gateway(&mut self, gateway: usize) {
        let (now, ms) = (self.instant(), self.ms());
        if self.gateways[gateway].asleep_until > self.clock {
            return;
        }
        let sockets = std::mem::take(&mut self.gateways[gateway].sockets);
        let ticker_first = sockets.is_empty() || self.random.random_bool(0.5);
        if ticker_first {
            self.gateways[gateway].stall.tick(ms);
        }
        for ((session, connection), tag, item) in sockets {
            let key = LaneKey { gateway, session, connection };
            let (mid, content) = (tag.mid.clone(), tag.content.clone());
            if !self.push(key, tag, item) && self.key_of(session) == key {
                self.settled(session, &mid, &content, Told::Later);
            }
            self.drive(key);
        }
        self.gateways[gateway].stall.tick(ms);
        self.gateways[gateway].owners.handle_timeout(now);
    }

    pub(crate) fn pause_gateway(&mut self, gateway: usize) {
        self.gateways[gateway].asleep_until = self.clock + self.random.random_range(20..400);
        self.counts.add("a gateway's pause");
    }

    /// What the gateway's task of this lane does.
    pub(crate) fn drive(&mut self, key: LaneKey) {
        let now = self.instant();
        let Some(of) = self.lane(key) else { return };
        if of.flight.is_some() {
            return;
        }
        if of.closing {
            of.lane.clear_queue();
        }
        let answers = of.lane.handle_timeout(now);
        let (step, age) = (of.lane.next_step(now), of.lane.age(now));
        self.tell(key, answers);
        match step {
            Step::Idle => {}
            Step::Wait(at) => self.wake_lane(key, at),
            Step::Send(items, within) => self.send_to_owner(key, items, age, within),
        }
    }

    fn wake_lane(&mut self, key: LaneKey, at: Instant) {
        let Some(of) = self.lane(key) else { return };
        if of.wake != Some(at) {
            of.wake = Some(at);
            let step = self.step_of(at);
            self.at(step, 0, Event::LaneWake(key));
        }
    }

    fn step_of(&self, at: Instant) -> u64 {
        let ms = at.saturating_duration_since(self.start).as_millis() as u64;
        (ms / self.plan.step_ms).max(self.clock) + 1
    }

    fn send_to_owner(&mut self, key: LaneKey, items: Vec<bus::PublishItem>, age: Duration, within: Duration) {
        let session = &self.sessions[key.session];
        let (sender, conversation) = (session.user.clone(), session.conversation.clone());
        let part = self.part_of(&conversation);
        let owner = self.gateways[key.gateway].owners.owner(&self.parts[part].id);
        let router = owner.and_then(|owner| owner.router[1..].parse::<usize>().ok());
        let Some(router) = router else {
            return self.lane_reply(key, Reply::Unreached);
        };
        let request = self.fresh();
        let batch = bus::PublishBatch {
            tenant: TENANT.into(),
            conversation,
            sender,
            items,
            sent_at_ms: self.wall(self.gateways[key.gateway].skew) - age.as_millis() as u64,
            ..bus::PublishBatch::default()
        };
        let ask = Ask::Publish(batch);
        self.asked.insert(request, Asked { by: By::Lane(key), ask: ask.clone(), at: self.clock });
        if let Some(of) = self.lane(key) {
            of.flight = Some(request);
        }
        let timeout = self.step_of(self.instant() + within);
        self.at(timeout, 0, Event::LaneTimeout(key, request));
        if !self.cut(ROUTERS + key.gateway, router) {
            let slot = self.slot_of(router, part);
            // At times later than the timeout, so that it comes after its retry.
            let most = [1, 1, 3, 20, 100][self.random.random_range(0..5)];
            self.within(most, slot, Event::Ask(request, ask));
        }
    }

    pub(crate) fn lane_timeout(&mut self, key: LaneKey, request: RequestId) {
        if self.lane(key).is_some_and(|of| of.flight == Some(request)) {
            self.lane_reply(key, Reply::TimedOut);
        }
    }

    pub(crate) fn lane_answered(&mut self, key: LaneKey, request: RequestId, reply: &bus::RouterReply) {
        if self.lane(key).is_none_or(|of| of.flight != Some(request)) {
            return;
        }
        let reply = match &reply.body {
            Some(router_reply::Body::Publish(reply)) => Reply::Outcomes(reply.outcomes.clone()),
            Some(router_reply::Body::NotOwner(not)) => {
                Reply::NotOwner(Duration::from_millis(u64::from(not.retry_after_ms)))
            }
            other => panic!("a publish was answered {other:?}"),
        };
        self.lane_reply(key, reply);
    }

    fn lane_reply(&mut self, key: LaneKey, reply: Reply) {
        let now = self.instant();
        let Some(of) = self.lane(key) else { return };
        of.flight = None;
        let answers = of.lane.handle_reply(reply, now);
        self.tell(key, answers);
        self.drive(key);
    }

    fn tell(&mut self, key: LaneKey, answers: Vec<Answer<Tag>>) {
        for (tag, result) in answers {
            // An answer on a connection that is gone reaches nobody.
            if self.key_of(key.session) == key {
                self.told_by_gateway(key.session, &tag, result);
            }
        }
    }

    fn told_by_gateway(
        &mut self,
        number: usize,
        tag: &Tag,
        result: Result<Published, lapwing_model::Refusal>,
    ) {
        let told = match result {
            Ok(published) => Told::Published(published),
            Err(refusal) if refusal.code == lapwing_model::Code::PublishUnknown => Told::Unknown,
            Err(refusal) if refusal.code.line().temporary => Told::Later,
            Err(_) => Told::Refused,
        };
        self.counts.add(match told {
            Told::Unknown => "a gateway said unknown",
            Told::Later => "a gateway refused for now",
            _ => "a gateway answered",
        });
        self.settled(number, &tag.mid, &tag.content, told);
    }

    pub(crate) fn gateway_hears(&mut self, gateway: usize, beat: &RouterHeartbeat) {
        let now = self.instant();
        if self.gateways[gateway].owners.handle_heartbeat(beat, now).is_empty() {
            return;
        }
        let lanes: Vec<_> = self.gateways[gateway].lanes.keys().copied().collect();
        for (session, connection) in lanes {
            let key = LaneKey { gateway, session, connection };
            if let Some(of) = self.lane(key) {
                of.lane.retry_now();
            }
            self.drive(key);
        }
    }

    /// The connection breaks; the client comes to some gateway again, and what it sent is without an answer.
    pub(crate) fn reconnect(&mut self, number: usize) {
        let old = self.key_of(number);
        let noticed = self.random.random_bool(0.7);
        if let Some(of) = self.lane(old) {
            of.closing = noticed;
        }
        let session = &mut self.sessions[number];
        session.connection += 1;
        session.gateway = self.random.random_range(0..GATEWAYS);
        for item in session.todo.iter_mut().filter(|item| item.out) {
            item.out = false;
            item.unclear = true;
        }
        self.counts.add("a reconnect");
    }

    pub(crate) fn crash_gateway(&mut self, gateway: usize) {
        let skew = self.gateways[gateway].skew;
        self.gateways[gateway] = Gateway { skew, ..Gateway::default() };
        for number in 0..self.sessions.len() {
            if self.sessions[number].gateway == gateway {
                self.reconnect(number);
            }
        }
        self.counts.add("a gateway's crash");
    }
}

pub(crate) fn publish_item(item: &Item, marked: bool) -> bus::PublishItem {
    bus::PublishItem {
        client_mid: item.mid.clone(),
        content: Some(content(&item.content)),
        attempt: if marked { item.attempt } else { 1 },
        receipt: true,
        traceparent: String::new(),
    }
}
