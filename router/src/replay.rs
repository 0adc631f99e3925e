//! A view that lost something is repaired from the log, from its own position, beside serving (R-SEQ-6, R-SEQ-9).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lapwing_links::kafka::PartitionReader;
use lapwing_model::{
    Family, Op, PartitionId, Position, Verdict, event, fold::member_changes, record, view::ops_of,
};
use lapwing_proto::Message as _;
use lapwing_router_core::{FanOut, Released};
use lapwing_runtime::metrics;
use lapwing_views::{Applied, Expect, Piece, Section};

use crate::{commit::decode, dispatch::Dispatch, router::Router};

const CHUNK: usize = 500;

/// Where a replay begins, and from where the hot window is wanted: below that it is in MySQL.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) from: Position,
    pub(crate) hot_from: u64,
    /// The rebuild that this completes: the view gets a position only at its end, so that nobody reads a part of it.
    pub(crate) token: Option<String>,
}

impl Plan {
    pub(crate) fn all(from: Position) -> Self {
        Self { from, hot_from: 0, token: None }
    }

    fn expect(&self, from: Position, to: Position) -> Expect {
        match &self.token {
            Some(token) => Expect::Rebuild(token.clone()),
            None => Expect::Move(from, to),
        }
    }
}

/// Reads the log from the view's position up to where the owner's backlog begins, and applies it.
pub(crate) async fn run(router: Arc<Router>, id: PartitionId, piece: Piece, plan: Plan, to: Position) {
    let mut reader =
        PartitionReader::open(&router.kafka, &id.topic, id.partition as i32, plan.from.offset as i64);
    let mut section = Filled::new(&plan, piece);
    let mut applied = plan.from;
    while applied.offset < to.offset {
        if router.context.stopping().is_cancelled() || !router.partitions.read().contains_key(&id) {
            return;
        }
        let fetched = match reader.next(Duration::from_millis(500), 4 << 20).await {
            Ok(fetched) => fetched,
            Err(error) => {
                tracing::error!(partition = %id, view = piece.family.name(), offset = section.at.offset, %error,
                    "the replay cannot read the log; it tries again");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        for raw in fetched.records {
            if section.at.offset < to.offset {
                section.take(raw);
            }
            if section.is_full() {
                match section.apply(&router, &id, &mut applied).await {
                    Ok(()) => {}
                    Err(stored) => return stop(&router, id, piece, stored),
                }
            }
        }
        // Behind records that cannot be shown.
        if reader.position() as u64 >= to.offset {
            section.at.offset = section.at.offset.max(to.offset);
        }
        if section.at.offset >= to.offset
            && let Err(stored) = section.apply(&router, &id, &mut applied).await
        {
            return stop(&router, id, piece, stored);
        }
    }
    if let Some(token) = plan.token {
        let whole = Section::new(&id, piece, Expect::End(token, applied), Vec::new());
        match apply(&router, whole).await {
            Some(Applied::Ok) => {}
            Some(Applied::At(stored)) => return router.apply.replayed(id, piece, Err(stored)),
            Some(Applied::Moved(_)) | None => return,
        }
    }
    router.apply.replayed(id, piece, Ok(()));
}

/// Some: the view stands elsewhere; None: stopping, or it is on another instance.
fn stop(router: &Router, id: PartitionId, piece: Piece, stored: Option<Option<Position>>) {
    if let Some(stored) = stored {
        router.apply.replayed(id, piece, Err(stored));
    }
}

/// What was read and is not applied yet.
struct Filled<'a> {
    plan: &'a Plan,
    piece: Piece,
    at: Position,
    ops: Vec<Op>,
    records: usize,
    /// Records that made users members: their sessions are told once their view says so.
    joins: Vec<Arc<Released>>,
}

impl<'a> Filled<'a> {
    fn new(plan: &'a Plan, piece: Piece) -> Self {
        Self { plan, piece, at: plan.from, ops: Vec::new(), records: 0, joins: Vec::new() }
    }

    fn take(&mut self, raw: lapwing_links::kafka::RawRecord) {
        let (offset, decoded) = decode(raw);
        let Ok(record) = decoded else {
            self.at.offset = offset + 1;
            return;
        };
        if record::follow(&mut self.at, offset, &record) != Verdict::Valid {
            return;
        }
        let Some(event) = event::of_record(&record) else { return };
        let (event, hot) = (Bytes::from(event.encode_to_vec()), offset >= self.plan.hot_from);
        let mut ops = Vec::new();
        ops_of(self.piece.family, &record::key_of(&record), &record, &event, &mut ops);
        let wanted = |op: &Op| self.piece.holds(op) && (hot || !matches!(op, Op::Hot { .. }));
        self.ops.extend(ops.into_iter().filter(wanted));
        self.records += 1;
        // A view that is filled anew is not read before it is whole, so nobody missed anything.
        if self.piece.family == Family::User
            && self.plan.token.is_none()
            && !member_changes(&record).is_empty()
        {
            self.joins.push(Arc::new(Released {
                offset,
                after: self.at,
                key: record::key_of(&record),
                record: Arc::new(record),
                event,
                fan_out: FanOut::default(),
            }));
        }
    }

    fn is_full(&self) -> bool {
        self.records >= CHUNK
    }

    async fn apply(
        &mut self,
        router: &Router,
        id: &PartitionId,
        applied: &mut Position,
    ) -> Result<(), Option<Option<Position>>> {
        let expect = self.plan.expect(*applied, self.at);
        let section = Section::new(id, self.piece, expect, std::mem::take(&mut self.ops));
        ::metrics::counter!(metrics::REPLAYED_TOTAL, "view" => self.piece.family.name())
            .increment(std::mem::take(&mut self.records) as u64);
        match apply(router, section).await {
            Some(Applied::Ok) => {
                *applied = self.at;
                for released in self.joins.drain(..) {
                    router.dispatch.push(Dispatch::Announce(released));
                }
                Ok(())
            }
            Some(Applied::At(stored)) => Err(Some(stored)),
            Some(Applied::Moved(_)) | None => Err(None),
        }
    }
}

/// Until the view answers; None: stopping.
pub(crate) async fn apply(router: &Router, section: Section) -> Option<Applied> {
    let (instance, sections) = (section.piece.instance, [section]);
    loop {
        match router.views.apply(instance, &sections).await {
            Ok(answers) => return answers.into_iter().next(),
            Err(error) => tracing::debug!(%error, "the replay waits for the view"),
        }
        if router.context.stopping().is_cancelled() {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
