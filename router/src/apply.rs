//! ⑦ apply: what was released goes into the Redis views, batched over partitions, each with its position (R-SEQ-4).

use std::{collections::HashMap, sync::Arc, time::Duration};

use lapwing_links::kafka::PartitionReader;
use lapwing_model::{ConversationKey, Family, Op, PartitionId, Position, view::FAMILIES};
use lapwing_router_core::{
    Released,
    view::{Repair, ViewCursor},
};
use lapwing_runtime::{
    OnError, Tasks, fail_point, metrics,
    queue::{Queue, Receiver, Sender},
    telemetry,
};
use lapwing_views::{Applied, Section, ViewError};
use tokio::sync::mpsc;

use crate::{dispatch::Dispatch, replay, router::Router, sequence::Event};

enum Input {
    Open { id: PartitionId, views: [Position; 2], events: mpsc::Sender<Event> },
    Close(PartitionId),
    Released(PartitionId, Arc<Released>),
    Advanced(PartitionId, Position),
    Ops(PartitionId, Family, Vec<Op>),
    Check(PartitionId, Family),
    Replayed(PartitionId, Family, Result<(), Option<Position>>),
}

#[derive(Clone)]
pub(crate) struct Handle {
    queue: Sender<Input>,
}

pub(crate) struct Stage {
    queue: Receiver<Input>,
}

/// Drained at once into the partitions' backlogs, which have their own bounds.
pub(crate) fn open() -> (Handle, Stage) {
    let (sender, receiver) = Queue::named("apply").items(1 << 20).bytes(512 << 20).open();
    (Handle { queue: sender }, Stage { queue: receiver })
}

impl Handle {
    pub(crate) fn open(&self, id: &PartitionId, views: [Position; 2], events: mpsc::Sender<Event>) {
        self.push(Input::Open { id: id.clone(), views, events }, 64);
    }

    pub(crate) fn close(&self, id: &PartitionId) {
        self.push(Input::Close(id.clone()), 64);
    }

    pub(crate) fn released(&self, id: &PartitionId, released: Arc<Released>) {
        let weight = released.event.len() + 128;
        self.push(Input::Released(id.clone(), released), weight);
    }

    pub(crate) fn advanced(&self, id: &PartitionId, to: Position) {
        self.push(Input::Advanced(id.clone(), to), 64);
    }

    pub(crate) fn persisted(
        &self,
        id: &PartitionId,
        key: ConversationKey,
        bucket: u32,
        seq: u64,
        trim_to: u64,
    ) {
        self.ops(id, Family::Commit, vec![Op::Persisted { key, bucket, seq, trim_to }]);
    }

    pub(crate) fn ops(&self, id: &PartitionId, family: Family, ops: Vec<Op>) {
        self.push(Input::Ops(id.clone(), family, ops), 128);
    }

    /// A cold load found the view too far back: look now, not at the next beat.
    pub(crate) fn check(&self, id: PartitionId, family: Family) {
        self.push(Input::Check(id, family), 64);
    }

    pub(crate) fn replayed(&self, id: PartitionId, family: Family, result: Result<(), Option<Position>>) {
        self.push(Input::Replayed(id, family, result), 64);
    }

    fn push(&self, input: Input, weight: usize) {
        // A record that does not get in here leaves a hole in the backlog, which the next mismatch finds and replays.
        if self.queue.try_push(input, weight).is_err() {
            self.queue.count_drop();
        }
    }
}

/// Where an owner starts: the fold's position, and the views' own.
pub(crate) struct Start {
    pub(crate) from: Position,
    pub(crate) views: [Position; 2],
}

/// How far a fold may start before the views, so that receipts and gap fetches survive a change of owner.
const LOOK_BACK: u64 = 20_000;

/// The views' positions, read before the claim is appended. With Redis down: from where MySQL is, if that is known.
/// None: stopped meanwhile.
pub(crate) async fn positions(router: &Arc<Router>, id: &PartitionId, tasks: &Tasks) -> Option<Start> {
    let stopping = tasks.stopping();
    loop {
        let persisted = router.persisted.lock().get(id).copied();
        match router.views.positions(id).await {
            Ok([commit, user]) => {
                let views = [commit.unwrap_or_default(), user.unwrap_or_default()];
                let lowest = if views[0].offset <= views[1].offset { views[0] } else { views[1] };
                let from = match persisted {
                    Some(at) if at.offset < lowest.offset && lowest.offset - at.offset <= LOOK_BACK => at,
                    _ => lowest,
                };
                if let Some(start) = still_there(router, id, Start { from, views }).await {
                    return Some(start);
                }
            }
            Err(error) => {
                if let Some(at) = persisted {
                    tracing::warn!(partition = %id, %error, "takes over without Redis, from MySQL's position");
                    return Some(Start { from: at, views: [at, at] });
                }
                tracing::warn!(partition = %id, %error, "cannot take over: neither Redis nor MySQL says from where");
            }
        }
        tokio::select! {
            () = stopping.cancelled() => return None,
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
    }
}

/// Retention past the needed offset is an alarm and a stop, never a jump.
async fn still_there(router: &Router, id: &PartitionId, start: Start) -> Option<Start> {
    let mut reader = PartitionReader::open(&router.kafka, &id.topic, id.partition as i32, 0);
    match reader.earliest().await {
        Ok(earliest) if earliest as u64 <= start.from.offset => Some(start),
        Ok(earliest) => {
            tracing::error!(partition = %id, needed = start.from.offset, earliest,
                "ALARM: the log no longer has what the views lack; this partition is not taken over");
            None
        }
        Err(error) => {
            tracing::warn!(partition = %id, %error, "cannot take over: Kafka does not answer");
            None
        }
    }
}

const BATCH_RECORDS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
const CALL_SECTIONS: usize = 48;
const BACKLOG_BYTES: usize = 32 << 20;
const BEAT: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(100);

struct Views {
    cursors: [ViewCursor; 2],
    ops: [Vec<Op>; 2],
    beat: [bool; 2],
    events: mpsc::Sender<Event>,
}

struct Applier {
    router: Arc<Router>,
    partitions: HashMap<PartitionId, Views>,
    failing: bool,
}

impl Stage {
    pub(crate) async fn run(mut self, router: Arc<Router>) {
        let mut applier = Applier { router, partitions: HashMap::new(), failing: false };
        let mut beats = tokio::time::interval(BEAT);
        let stopping = applier.router.context.stopping();
        loop {
            tokio::select! {
                inputs = self.queue.pop_up_to(4096, 64 << 20) => {
                    if inputs.is_empty() { return }
                    inputs.into_iter().for_each(|input| applier.take(input));
                }
                _ = beats.tick() => applier.beat(),
                () = stopping.cancelled() => {
                    // The last released records; whatever is missed is replayed by the next owner.
                    self.queue.try_pop_up_to(usize::MAX, usize::MAX).into_iter().for_each(|i| applier.take(i));
                    applier.apply().await;
                    return;
                }
            }
            if applier.apply().await.is_some_and(|ok| !ok) {
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

impl Applier {
    fn take(&mut self, input: Input) {
        match input {
            Input::Open { id, views, events } => {
                let [commit, user] = FAMILIES;
                let cursors = [
                    ViewCursor::new(commit, views[0], BACKLOG_BYTES),
                    ViewCursor::new(user, views[1], BACKLOG_BYTES),
                ];
                let ops = [Vec::new(), Vec::new()];
                self.partitions.insert(id, Views { cursors, ops, beat: [true; 2], events });
            }
            Input::Close(id) => drop(self.partitions.remove(&id)),
            Input::Released(id, released) => self.with(&id, |views| {
                views.cursors.iter_mut().for_each(|cursor| cursor.push(released.clone()));
            }),
            Input::Advanced(id, to) => self.with(&id, |views| {
                views.cursors.iter_mut().for_each(|cursor| cursor.advance(to));
            }),
            Input::Ops(id, family, ops) => self.with(&id, |views| views.ops[place(family)].extend(ops)),
            Input::Check(id, family) => self.with(&id, |views| views.beat[place(family)] = true),
            Input::Replayed(id, family, result) => self.replayed(&id, family, result),
        }
    }

    fn with(&mut self, id: &PartitionId, change: impl FnOnce(&mut Views)) {
        if let Some(views) = self.partitions.get_mut(id) {
            change(views);
        }
    }

    fn beat(&mut self) {
        self.partitions.values_mut().for_each(|views| views.beat = [true; 2]);
    }

    /// One script call with what all partitions have; None: there was nothing; false: no answer.
    async fn apply(&mut self) -> Option<bool> {
        let (mut sections, mut spans) = (Vec::new(), Vec::new());
        for (id, views) in &mut self.partitions {
            for (i, family) in FAMILIES.into_iter().enumerate() {
                if sections.len() >= CALL_SECTIONS {
                    break;
                }
                let beat = views.beat[i];
                if let Some(batch) = views.cursors[i].next(BATCH_RECORDS, BATCH_BYTES, beat) {
                    views.beat[i] = false;
                    if telemetry::otlp_on() && family == Family::Commit {
                        spans.extend(batch.released.iter().map(|of| span_of(of)));
                    }
                    sections.push(Section {
                        id: id.clone(),
                        family,
                        expected: Some(batch.expected),
                        new: batch.new,
                        ops: batch.ops,
                    });
                }
                if !views.ops[i].is_empty() {
                    let ops = std::mem::take(&mut views.ops[i]);
                    sections.push(Section::unpositioned(id.clone(), family, ops));
                }
            }
        }
        if sections.is_empty() {
            return None;
        }
        let stage = metrics::stage("apply");
        let answers = fail_point::during("apply.middle", self.router.views.apply(&sections)).await;
        fail_point("apply.after");
        stage.done(if answers.is_ok() { "ok" } else { "failed" });
        drop(spans);
        Some(self.settle(sections, answers))
    }

    fn settle(&mut self, sections: Vec<Section>, answers: Result<Vec<Applied>, ViewError>) -> bool {
        let answers = match answers {
            Ok(answers) => {
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the Redis views take batches again");
                }
                answers
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "the Redis views do not take batches; accepting and delivery go on");
                }
                for section in sections {
                    self.unanswered(section);
                }
                return false;
            }
        };
        for (section, answer) in sections.into_iter().zip(answers) {
            if section.expected.is_some() {
                self.answered(&section, answer);
            }
        }
        true
    }

    fn unanswered(&mut self, section: Section) {
        let Some(views) = self.partitions.get_mut(&section.id) else { return };
        let i = place(section.family);
        match section.expected {
            Some(_) => views.cursors[i].unanswered(),
            // Maxima: kept for the next call, within a bound; beyond it the next mark or cursor says more.
            None if views.ops[i].len() < 10_000 => views.ops[i].extend(section.ops),
            None => {}
        }
    }

    fn answered(&mut self, section: &Section, answer: Applied) {
        let Some(views) = self.partitions.get_mut(&section.id) else { return };
        let cursor = &mut views.cursors[place(section.family)];
        match answer {
            Applied::Ok => {
                let passed = cursor.applied(section.new);
                if section.family == Family::Commit {
                    // Full only when the partition is busy; the next batch says more.
                    let _later = views.events.try_send(Event::ViewAt(section.new.offset));
                } else {
                    let joins = passed
                        .into_iter()
                        .filter(|released| !lapwing_model::fold::member_changes(&released.record).is_empty());
                    joins.for_each(|released| self.router.dispatch.push(Dispatch::Announce(released)));
                }
            }
            Applied::At(stored) => {
                let repair = cursor.mismatch(stored.unwrap_or_default());
                self.repair(&section.id, section.family, repair);
            }
        }
    }

    fn repair(&mut self, id: &PartitionId, family: Family, repair: Repair) {
        match repair {
            Repair::Resumed => {}
            Repair::Replay { from, to } => {
                tracing::warn!(partition = %id, view = family.name(), from = %from.encode(), to = %to.encode(),
                    "the view is behind: replaying the log into it");
                let work = replay::run(self.router.clone(), id.clone(), family, from, to);
                self.router.context.tasks.spawn(format!("replay {id}"), OnError::Log, work);
            }
            Repair::Ahead(at) => {
                tracing::error!(partition = %id, view = family.name(), at = %at.encode(),
                    "the view is ahead of what this owner has read");
            }
        }
    }

    fn replayed(&mut self, id: &PartitionId, family: Family, result: Result<(), Option<Position>>) {
        let Some(views) = self.partitions.get_mut(id) else { return };
        let cursor = &mut views.cursors[place(family)];
        match result {
            Ok(()) => {
                cursor.replayed();
                views.beat[place(family)] = true;
                tracing::info!(partition = %id, view = family.name(), "the view is whole again");
            }
            Err(stored) => {
                let repair = cursor.mismatch(stored.unwrap_or_default());
                self.repair(id, family, repair);
            }
        }
    }
}

fn span_of(released: &Released) -> tracing::Span {
    let span = tracing::debug_span!("apply", conversation = %released.key, seq = released.record.seq);
    telemetry::span_from(&released.record.traceparent, span)
}

fn place(family: Family) -> usize {
    match family {
        Family::Commit => 0,
        Family::User => 1,
    }
}
