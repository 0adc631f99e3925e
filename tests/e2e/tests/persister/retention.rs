//! What is old goes, a little at a time.

use std::time::{SystemTime, UNIX_EPOCH};

use lapwing_proto::{Message as _, record::AuditRecord};
use sqlx::AssertSqlSafe;

use crate::{
    feed::TENANT,
    world::{World, within},
};

const DAY_MS: i64 = 24 * 3600 * 1000;

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

async fn sessions(world: &World, name: &str, count: u32, opened_ms: i64, closed_ms: i64) {
    let row =
        |number| format!("('{name}-{number:05}', 't', 'u', 'd', 'g1', '', {opened_ms}, {closed_ms}, 1000)");
    let rows: Vec<_> = (0..count).map(row).collect();
    let statement = format!("INSERT INTO session_audit VALUES {}", rows.join(","));
    sqlx::query(AssertSqlSafe(statement)).execute(&world.sql).await.unwrap();
}

// R-PST-11
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_the_audit_go_after_their_days_and_no_other() {
    let world = World::start(1, &[("LAPWING_AUDIT_DAYS", "30")]).await;
    let persister = world.cluster.persister(0);
    assert!(persister.stop().await);
    let (now, old) = (now_ms(), now_ms() - 31 * DAY_MS);
    sessions(&world, "closed-long-ago", 1200, old - DAY_MS, old).await;
    sessions(&world, "never-closed", 10, old, 0).await;
    sessions(&world, "closed-lately", 7, old - DAY_MS, now - 29 * DAY_MS).await;
    sessions(&world, "open", 5, now, 0).await;
    persister.spawn().unwrap();
    within(40, "1210 are gone", async || world.count("session_audit").await == 12).await;
    assert_eq!(world.count("session_audit WHERE session LIKE 'closed-lately%'").await, 7);
    let metrics = persister.metrics().await.unwrap();
    assert!(metrics.contains("lapwing_retention_rows_total{of=\"audit\"} 1210"), "in all, counted once");
}

// R-PST-11: a login that meets a lock (1205) is written when the lock is gone, and its partition is not stopped by it.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_row_that_is_locked_is_tried_again() {
    let world = World::start(1, &[]).await;
    let opened = AuditRecord {
        session: "s1".into(),
        tenant: TENANT.into(),
        user: "alice".into(),
        opened_at_ms: now_ms() as u64,
        ..AuditRecord::default()
    };
    world.feed.raw("lapwing.audit", 0, &opened.encode_to_vec()).await;
    within(20, "opened", async || world.count("session_audit").await == 1).await;
    let mut lock = world.sql.begin().await.unwrap();
    sqlx::query("SELECT session FROM session_audit FOR UPDATE").execute(&mut *lock).await.unwrap();
    let closed = AuditRecord { closed_at_ms: opened.opened_at_ms + 1, close_code: 1000, ..opened.clone() };
    world.feed.raw("lapwing.audit", 0, &closed.encode_to_vec()).await;
    within(20, "1205 was met", async || {
        let metrics = world.cluster.persister(0).metrics().await.unwrap();
        metrics.lines().any(|line| line.starts_with("lapwing_persist_total{result=\"retry\"}"))
    })
    .await;
    assert_eq!(world.ready(0).await.0, 200);
    lock.rollback().await.unwrap();
    within(20, "closed", async || world.count("session_audit WHERE close_code = 1000").await == 1).await;
    assert_eq!(world.count("dead_letters").await, 0);
}
