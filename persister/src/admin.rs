//! Operators' view: who holds which partition, and how far it is. And the gauges of each second.

use std::{sync::Arc, time::Duration};

use lapwing_runtime::{metrics as names, time::now_ms};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    db::{self, Borrowed, Db},
    lease,
    partition::End,
    persister::Persister,
};

mod placement;

pub(crate) fn routes(persister: &Arc<Persister>) {
    let shared = persister.clone();
    persister.context.admin.route("GET", "/admin/partitions", move |_| {
        let persister = shared.clone();
        async move { Ok(partitions(&persister).await?) }
    });
    placement::routes(persister);
}

async fn partitions(persister: &Persister) -> anyhow::Result<serde_json::Value> {
    let reading = async {
        let mut borrowed = Borrowed::from(&persister.db.control, "control").await?;
        let rows = lease::rows(borrowed.get()?).await?;
        borrowed.give_back();
        Ok(rows)
    };
    let rows = db::within(persister.config.mysql_timeout(), "partitions", reading).await?;
    let held = persister.partitions.lock().clone();
    let shown: Vec<_> = rows
        .into_iter()
        .map(|row| {
            let of_it = held.iter().filter(|((partition, _), _)| *partition == row.lease.partition);
            let units: Vec<_> = of_it.map(|(_, progress)| progress.state()).collect();
            let broken = units.iter().find_map(|state| match &state.end {
                Some(End::Broken(why)) => Some(why.clone()),
                _ => None,
            });
            json!({
                "topic": &*row.lease.partition.topic,
                "partition": row.lease.partition.partition,
                "lease_owner": row.lease.owner,
                "lease_epoch": row.lease.epoch,
                "lease_expired": row.lease.expired,
                "position": {
                    "offset": row.position.offset,
                    "epoch": row.position.epoch,
                    "index": row.position.index,
                },
                "held_here": !units.is_empty(),
                // Known only where it is held.
                "lag": units.iter().map(|state| state.lag()).max(),
                "high_watermark": units.iter().map(|state| state.high).max(),
                "stopped": broken,
            })
        })
        .collect();
    Ok(json!({ "persister": persister.context.node(), "partitions": shown }))
}

/// Pools, lag and the age of the oldest record that is not in MySQL.
pub(crate) async fn report(persister: Arc<Persister>, stop: CancellationToken) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = second.tick() => {}
        }
        persister.dbs.iter().for_each(Db::report);
        let states: Vec<_> = persister.partitions.lock().values().map(|progress| progress.state()).collect();
        let lag: u64 = states.iter().map(|state| state.lag()).sum();
        let oldest = states.iter().filter_map(|state| state.oldest_ms).min();
        let age_ms = oldest.map_or(0, |oldest| now_ms().saturating_sub(oldest));
        let broken = states.iter().filter(|state| matches!(state.end, Some(End::Broken(_)))).count();
        metrics::gauge!(names::PERSIST_LAG).set(lag as f64);
        metrics::gauge!(names::BACKLOG_OLDEST_SECONDS).set(age_ms as f64 / 1000.0);
        metrics::gauge!("lapwing_partitions_stopped").set(broken as f64);
    }
}
