//! What keeps a persister from starting, or from being ready.

use crate::world::{World, within};

// R-PST-6
#[tokio::test(flavor = "multi_thread")]
async fn a_column_of_another_type_is_named_and_not_written_to() {
    let world = World::start(1, &[]).await;
    let persister = world.cluster.persister(0);
    assert!(persister.stop().await, "ends by itself on SIGTERM");
    assert!(world.leases().await.iter().all(|(owner, _)| owner.is_empty()), "leases are released");
    sqlx::query("ALTER TABLE messages_03 MODIFY n INT NOT NULL").execute(&world.sql).await.unwrap();
    persister.spawn().unwrap();
    let expected = "table messages_03, column n: found INT(11) NOT NULL, expected BIGINT NOT NULL";
    within(20, expected, async || {
        let (status, body) = world.ready(0).await;
        status == 503 && body.contains(expected)
    })
    .await;
    assert_eq!(world.held_by("p1").await, 0);
    sqlx::query("ALTER TABLE messages_03 MODIFY n BIGINT NOT NULL").execute(&world.sql).await.unwrap();
    within(20, "ready again", async || world.ready(0).await.0 == 200).await;
}

// R-PST-7
#[tokio::test(flavor = "multi_thread")]
async fn over_the_connection_budget_it_does_not_start() {
    let world = World::prepare(1, &[("LAPWING_WRITE_POOL", "140")]).await;
    let error = world.cluster.persister(0).start().await.unwrap_err().to_string();
    assert!(error.contains("connection budget") && error.contains("136 are allowed"), "{error}");
}
