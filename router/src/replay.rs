//! A view that lost something is repaired from the log, from its own position, beside serving (R-SEQ-6, R-SEQ-9).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lapwing_links::kafka::PartitionReader;
use lapwing_model::{Op, PartitionId, Position, Verdict, event, record, view::ops_of};
use lapwing_proto::Message as _;
use lapwing_runtime::metrics;
use lapwing_views::{Applied, Expect, Piece, Section};

use crate::{commit::decode, router::Router};

const CHUNK: usize = 500;

/// Where a replay begins, and from where the hot window is wanted: below that it is in MySQL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) from: Position,
    pub(crate) hot_from: u64,
}

impl Plan {
    pub(crate) fn all(from: Position) -> Self {
        Self { from, hot_from: 0 }
    }

    pub(crate) fn from_start() -> Self {
        Self::all(Position::default())
    }
}

/// Reads the log from the view's position up to where the owner's backlog begins, and applies it.
pub(crate) async fn run(router: Arc<Router>, id: PartitionId, piece: Piece, plan: Plan, to: Position) {
    let (from, family) = (plan.from, piece.family);
    let mut reader = PartitionReader::open(&router.kafka, &id.topic, id.partition as i32, from.offset as i64);
    let stopping = router.context.stopping();
    let (mut at, mut applied) = (from, from);
    let mut ops: Vec<Op> = Vec::new();
    let mut records = 0;
    while applied.offset < to.offset {
        if stopping.is_cancelled() || !router.partitions.read().contains_key(&id) {
            return;
        }
        let fetched = match reader.next(Duration::from_millis(500), 4 << 20).await {
            Ok(fetched) => fetched,
            Err(error) => {
                tracing::error!(partition = %id, view = family.name(), offset = at.offset, %error,
                    "the replay cannot read the log; it tries again");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        for raw in fetched.records {
            if at.offset >= to.offset {
                break;
            }
            let (offset, decoded) = decode(raw);
            let Ok(record) = decoded else {
                at.offset = offset + 1;
                continue;
            };
            if record::follow(&mut at, offset, &record) == Verdict::Valid
                && let Some(event) = event::of_record(&record)
            {
                let before = ops.len();
                ops_of(family, &record, &Bytes::from(event.encode_to_vec()), &mut ops);
                let mut place = 0..;
                let hot = offset >= plan.hot_from;
                ops.retain(|op| {
                    let wanted = piece.holds(op) && (hot || !matches!(op, Op::Hot { .. }));
                    place.next() < Some(before) || wanted
                });
                records += 1;
            }
            if records >= CHUNK || at.offset >= to.offset {
                let section = Section::new(&id, piece, Expect::Move(applied, at), std::mem::take(&mut ops));
                ::metrics::counter!(metrics::REPLAYED_TOTAL, "view" => family.name())
                    .increment(records as u64);
                records = 0;
                match apply(&router, section).await {
                    Some(Applied::Ok) => applied = at,
                    Some(Applied::At(stored)) => return router.apply.replayed(id, piece, Err(stored)),
                    Some(Applied::Moved(_)) | None => return,
                }
            }
        }
    }
    router.apply.replayed(id, piece, Ok(()));
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
