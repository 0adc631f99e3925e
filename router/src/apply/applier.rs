//! One instance's task: the pieces that it holds, their backlogs, one script call at a time.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_model::{Family, Op, PartitionId, Position};
use lapwing_router_core::{
    Released,
    view::{Repair, ViewCursor},
};
use lapwing_runtime::{OnError, fail_point, metrics, queue::Receiver, telemetry};
use lapwing_views::{Applied, BATCH_BYTES, BATCH_RECORDS, Expect, Piece, Section, ViewError};
use tokio::sync::mpsc;

use super::{Input, Reached, Told};
use crate::{dispatch::Dispatch, rebuild, replay, router::Router, sequence::Event};

const CALL_SECTIONS: usize = 48;
/// Of one piece; beyond it the log is read again.
const BACKLOG_BYTES: usize = 4 << 20;
const BEAT: Duration = Duration::from_secs(1);
/// A view that stays ahead for so long is an alarm.
const AHEAD: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(100);
/// From call to call under load. A call and each of its sections cost more than a record in it, so a few larger ones take Redis
/// far less than many small ones.
const PACE: Duration = Duration::from_millis(5);
/// Operations of one call that are load: some 16,000 messages a second. With less nothing waits.
const LOADED: usize = 64;
/// Maxima that wait while the instance is away.
const OPS: usize = 10_000;

/// One piece of one partition's views.
struct View {
    cursor: ViewCursor,
    /// Of the last step that it was told.
    number: u64,
    ops: Vec<Op>,
    beat: bool,
    ahead: Option<Instant>,
    events: mpsc::Sender<Event>,
}

impl View {
    fn told(&mut self, number: u64, told: &Told) {
        let missed = number > self.number + 1;
        if number <= self.number {
            return;
        }
        self.number = number;
        match told {
            Told::Released(released) if missed => self.cursor.missed(released.after),
            Told::Advanced(to) if missed => self.cursor.missed(*to),
            Told::Released(released) => self.cursor.push(released.clone()),
            Told::Advanced(to) => self.cursor.advance(*to),
        }
    }
}

/// What became of one script call.
enum Call {
    Nothing,
    Unanswered,
    Answered { operations: usize },
}

struct Applier {
    router: Arc<Router>,
    instance: usize,
    reached: Reached,
    views: BTreeMap<(PartitionId, Piece), View>,
    /// Behind the last one that a call had room for, so that each gets its turn.
    next: Option<(PartitionId, Piece)>,
    failing: bool,
}

pub(super) async fn run(router: Arc<Router>, instance: usize, mut queue: Receiver<Input>, reached: Reached) {
    let stopping = router.context.stopping();
    let mut applier =
        Applier { router, instance, reached, views: BTreeMap::new(), next: None, failing: false };
    let mut beats = tokio::time::interval(BEAT);
    loop {
        tokio::select! {
            inputs = queue.pop_up_to(4096, 64 << 20) => {
                if inputs.is_empty() { return }
                inputs.into_iter().for_each(|input| applier.take(input));
            }
            _ = beats.tick() => applier.views.values_mut().for_each(|view| view.beat = true),
            () = stopping.cancelled() => {
                // The last released records; whatever is missed is replayed by the next owner.
                queue.try_pop_up_to(usize::MAX, usize::MAX).into_iter().for_each(|input| applier.take(input));
                applier.apply().await;
                return;
            }
        }
        let began = tokio::time::Instant::now();
        match applier.apply().await {
            Call::Unanswered => tokio::time::sleep(RETRY).await,
            Call::Answered { operations } if operations >= LOADED => {
                tokio::time::sleep_until(began + PACE).await;
            }
            Call::Answered { .. } | Call::Nothing => {}
        }
    }
}

impl Applier {
    fn take(&mut self, input: Input) {
        match input {
            Input::Open { id, pieces, number, events } => {
                for (piece, at) in pieces {
                    let cursor = ViewCursor::new(piece.family, at, BACKLOG_BYTES);
                    let view = View {
                        cursor,
                        number,
                        ops: Vec::new(),
                        beat: true,
                        ahead: None,
                        events: events.clone(),
                    };
                    self.views.insert((id.clone(), piece), view);
                }
            }
            Input::Close(id) => self.views.retain(|(of, _), _| *of != id),
            Input::Leave(id, piece) => drop(self.views.remove(&(id, piece))),
            Input::Told(id, number, told) => {
                self.of(&id).for_each(|(_, view)| view.told(number, &told));
            }
            Input::Ops(id, family, ops) => self
                .of(&id)
                .filter(|(piece, _)| piece.family == family)
                .for_each(|(piece, view)| view.ops.extend(ops.iter().filter(|op| piece.holds(op)).cloned())),
            Input::Check(id, family) => self
                .of(&id)
                .filter(|(piece, _)| piece.family == family)
                .for_each(|(_, view)| view.beat = true),
            Input::Replayed(id, piece, result) => self.replayed(id, piece, result),
        }
    }

    /// The pieces of one partition.
    fn of(&mut self, id: &PartitionId) -> impl Iterator<Item = (Piece, &mut View)> {
        let first = (id.clone(), Piece { family: Family::Commit, first: 0, last: 0, instance: 0 });
        let id = id.clone();
        self.views
            .range_mut(first..)
            .take_while(move |((of, _), _)| *of == id)
            .map(|((_, piece), view)| (*piece, view))
    }

    /// One script call with what the pieces have, in turn.
    async fn apply(&mut self) -> Call {
        let (mut sections, mut spans) = (Vec::new(), Vec::new());
        let keys: Vec<_> = match &self.next {
            Some(next) => {
                let (later, first) = (self.views.range(next.clone()..), self.views.range(..next.clone()));
                later.chain(first).map(|(key, _)| key.clone()).collect()
            }
            None => self.views.keys().cloned().collect(),
        };
        self.next = None;
        for key in keys {
            if sections.len() >= CALL_SECTIONS {
                self.next = Some(key);
                break;
            }
            let Some(view) = self.views.get_mut(&key) else { continue };
            let (id, piece) = &key;
            if let Some(batch) = view.cursor.next(BATCH_RECORDS, BATCH_BYTES, view.beat) {
                view.beat = false;
                if telemetry::otlp_on() && piece.family == Family::Commit {
                    spans.extend(batch.released.iter().map(|of| span_of(of)));
                }
                let mut ops = batch.ops;
                ops.retain(|op| piece.holds(op));
                sections.push(Section::new(id, *piece, Expect::Move(batch.expected, batch.new), ops));
            }
            if !view.ops.is_empty() {
                let ops = std::mem::take(&mut view.ops);
                sections.push(Section::new(id, *piece, Expect::Any, ops));
            }
        }
        if sections.is_empty() {
            return Call::Nothing;
        }
        let operations = sections.iter().map(|section| section.ops.len()).sum();
        let stage = metrics::stage("apply");
        let call = self.router.views.apply(self.instance, &sections);
        let answers = fail_point::during("apply.middle", call).await;
        fail_point("apply.after");
        stage.done(if answers.is_ok() { "ok" } else { "failed" });
        drop(spans);
        match self.settle(sections, answers) {
            true => Call::Answered { operations },
            false => Call::Unanswered,
        }
    }

    fn settle(&mut self, sections: Vec<Section>, answers: Result<Vec<Applied>, ViewError>) -> bool {
        let name = self.router.views.places().redis(self.instance).instance().to_owned();
        let answers = match answers {
            Ok(answers) => {
                if std::mem::take(&mut self.failing) {
                    tracing::info!(instance = name, "the Redis views take batches again");
                }
                answers
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(instance = name, %error,
                        "the Redis views do not take batches; accepting and delivery go on");
                }
                for section in sections {
                    self.unanswered(section);
                }
                return false;
            }
        };
        for (section, answer) in sections.into_iter().zip(answers) {
            if let Expect::Move(_, new) = section.expect {
                self.answered(section.id, section.piece, new, answer);
            }
        }
        true
    }

    fn unanswered(&mut self, section: Section) {
        let Some(view) = self.views.get_mut(&(section.id, section.piece)) else { return };
        match section.expect {
            Expect::Move(..) => view.cursor.unanswered(),
            // Maxima: kept for the next call, within a bound; beyond it the next mark or cursor says more.
            _ if view.ops.len() < OPS => view.ops.extend(section.ops),
            _ => {}
        }
    }

    fn answered(&mut self, id: PartitionId, piece: Piece, new: Position, answer: Applied) {
        let Some(view) = self.views.get_mut(&(id.clone(), piece)) else { return };
        match answer {
            Applied::Ok => {
                view.ahead = None;
                let passed = view.cursor.applied(new);
                self.reached.lock().insert((id, piece), new);
                if piece.family == Family::Commit {
                    // Full only when the partition is busy; the next batch says more.
                    let event = Event::ViewAt { instance: piece.instance, offset: new.offset };
                    let _later = view.events.try_send(event);
                } else {
                    let joins = passed
                        .into_iter()
                        .filter(|released| !lapwing_model::fold::member_changes(&released.record).is_empty());
                    joins.for_each(|released| self.router.dispatch.push(Dispatch::Announce(released)));
                }
            }
            Applied::At(stored) => self.stands_at(id, piece, stored),
            Applied::Moved(to) => {
                view.cursor.unanswered();
                let _again_later = view.events.try_send(Event::ViewMoved { from: piece.instance, to });
            }
        }
    }

    fn stands_at(&mut self, id: PartitionId, piece: Piece, stored: Option<Position>) {
        let Some(view) = self.views.get_mut(&(id.clone(), piece)) else { return };
        let (router, family) = (self.router.clone(), piece.family.name());
        match stored.map(|at| view.cursor.mismatch(at)) {
            Some(Repair::Resumed) => view.ahead = None,
            Some(Repair::Replay { from, to }) => {
                tracing::warn!(partition = %id, view = family, from = %from.encode(), to = %to.encode(),
                    "the view is behind: replaying the log into it");
                let work = replay::run(router.clone(), id.clone(), piece, replay::Plan::all(from), to);
                router.context.tasks.spawn(format!("replay {id}"), OnError::Log, work);
            }
            Some(Repair::Ahead(at)) => {
                // One that was paused has yet to read on; the view of another log would stay ahead.
                if view.ahead.get_or_insert_with(Instant::now).elapsed() > AHEAD {
                    view.ahead = Some(Instant::now());
                    tracing::error!(partition = %id, view = family, at = %at.encode(),
                        "ALARM: the view is ahead of what this owner has read");
                }
            }
            None => {
                tracing::warn!(partition = %id, view = family, "the view is behind: it has nothing stored");
                let work = rebuild::run(router.clone(), id.clone(), piece, view.cursor.lost());
                router.context.tasks.spawn(format!("rebuild {id}"), OnError::Log, work);
            }
        }
    }

    fn replayed(&mut self, id: PartitionId, piece: Piece, result: Result<(), Option<Position>>) {
        match result {
            Ok(()) => {
                let Some(view) = self.views.get_mut(&(id.clone(), piece)) else { return };
                view.cursor.replayed();
                view.beat = true;
                tracing::info!(partition = %id, view = piece.family.name(), "the view is whole again");
            }
            Err(stored) => self.stands_at(id, piece, stored),
        }
    }
}

fn span_of(released: &Released) -> tracing::Span {
    let span = tracing::debug_span!("apply", conversation = %released.key, seq = released.record.seq);
    telemetry::span_from(&released.record.traceparent, span)
}
