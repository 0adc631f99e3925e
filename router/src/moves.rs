//! A partition's commit view goes to another Redis instance while it is used (R-SEQ-3): filled there like a view that was lost,
//! then a mark where it was. Whatever dies in between, one of the two instances has it whole, and the next owner sees which.

use std::{sync::Arc, time::Duration};

use lapwing_model::PartitionId;
use lapwing_views::{Applied, Expect, Piece, Section, ViewError};
use tokio::sync::mpsc;

use crate::{router::Router, sequence::Event};

const LOOK: Duration = Duration::from_millis(50);
/// The new one may be this many offsets behind when it takes over: cold loads wait until it is there.
const NEAR: u64 = 1000;
const LEAVE_TRIES: usize = 200;

pub(crate) async fn run(
    router: Arc<Router>,
    id: PartitionId,
    (from, to): (usize, usize),
    events: mpsc::Sender<Event>,
) {
    let name = |instance: usize| router.views.places().redis(instance).instance().to_owned();
    match moved(&router, &id, from, to, &events).await {
        Ok(()) => {
            tracing::info!(partition = %id, from = name(from), to = name(to), "the commit view was moved");
            let _stepped_down = events.send(Event::MoveDone { from, to }).await;
            match router.views.sweep(&id, from).await {
                Ok(keys) => {
                    tracing::info!(partition = %id, instance = name(from), keys, "swept what was left there")
                }
                Err(error) => {
                    tracing::warn!(partition = %id, instance = name(from), %error, "not swept whole")
                }
            }
        }
        Err(error) => {
            tracing::warn!(partition = %id, to = name(to), %error, "the commit view was not moved; ask again");
            let _stepped_down = events.send(Event::MoveFailed { to }).await;
        }
    }
}

async fn moved(
    router: &Router,
    id: &PartitionId,
    from: usize,
    to: usize,
    events: &mpsc::Sender<Event>,
) -> Result<(), ViewError> {
    router.views.clear(id, to).await?;
    let _stepped_down = events.send(Event::MoveReady { to }).await;
    while !near(router, id, from, to) {
        tokio::time::sleep(LOOK).await;
    }
    let version = router.views.found(id, from).await?.placed.unwrap_or(0) + 1;
    router.views.set_placed(id, to, version).await?;
    leave(router, id, from, to).await
}

fn near(router: &Router, id: &PartitionId, from: usize, to: usize) -> bool {
    let at = |instance| router.apply.reached(id, instance).map(|at| at.offset);
    at(to).is_some_and(|reached| reached + NEAR >= at(from).unwrap_or(0))
}

/// The owner goes on writing where it was until the mark stands, so the mark has to hit a moment between two batches.
async fn leave(router: &Router, id: &PartitionId, from: usize, to: usize) -> Result<(), ViewError> {
    let piece = Piece::commit(from);
    let name = router.views.places().redis(to).instance().to_owned();
    for _ in 0..LEAVE_TRIES {
        let Some(at) = router.views.stands(id, piece).await? else { return Ok(()) };
        let mark = Section::new(id, piece, Expect::Leave(at, name.clone()), Vec::new());
        match router.views.apply(from, &[mark]).await?.first() {
            Some(Applied::Ok | Applied::Moved(_)) => return Ok(()),
            _ => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
    Err(ViewError::NotReady(format!("{id}: never at rest long enough for the mark; its view")))
}
