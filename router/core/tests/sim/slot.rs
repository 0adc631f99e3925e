//! One router's tenures of one partition: the real owner, its view cursors and its replays. A crash forgets all of it.

use bytes::Bytes;
use lapwing_model::{Op, PartitionId, Position, Verdict, event, record, view::ops_of};
use lapwing_proto::Message as _;
use lapwing_router_core::{Options, Partition, State, view::ViewCursor};

use crate::{
    faults::{self, Break},
    log::Log,
    machine::name_of,
    plan::Plan,
    redis::family_of,
};

pub(crate) struct Slot {
    pub(crate) router: usize,
    pub(crate) part: usize,
    pub(crate) core: Partition,
    /// The nonce of the tenure; 0 = none.
    pub(crate) tenure: u64,
    pub(crate) cursors: Vec<ViewCursor>,
    pub(crate) replays: Vec<Option<Replay>>,
    /// By instance: up to where its commit piece was ever told to be.
    pub(crate) pieces_acked: Vec<u64>,
    /// Newest offset that was acknowledged to this tenure.
    pub(crate) acked: Option<u64>,
    pub(crate) last_released: Option<u64>,
    pub(crate) taking_over: bool,
    /// When it had read the whole log.
    pub(crate) caught_up: u64,
    /// It was stopped and has not read all since: nothing may rest on what it knew.
    pub(crate) stale: bool,
}

/// The log read again into one view, in chunks.
pub(crate) struct Replay {
    applied: Position,
    to: Position,
    /// Sent and not answered: the same again.
    section: Option<(Position, Vec<Op>)>,
}

/// About what one weighs.
const CONVERSATION: usize = 1200;

fn options(router: usize, plan: &Plan, broken: Option<Break>) -> Options {
    Options {
        conversation_bytes: if plan.wide { 0 } else { 2 * CONVERSATION },
        recent_mids: 3,
        recent_bytes: 600,
        readback_ms: 300 * plan.step_ms,
        mids_ms: 30 * plan.step_ms,
        clocks_ms: 20 * plan.step_ms,
        without: faults::of_core(broken),
        ..Options::new(name_of(router))
    }
}

impl Slot {
    pub(crate) fn new(
        router: usize,
        part: usize,
        id: &PartitionId,
        plan: &Plan,
        broken: Option<Break>,
    ) -> Self {
        Self {
            router,
            part,
            core: Partition::new(id.clone(), options(router, plan, broken)),
            tenure: 0,
            cursors: Vec::new(),
            replays: Vec::new(),
            pieces_acked: Vec::new(),
            acked: None,
            last_released: None,
            taking_over: false,
            caught_up: 0,
            stale: false,
        }
    }

    pub(crate) fn crash(&mut self, id: &PartitionId, plan: &Plan, broken: Option<Break>) {
        *self = Self::new(self.router, self.part, id, plan, broken);
    }

    /// Stepped down: what comes for it is for nobody.
    pub(crate) fn leave(&mut self) {
        self.tenure = 0;
        self.cursors.clear();
        self.replays.clear();
    }

    pub(crate) fn begin(&mut self, tenure: u64, views: &[Position]) {
        self.tenure = tenure;
        self.acked = None;
        self.last_released = None;
        self.replays = views.iter().map(|_| None).collect();
        // A small backlog, so that it is sometimes left to the log.
        let cursors = views.iter().enumerate();
        self.cursors = cursors.map(|(piece, at)| ViewCursor::new(family_of(piece), *at, 1500)).collect();
        self.pieces_acked = views.iter().step_by(2).map(|at| at.offset).collect();
    }

    pub(crate) fn owns(&self) -> bool {
        self.tenure != 0 && self.core.state() != State::Idle
    }

    pub(crate) fn serves(&self) -> bool {
        matches!(self.core.state(), State::Serving { .. })
    }

    pub(crate) fn start_replay(&mut self, piece: usize, applied: Position, to: Position) {
        self.replays[piece] = Some(Replay { applied, to, section: None });
    }
}

impl Replay {
    pub(crate) fn done(&self) -> bool {
        self.applied.offset >= self.to.offset
    }

    /// The next section: expected position, new position, operations.
    pub(crate) fn section(
        &mut self,
        log: &Log,
        piece: usize,
        records: u64,
        broken: Option<Break>,
    ) -> (Position, Position, Vec<Op>) {
        if let Some((new, ops)) = self.section.clone() {
            return (self.applied, new, ops);
        }
        let mut at = self.applied;
        let mut ops = Vec::new();
        let end = self.to.offset.min(self.applied.offset + records);
        for offset in self.applied.offset..end {
            let Ok(record) = log.get(offset) else {
                at.offset = offset + 1;
                continue;
            };
            let verdict = record::follow_by(log.rule, &mut at, offset, &record);
            let counts = verdict == Verdict::Valid || broken == Some(Break::Voids);
            if let (true, Some(event)) = (counts, event::of_record(&record)) {
                ops_of(
                    family_of(piece),
                    &record::key_of(&record),
                    &record,
                    &Bytes::from(event.encode_to_vec()),
                    &mut ops,
                );
            }
        }
        self.section = Some((at, ops.clone()));
        (self.applied, at, ops)
    }

    pub(crate) fn taken(&mut self) {
        if let Some((new, _)) = self.section.take() {
            self.applied = new;
        }
    }
}
