//! One router's tenures: the real owner, its view cursors and its replays. A crash forgets all of it.

use std::collections::VecDeque;

use bytes::Bytes;
use lapwing_model::{Family, Op, PartitionId, Position, Verdict, event, record, view::ops_of};
use lapwing_proto::Message as _;
use lapwing_router_core::{Options, Partition, State, view::ViewCursor};

use crate::{
    faults::{self, Break},
    log::Log,
    world::Event,
};

pub(crate) struct Router {
    pub(crate) name: usize,
    pub(crate) broken: Option<Break>,
    pub(crate) core: Partition,
    /// The nonce of the tenure; 0 = none.
    pub(crate) tenure: u64,
    pub(crate) cursors: Vec<ViewCursor>,
    pub(crate) replays: [Option<Replay>; 2],
    /// Newest offset that was acknowledged to this tenure.
    pub(crate) acked: Option<u64>,
    pub(crate) asleep_until: u64,
    /// What arrived while it was stopped, in order.
    pub(crate) inbox: VecDeque<Event>,
    pub(crate) last_released: Option<u64>,
    pub(crate) taking_over: bool,
}

/// The log read again into one view, in chunks.
pub(crate) struct Replay {
    pub(crate) applied: Position,
    to: Position,
    /// Sent and not answered: the same again.
    section: Option<(Position, Vec<Op>)>,
}

fn options(name: usize, broken: Option<Break>) -> Options {
    Options {
        max_conversations: 2,
        recent_mids: 3,
        recent_bytes: 600,
        readback_ms: 3000,
        mids_ms: 300,
        clocks_ms: 200,
        without: faults::of_core(broken),
        ..Options::new(format!("r{name}"))
    }
}

impl Router {
    pub(crate) fn new(name: usize, broken: Option<Break>) -> Self {
        Self {
            name,
            broken,
            core: Partition::new(PartitionId::new("lapwing.group", 0), options(name, broken)),
            tenure: 0,
            cursors: Vec::new(),
            replays: [None, None],
            acked: None,
            asleep_until: 0,
            inbox: VecDeque::new(),
            last_released: None,
            taking_over: false,
        }
    }

    pub(crate) fn crash(&mut self) {
        let asleep_until = self.asleep_until;
        *self = Self { asleep_until, ..Self::new(self.name, self.broken) };
    }

    /// Stepped down: what comes for it is for nobody.
    pub(crate) fn leave(&mut self) {
        self.tenure = 0;
        self.cursors.clear();
        self.replays = [None, None];
    }

    pub(crate) fn begin(&mut self, tenure: u64, views: [Position; 2]) {
        self.tenure = tenure;
        self.acked = None;
        self.last_released = None;
        self.replays = [None, None];
        let [commit, user] = views;
        // A small backlog, so that it is sometimes left to the log.
        self.cursors =
            vec![ViewCursor::new(Family::Commit, commit, 1500), ViewCursor::new(Family::User, user, 1500)];
    }

    pub(crate) fn owns(&self) -> bool {
        self.tenure != 0 && self.core.state() != State::Idle
    }

    pub(crate) fn serves(&self) -> bool {
        matches!(self.core.state(), State::Serving { .. })
    }

    pub(crate) fn start_replay(&mut self, family: usize, applied: Position, to: Position) {
        self.replays[family] = Some(Replay { applied, to, section: None });
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
        family: Family,
        records: u64,
        broken: Option<Break>,
    ) -> (Position, Position, Vec<Op>) {
        let Some((new, ops)) = self.section.clone() else {
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
                    ops_of(family, &record, &Bytes::from(event.encode_to_vec()), &mut ops);
                }
            }
            self.section = Some((at, ops.clone()));
            return (self.applied, at, ops);
        };
        (self.applied, new, ops)
    }

    pub(crate) fn taken(&mut self) {
        if let Some((new, _)) = self.section.take() {
            self.applied = new;
        }
    }
}
