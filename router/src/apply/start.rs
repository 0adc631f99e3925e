//! Where an owner starts: the views' positions, read before the claim is appended (R-SEQ-6).

use std::{sync::Arc, time::Duration};

use lapwing_links::kafka::PartitionReader;
use lapwing_model::{PartitionId, Position};
use lapwing_runtime::Tasks;
use lapwing_views::{Piece, ViewError};

use crate::{rebuild, router::Router};

/// The fold's position, and where each piece of the views is believed to be; the commit view first.
pub(crate) struct Start {
    pub(crate) from: Position,
    pub(crate) pieces: Vec<(Piece, Position)>,
    /// Up to where the owners before told the senders what is persisted.
    pub(crate) told: Option<Position>,
}

const PAUSE: Duration = Duration::from_millis(500);

/// With Redis down: from where MySQL is, if that is known. None: stopped meanwhile.
pub(crate) async fn positions(router: &Arc<Router>, id: &PartitionId, tasks: &Tasks) -> Option<Start> {
    let stopping = tasks.stopping();
    loop {
        let persisted = router.persisted.lock().get(id).copied();
        match stored(router, id).await {
            Ok(found) => {
                let start = start_at(router, id, found, persisted).await;
                if let Some(start) = still_there(router, id, start).await {
                    return Some(start);
                }
            }
            Err(error) => {
                let known = match persisted {
                    Some(at) => Some(at),
                    None => rebuild::persisted(router, id).await,
                };
                if let Some(at) = known {
                    tracing::warn!(partition = %id, %error, "takes over without Redis, from MySQL's position");
                    let pieces = router.views.places().pieces(id).into_iter().map(|piece| (piece, at));
                    return Some(Start { from: at, pieces: pieces.collect(), told: None });
                }
                tracing::warn!(partition = %id, %error, "cannot take over: neither Redis nor MySQL says from where");
            }
        }
        tokio::select! {
            () = stopping.cancelled() => return None,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// What each piece has stored. An instance of the user views that is silent does not keep the partition from being served.
async fn stored(router: &Router, id: &PartitionId) -> Result<Vec<(Piece, Option<Position>)>, ViewError> {
    let views = &router.views;
    let instance = views.settle(id).await?;
    views.places().moved(id, instance);
    let mut found: Vec<(Piece, Option<Position>)> = Vec::new();
    for piece in views.places().pieces(id) {
        let at = match views.stands(id, piece).await {
            Err(error) if !found.is_empty() => {
                let name = views.places().redis(piece.instance).instance();
                tracing::warn!(partition = %id, instance = name, %error, "a user view does not say where it is");
                found[0].1
            }
            at => at?,
        };
        found.push((piece, at));
    }
    Ok(found)
}

async fn start_at(
    router: &Router,
    id: &PartitionId,
    found: Vec<(Piece, Option<Position>)>,
    persisted: Option<Position>,
) -> Start {
    let empty = found.iter().any(|(_, at)| at.is_none());
    // A view that has nothing is rebuilt up to where the fold begins.
    let of_empty = match empty {
        true => rebuild::persisted(router, id).await.or(persisted).unwrap_or_default(),
        false => Position::default(),
    };
    let pieces: Vec<_> = found.into_iter().map(|(piece, at)| (piece, at.unwrap_or(of_empty))).collect();
    let lowest = pieces.iter().map(|(_, at)| *at).min_by_key(|at| at.offset).unwrap_or_default();
    let instance = router.views.places().commit(id);
    let told = router.views.told(id, instance).await.unwrap_or_default();
    Start { from: lowest, pieces, told }
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
