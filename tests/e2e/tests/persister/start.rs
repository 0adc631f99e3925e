//! What keeps a persister from starting, or from being ready.

use lapwing_servers::http;

use crate::{
    feed::{created, message},
    world::{World, within},
};

// R-PST-6
#[tokio::test(flavor = "multi_thread")]
async fn a_column_of_another_type_is_named_and_not_written_to() {
    let world = World::start(1, &[]).await;
    let persister = world.cluster.persister(0);
    assert!(persister.stop().await, "ends by itself on SIGTERM");
    assert!(world.leases().await.iter().all(|(owner, _)| owner.is_empty()), "leases are released");
    let alter = async |column: &str, kind: &str| {
        let statement = format!("ALTER TABLE messages_03 MODIFY {column} {kind} NOT NULL");
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&world.sql).await.unwrap();
    };
    for column in ["n", "seq"] {
        alter(column, "INT").await;
    }
    persister.spawn().unwrap();
    let wrong = |column: &str| {
        format!("table messages_03, column {column}: found INT(11) NOT NULL, expected BIGINT NOT NULL")
    };
    within(20, "not ready, with table, column, found and expected", async || {
        let (status, body) = world.ready(0).await;
        status == 503 && body.contains(&wrong("n")) && body.contains(&wrong("seq"))
    })
    .await;
    assert_eq!(world.held_by("p1").await, 0);
    for column in ["n", "seq"] {
        alter(column, "BIGINT").await;
    }
    within(20, "ready again", async || world.ready(0).await.0 == 200).await;
}

// R-PST-7
#[tokio::test(flavor = "multi_thread")]
async fn over_the_connection_budget_it_does_not_start() {
    let world = World::prepare(1, &[("LAPWING_WRITE_POOL", "140")]).await;
    let error = world.cluster.persister(0).start().await.unwrap_err().to_string();
    assert!(error.contains("connection budget") && error.contains("136 are allowed"), "{error}");
}

// I3: an offset that the log does not have is an alarm and a stop, never a jump; other partitions go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_the_log_does_not_have_stops_its_partition_alone() {
    let world = World::start(1, &[]).await;
    let persister = world.cluster.persister(0);
    persister.stop().await;
    let room = "grp.lost";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    sqlx::query("UPDATE partition_offsets SET next_offset = 10000 WHERE topic = ? AND `partition` = ?")
        .bind(owner.at.topic.as_bytes())
        .bind(owner.at.partition)
        .execute(&world.sql)
        .await
        .unwrap();
    persister.spawn().unwrap();
    within(20, "not ready, naming the partition", async || {
        let (status, body) = world.ready(0).await;
        status == 503 && body.contains(&format!("{}: offset 10000 is not in the log", owner.at))
    })
    .await;
    let mut other = "p2p.elsewhere".to_owned();
    other.push_str(&"x".repeat(19));
    let mut elsewhere = world.feed.claim(&other).await;
    elsewhere.send(created(&other, &["alice"])).await;
    elsewhere.send(message(&other, 2)).await;
    world.wait_for_head(&other, 2, 20).await;
    assert_eq!(world.head(room).await, 0);

    let address = persister.admin_address();
    let refused = http::request(&address, "GET", "/admin/partitions", None, None).await.unwrap();
    assert_eq!(refused.status, 401, "the operator key is needed: {}", refused.body);
    let key = Some(world.cluster.operator_key());
    let answer =
        http::request(&address, "GET", "/admin/partitions", key, None).await.unwrap().json().unwrap();
    let partitions = answer["partitions"].as_array().unwrap();
    assert_eq!(partitions.len(), 34);
    let shown = |topic: &str, number: u32| {
        partitions.iter().find(|p| p["topic"] == topic && p["partition"] == number).unwrap().clone()
    };
    let stopped = shown(&owner.at.topic, owner.at.partition);
    assert!(stopped["stopped"].as_str().unwrap().contains("10000"), "{stopped}");
    let well = shown(&elsewhere.at.topic, elsewhere.at.partition);
    assert_eq!(
        (&well["lease_owner"], &well["lag"], &well["position"]["index"]),
        (&"p1".into(), &0.into(), &2.into())
    );
}

// R-REL: the database needs the persister, the persister does not need NATS to write.
#[tokio::test(flavor = "multi_thread")]
async fn it_writes_while_nats_is_away() {
    let world = World::prepare(1, &[]).await;
    world.cluster.nats().stop().await;
    world.cluster.persister(0).spawn().unwrap();
    let room = "grp.quiet";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    within(30, "stored without NATS", async || {
        sqlx::query("SELECT 1 FROM conversations").execute(&world.sql).await.is_ok()
            && world.head(room).await == 1
    })
    .await;
    assert_eq!(world.ready(0).await.0, 503);
    world.cluster.nats().start().await.unwrap();
    within(20, "ready", async || world.ready(0).await.0 == 200).await;
}
