//! ② sequence: one task a partition around the pure owner. Everything that happens to a partition happens here, in order.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_model::{ConversationKey, PartitionId, Position, record::BadRecord};
use lapwing_proto::{
    bus::{self, router_request::Body},
    record::Record,
};
use lapwing_router_core::{Effect, LookupAnswer, Now, Options, Partition, RequestId, State};
use lapwing_runtime::{
    OnError, Tasks, fail_point, metrics,
    queue::{Queue, Receiver, Sender},
};
use lapwing_views::Piece;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{
    answer::To, apply, commit, dispatch::Dispatch, memory::Share, moves, produce, router::Router,
    times::Times, told, told::Heard,
};

pub(crate) struct Request {
    pub(crate) body: Body,
    pub(crate) to: Option<To>,
    pub(crate) received: Instant,
}

/// What the other stages tell a partition.
pub(crate) enum Event {
    LookedUp(Vec<LookupAnswer>),
    Read(Vec<(u64, Result<Record, BadRecord>)>),
    CursorStored {
        request: RequestId,
        slot: usize,
        error: Option<String>,
    },
    ViewAt {
        instance: usize,
        offset: u64,
    },
    /// Somebody else moved the commit view; a mark of it stands where it was.
    ViewMoved {
        from: usize,
        to: String,
    },
    /// To be brought to another instance.
    Move {
        to: usize,
    },
    /// There nothing is left of an earlier time: it may be filled.
    MoveReady {
        to: usize,
    },
    MoveFailed {
        to: usize,
    },
    /// There it is whole now.
    MoveDone {
        from: usize,
        to: usize,
    },
    Mark {
        at: Position,
        tombstones: Vec<bus::Tombstone>,
    },
    /// What had become a dead letter below the first mark of this tenure.
    Dead(BTreeSet<u64>),
    Isolated(bool),
    Release,
}

/// For people (`lapwing partitions`, `lapwing probe`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Status {
    pub(crate) epoch: Option<u64>,
    pub(crate) releasing: bool,
    pub(crate) position: Position,
    pub(crate) view_acked: u64,
    pub(crate) pending: usize,
}

#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) requests: Sender<Request>,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) status: Arc<Mutex<Status>>,
}

/// Events come from a bounded number of producers, each of which waits; this only smooths their bursts.
const EVENTS: usize = 4096;
const BATCH: usize = 256;
/// A new owner may not know yet which nodes want its conversations.
const YOUNG: Duration = Duration::from_secs(5);

/// Starts owning: the view's positions first, then the claim.
pub(crate) fn start(router: &Arc<Router>, id: PartitionId) -> Handle {
    let (requests, inbox) = Queue::named("partition")
        .items(router.config.partition_queue)
        .bytes(router.config.inbound_bytes)
        .budget(&router.inbound)
        .open();
    let (events, mailbox) = mpsc::channel(EVENTS);
    let handle = Handle { requests, events: events.clone(), status: Arc::default() };
    let tasks = router.context.tasks.child();
    let owner = Owner {
        core: Partition::new(id.clone(), options(router)),
        router: router.clone(),
        tasks: tasks.clone(),
        open: HashMap::new(),
        times: Times::default(),
        status: handle.status.clone(),
        events,
        acks: Arc::default(),
        next_request: 0,
        telling: told::Telling::default(),
        serving_since: None,
        told: (0, Position::default()),
        moving: None,
        memory: router.memory.share(),
        done: false,
        id,
    };
    router.context.tasks.spawn(format!("sequence {}", owner.id), OnError::Log, owner.run(inbox, mailbox));
    handle
}

fn options(router: &Router) -> Options {
    Options { readback_ms: router.config.delivery_timeout_ms, ..Options::new(router.node()) }
}

struct Open {
    to: Option<To>,
    received: Instant,
    kind: &'static str,
}

struct Owner {
    id: PartitionId,
    core: Partition,
    router: Arc<Router>,
    /// Everything that ends with this tenure.
    tasks: Tasks,
    open: HashMap<RequestId, Open>,
    times: Times,
    status: Arc<Mutex<Status>>,
    events: mpsc::Sender<Event>,
    acks: Arc<produce::Acks>,
    next_request: RequestId,
    telling: told::Telling,
    serving_since: Option<Instant>,
    /// The last step that the views were told of, and its number.
    told: (u64, Position),
    /// The instance to which the commit view is being moved.
    moving: Option<usize>,
    memory: Share,
    done: bool,
}

impl Owner {
    async fn run(mut self, mut inbox: Receiver<Request>, mut mailbox: mpsc::Receiver<Event>) {
        let stopping = self.tasks.stopping();
        if !self.take_over().await {
            self.router.ownership.gone(&self.id, None);
            return;
        }
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        let mut events = Vec::with_capacity(BATCH);
        let acks = self.acks.clone();
        while !self.done {
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                _ = ticks.tick() => {
                    let most = self.memory.tell(self.core.conversations(), self.core.conversation_bytes());
                    self.core.set_conversation_bytes(most);
                    self.core.tick(now());
                    self.telling.tick(&self.router, &self.id);
                }
                () = acks.news() => self.hear_log(),
                count = mailbox.recv_many(&mut events, BATCH) => {
                    if count == 0 { break }
                    for event in events.drain(..) { self.hear(event) }
                }
                requests = inbox.pop_up_to(BATCH, 4 << 20) => {
                    for request in requests { self.admit(request) }
                }
            }
            self.carry_out();
            self.show();
        }
        self.tasks.stop();
        self.router.apply.close(&self.id);
        // Whoever still waits asks the next owner.
        for request in inbox.try_pop_up_to(usize::MAX, usize::MAX) {
            let reply = lapwing_router_core::requests::not_owner(20);
            self.router.answers.send(request.to, &reply);
        }
    }

    /// False: stopped before it could begin.
    async fn take_over(&mut self) -> bool {
        let Some(start) = apply::positions(&self.router, &self.id, &self.tasks).await else { return false };
        tracing::info!(partition = %self.id, from = %start.from.encode(), "claims");
        self.told = (0, start.from);
        self.router.apply.open(&self.id, &start.pieces, 0, &self.events);
        self.telling = told::start(&self.router, &self.tasks, &self.id, start.told, start.from);
        let view = start.pieces.first().map_or(start.from, |(_, at)| *at);
        let nonce = rand_nonce();
        self.core.take_over(nonce, start.from, view, now());
        let persisted = self.router.persisted.lock().get(&self.id).copied();
        if let Some(at) = persisted {
            self.mark(at, Vec::new());
        }
        let reader = commit::run(self.router.clone(), self.id.clone(), start.from, self.events.clone());
        let stop = self.tasks.stopping();
        self.tasks.spawn(format!("commit {}", self.id), OnError::Log, async move {
            tokio::select! { () = stop.cancelled() => {}, () = reader => {} }
        });
        self.carry_out();
        true
    }

    fn mark(&mut self, at: Position, tombstones: Vec<bus::Tombstone>) {
        let Heard { now, ask } = self.telling.heard(at, tombstones);
        if let Some((from, to)) = ask {
            told::ask(&self.router, &self.tasks, &self.id, from..to, &self.events);
        }
        if let Some((at, tombstones)) = now {
            self.core.mark(at, &tombstones);
            self.telling.marked(at, self.told.1, Instant::now());
        }
    }

    fn hear(&mut self, event: Event) {
        let now = now();
        match event {
            Event::LookedUp(answers) => {
                for answer in answers {
                    self.core.looked_up(answer, now);
                }
            }
            Event::Read(records) => {
                for (offset, record) in records {
                    self.core.read(offset, record, now);
                }
            }
            Event::CursorStored { request, slot, error: None } => self.core.cursor_stored(request, slot),
            Event::CursorStored { request, slot, error: Some(error) } => {
                self.core.cursor_failed(request, slot, &error);
            }
            Event::ViewAt { instance, offset } if instance == self.commit_instance() => {
                self.core.view_at(offset)
            }
            Event::ViewAt { .. } => {}
            Event::ViewMoved { from, to } => self.view_moved(from, &to),
            Event::Move { to } => self.move_to(to),
            Event::MoveReady { to } => self.open_at(to),
            Event::MoveDone { from, to } => self.move_done(from, to),
            Event::MoveFailed { to } => {
                self.moving = None;
                self.router.apply.leave(&self.id, Piece::commit(to));
            }
            Event::Mark { at, tombstones } => self.mark(at, tombstones),
            Event::Dead(dead) => {
                if let Some((at, tombstones)) = self.telling.inherited(dead) {
                    self.mark(at, tombstones);
                }
            }
            Event::Isolated(isolated) => self.core.set_isolated(isolated),
            Event::Release => self.core.release(now),
        }
    }

    fn hear_log(&mut self) {
        let produce::Told { acknowledged, failed } = self.acks.take();
        if let Some((index, offset)) = acknowledged {
            self.times.acknowledged(index);
            self.core.produced(offset, now());
        }
        for (epoch, error) in failed {
            self.core.produce_failed(epoch, &error, now());
        }
    }

    fn admit(&mut self, request: Request) {
        self.next_request += 1;
        let (id, now) = (self.next_request, now());
        let kind = kind_of(&request.body);
        metrics::stage("sequence").kind(kind).since(request.received).done("ok");
        if let Body::Publish(batch) = &request.body {
            self.times.taken(batch);
        }
        self.open.insert(id, Open { to: request.to, received: request.received, kind });
        match request.body {
            Body::Publish(batch) => self.core.publish(id, batch, now),
            Body::Attach(batch) => self.core.attach(id, batch, now),
            Body::Fetch(ask) => self.core.fetch(id, ask, now),
            Body::Cursors(batch) => self.core.cursors(id, batch, now),
            Body::Command(bus::Command { tenant, conversation, body: Some(body) }) => {
                self.core.command(id, ConversationKey::new(tenant, conversation), body, now);
            }
            Body::Trace(ask) => self.trace(id, &ask),
            _ => {
                self.open.remove(&id);
            }
        }
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.core.next_effect() {
            match effect {
                Effect::Lookup(lookup) => {
                    if let Some(answer) = self.router.lookups.ask(&self.id, lookup) {
                        self.core.looked_up(answer, now());
                    }
                }
                Effect::Produce { epoch, index, key, value, traceparent } => {
                    self.times.produced(index, &traceparent);
                    fail_point("produce.before");
                    let record = produce::ToLog { epoch, index, key, value, traceparent };
                    if let Err(error) = produce::send(&self.router, &self.id, &record, &self.acks) {
                        self.core.produce_failed(epoch, &error, now());
                    }
                }
                Effect::Reply { request, reply } => self.reply(request, &reply),
                Effect::Released(released) => {
                    self.times.released(&released.record);
                    self.router.dispatch.push(Dispatch::Released(released.clone()));
                    self.told = (self.told.0 + 1, released.after);
                    self.router.apply.released(&self.id, self.told.0, released);
                }
                Effect::Advanced(to) => {
                    self.told = (self.told.0 + 1, to);
                    self.router.apply.advanced(&self.id, self.told.0, to);
                }
                Effect::Receipts { key, receipt } => {
                    let everywhere = self.serving_since.is_none_or(|since| since.elapsed() < YOUNG);
                    self.router.dispatch.push(Dispatch::Receipt { key, receipt, everywhere });
                }
                Effect::Persisted { key, bucket, seq, head } => {
                    let trim_to = seq.min(head.saturating_sub(self.router.config.hot_events));
                    self.router.apply.persisted(&self.id, key, bucket, seq, trim_to);
                }
                Effect::Cursor { cursor, request, slot } => {
                    let place = produce::Place { request, slot };
                    produce::cursor(&self.router, &self.tasks, &self.id, cursor, place, &self.events);
                }
                Effect::Interest { hash, node, incarnation, counter } => {
                    self.router.dispatch.push(Dispatch::Interest { hash, node, incarnation, counter });
                }
                Effect::Serving { epoch } => {
                    self.times = Times::default();
                    self.serving_since.get_or_insert_with(Instant::now);
                    tracing::info!(partition = %self.id, epoch, "serves");
                    self.router.ownership.serving(&self.id, epoch);
                }
                Effect::SteppedDown { by } => {
                    tracing::info!(partition = %self.id, by = by.as_deref().unwrap_or("own release"), "steps down");
                    self.router.ownership.gone(&self.id, by);
                    self.done = true;
                }
                Effect::Alarm(text) => tracing::error!(partition = %self.id, "{text}"),
            }
        }
    }

    fn reply(&mut self, request: RequestId, reply: &bus::RouterReply) {
        let Some(open) = self.open.remove(&request) else { return };
        metrics::stage("total").kind(open.kind).since(open.received).done(result_of(reply));
        self.router.answers.send(open.to, reply);
    }

    /// `lapwing probe`: what became of one message.
    fn trace(&mut self, request: RequestId, ask: &bus::Trace) {
        let key = ConversationKey::new(ask.tenant.as_str(), ask.conversation.as_str());
        let reply = match self.core.recent().find(&key, ask.seq) {
            None => bus::TraceReply::default(),
            Some(released) => {
                let (interested, nodes) = released.fan_out.progress();
                bus::TraceReply {
                    known: true,
                    offset: released.offset,
                    epoch: released.record.epoch,
                    index: released.record.index,
                    accepted: true,
                    interested: interested.unwrap_or_default(),
                    nodes,
                    dispatched: interested.is_some_and(|all| nodes >= all),
                    applied: released.offset < self.core.view_acked(),
                    persisted: released.offset < self.core.recent().persisted(),
                }
            }
        };
        let body = Some(bus::router_reply::Body::Trace(reply));
        self.reply(request, &bus::RouterReply { body });
    }

    fn commit_instance(&self) -> usize {
        self.router.views.places().commit(&self.id)
    }

    fn view_moved(&mut self, from: usize, to: &str) {
        let Some(to) = self.router.views.places().instance_named(to) else {
            return tracing::error!(partition = %self.id, to, "the view was moved to an instance that is not configured here");
        };
        // By this owner: its own word follows.
        if from == self.commit_instance() && self.moving != Some(to) {
            tracing::warn!(partition = %self.id, to, "the view was moved by another owner");
            self.open_at(to);
            self.move_done(from, to);
        }
    }

    fn open_at(&self, instance: usize) {
        let (number, at) = self.told;
        self.router.apply.open(&self.id, &[(Piece::commit(instance), at)], number, &self.events);
    }

    fn move_to(&mut self, to: usize) {
        let from = self.commit_instance();
        if self.moving.is_some() || from == to || !matches!(self.core.state(), State::Serving { .. }) {
            return;
        }
        self.moving = Some(to);
        let told = self.told;
        let work = moves::run(self.router.clone(), self.id.clone(), (from, to), self.events.clone());
        self.tasks.spawn(format!("move {}", self.id), OnError::Log, work);
        tracing::info!(partition = %self.id, from, to, at = %told.1.encode(), "the commit view is to be moved");
    }

    fn move_done(&mut self, from: usize, to: usize) {
        self.moving = None;
        self.router.views.places().moved(&self.id, to);
        self.router.apply.leave(&self.id, Piece::commit(from));
    }

    fn show(&self) {
        let state = self.core.state();
        *self.status.lock() = Status {
            epoch: match state {
                State::Serving { epoch } | State::Releasing { epoch } => Some(epoch),
                State::Idle | State::Claiming => None,
            },
            releasing: matches!(state, State::Releasing { .. }),
            position: self.core.position(),
            view_acked: self.core.view_acked(),
            pending: self.core.pending(),
        };
    }
}

fn now() -> Now {
    Now { mono: lapwing_runtime::time::mono_ms(), wall: lapwing_runtime::time::now_ms() }
}

/// Unlike any other tenure's, of this process or another.
fn rand_nonce() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one((std::process::id(), lapwing_runtime::time::now_ms()))
}

fn kind_of(body: &Body) -> &'static str {
    match body {
        Body::Publish(_) => "publish",
        Body::Attach(_) => "attach",
        Body::Fetch(_) => "fetch",
        Body::Cursors(_) => "cursors",
        Body::Command(_) => "command",
        _ => "other",
    }
}

fn result_of(reply: &bus::RouterReply) -> &'static str {
    match &reply.body {
        Some(bus::router_reply::Body::NotOwner(_)) => "not_owner",
        Some(bus::router_reply::Body::Error(_)) => "refused",
        _ => "ok",
    }
}
