//! Retention of the session audit (R-PST-11). Whoever holds the topic's first partition walks along the primary key and deletes
//! what is old, a few rows a statement. No fence: what is too old for one persister is too old for each other one.

use std::{sync::Arc, time::Duration};

use lapwing_model::PartitionId;
use lapwing_persister_core::{retention, side};
use lapwing_runtime::time::now_ms;
use sqlx::AssertSqlSafe;

use crate::{
    db::{self, Borrowed},
    persister::Persister,
};

/// Rows that are looked at by one statement, and at most deleted by the next.
const ROWS: usize = 500;
const LIMIT: Duration = Duration::from_secs(2);
const PACE: Duration = Duration::from_secs(1);
/// Between one walk and the next.
const REST: Duration = Duration::from_secs(600);

pub(crate) async fn run(persister: Arc<Persister>) -> anyhow::Result<()> {
    let stop = persister.context.stopping();
    let first = PartitionId::new(side::AUDIT_TOPIC, 0);
    let mut after = Vec::new();
    let mut pause = PACE;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        pause = PACE;
        let Some(before_ms) = retention::cutoff(now_ms(), persister.config.audit_days) else { continue };
        if !persister.partitions.lock().contains_key(&first) || !retention::may_delete(oldest_ms(&persister))
        {
            continue;
        }
        match db::within(LIMIT, "audit retention", step(&persister, &after, before_ms)).await {
            Ok(Some(last)) => after = last,
            Ok(None) => (after, pause) = (Vec::new(), REST),
            Err(error) => tracing::debug!("audit retention: tried again: {error}"),
        }
    }
}

fn oldest_ms(persister: &Persister) -> u64 {
    let oldest = persister.partitions.lock().values().filter_map(|progress| progress.state().oldest_ms).min();
    oldest.map_or(0, |oldest| now_ms().saturating_sub(oldest))
}

/// One look and one deletion; the last key looked at, None at the end of the table.
async fn step(persister: &Persister, after: &[u8], before_ms: i64) -> Result<Option<Vec<u8>>, sqlx::Error> {
    let mut borrowed = Borrowed::from(&persister.db.control, "control").await?;
    let rows: Vec<(Vec<u8>, i64)> = sqlx::query_as(
        "SELECT session, GREATEST(opened_at_ms, closed_at_ms) FROM session_audit WHERE session > ? ORDER BY session LIMIT ?",
    )
    .bind(after)
    .bind(ROWS as u32)
    .fetch_all(borrowed.get()?)
    .await?;
    let old: Vec<&Vec<u8>> =
        rows.iter().filter(|(_, at)| *at < before_ms).map(|(session, _)| session).collect();
    if !old.is_empty() {
        // Asked again: a session may have been closed in between.
        let statement = format!(
            "DELETE FROM session_audit WHERE session IN ({}) AND GREATEST(opened_at_ms, closed_at_ms) < ?",
            vec!["?"; old.len()].join(",")
        );
        let mut query = sqlx::query(AssertSqlSafe(statement));
        for session in &old {
            query = query.bind(&session[..]);
        }
        let done = query.bind(before_ms).execute(borrowed.get()?).await?;
        metrics::counter!("lapwing_retention_rows_total", "of" => "audit").increment(done.rows_affected());
    }
    borrowed.give_back();
    Ok(rows.last().filter(|_| rows.len() == ROWS).map(|(session, _)| session.clone()))
}
