//! Kills, pauses and outages: nothing is lost, nothing stands twice.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crate::{
    feed::{Owner, created, message},
    world::{World, within},
};

const PARTITIONS: usize = 34;

/// Conversations in several partitions, written on until told to stop; answers how far each came.
async fn write_until(world: &World, stop: &AtomicBool, rooms: &[&str]) -> Vec<(String, u64)> {
    let writing = rooms.iter().map(|room| async move {
        let mut owner: Owner = world.feed.claim(room).await;
        owner.send(created(room, &["alice"])).await;
        let mut seq = 1;
        while !stop.load(Ordering::Relaxed) {
            owner.send_all((seq + 1..=seq + 25).map(|seq| message(room, seq))).await;
            seq += 25;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        ((*room).to_owned(), seq)
    });
    futures::future::join_all(writing).await
}

async fn assert_all(world: &World, rooms: &[(String, u64)], seconds: u64) {
    for (room, last) in rooms {
        world.wait_for_head(room, *last, seconds).await;
    }
    for (room, last) in rooms {
        world.assert_exact(room, *last).await;
    }
    assert_eq!(world.count("dead_letters").await, 0);
}

/// Room names that live in four different partitions.
fn rooms() -> Vec<String> {
    let mut found: Vec<(u32, String)> = Vec::new();
    for i in 0.. {
        let room = format!("grp.fault{i}");
        let key = lapwing_model::ConversationKey::new(crate::feed::TENANT, room.as_str());
        let partition = lapwing_model::PartitionId::of(&key, 8).unwrap().partition;
        if found.iter().all(|(p, _)| *p != partition) {
            found.push((partition, room));
        }
        if found.len() == 4 {
            break;
        }
    }
    found.into_iter().map(|(_, room)| room).collect()
}

// R-PST-2, R-REL
#[tokio::test(flavor = "multi_thread")]
async fn kills_of_both_persisters_in_turn_lose_and_double_nothing() {
    let world = World::start(2, &[]).await;
    let rooms = rooms();
    let rooms: Vec<&str> = rooms.iter().map(String::as_str).collect();
    let stop = AtomicBool::new(false);
    let killing = async {
        for round in 0..8 {
            tokio::time::sleep(Duration::from_millis(700)).await;
            let persister = world.cluster.persister(round % 2);
            persister.kill9().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            persister.spawn().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (written, ()) = tokio::join!(write_until(&world, &stop, &rooms), killing);
    assert_all(&world, &written, 30).await;
}

// R-PST-2: lease + 1 s after a kill; at once after SIGTERM.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_ones_partitions_are_taken_within_lease_and_a_second() {
    let world = World::start(2, &[]).await;
    let both = async || {
        let (one, two) = (world.held_by("p1").await, world.held_by("p2").await);
        one + two == PARTITIONS && one >= 8 && two >= 8
    };
    within(10, "both hold their share", both).await;
    world.cluster.persister(0).kill9().await;
    let took = within(10, "p2 holds all", async || world.held_by("p2").await == PARTITIONS).await;
    assert!(took < Duration::from_millis(4500), "{took:?}");
    eprintln!("after kill -9 all partitions are held again after {took:?}");

    world.cluster.persister(0).start().await.unwrap();
    within(10, "both hold their share again", both).await;
    assert!(world.cluster.persister(1).stop().await);
    let took = within(10, "p1 holds all", async || world.held_by("p1").await == PARTITIONS).await;
    assert!(took < Duration::from_millis(2000), "{took:?}");
    eprintln!("after SIGTERM all partitions are held again after {took:?}");
}

// I7: what waits for the writer when a partition is handed over is read again by the next owner; it is no drop.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_with_a_full_queue_counts_no_drop() {
    let world = World::prepare(2, &[("LAPWING_PACE_ROWS", "200"), ("LAPWING_BATCH_ROWS", "50")]).await;
    world.cluster.persister(0).start().await.unwrap();
    let rooms = rooms();
    for room in &rooms {
        let mut owner = world.feed.claim(room).await;
        owner.send(created(room, &["alice"])).await;
        owner.send_all((2..=600).map(|seq| message(room, seq))).await;
    }
    let metric = async |name: &str| -> f64 {
        let metrics = world.cluster.persister(0).metrics().await.unwrap();
        let line = metrics.lines().find(|line| line.starts_with(&format!("{name}{{queue=\"consume\"}}")));
        line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse().ok()).unwrap_or(0.0)
    };
    within(10, "rows wait", async || metric("lapwing_queue_length").await > 1000.0).await;
    world.cluster.persister(1).start().await.unwrap();
    within(10, "p1 gave half away", async || world.held_by("p1").await <= PARTITIONS / 2 + 1).await;
    assert_eq!(metric("lapwing_queue_drops_total").await, 0.0);
    for room in &rooms {
        world.wait_for_head(room, 600, 60).await;
        world.assert_exact(room, 600).await;
    }
    assert_eq!(metric("lapwing_queue_drops_total").await, 0.0);
}

// R-REL: SIGSTOP of a persister longer than its lease; when it goes on it is a zombie and the fence holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_persister_writes_nothing_when_it_comes_back_late() {
    let world = World::start(2, &[]).await;
    let rooms = rooms();
    let rooms: Vec<&str> = rooms.iter().map(String::as_str).collect();
    let stop = AtomicBool::new(false);
    let pausing = async {
        for round in 0..2 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            world.cluster.persister(round).pause().unwrap();
            tokio::time::sleep(Duration::from_secs(6)).await;
            world.cluster.persister(round).resume().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (written, ()) = tokio::join!(write_until(&world, &stop, &rooms), pausing);
    assert_all(&world, &written, 60).await;
    assert!(world.cluster.persister(0).is_running() && world.cluster.persister(1).is_running());
}

// R-REL, R-PST-4
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_mysql_is_waited_out_without_a_restart() {
    let world = World::start(2, &[]).await;
    let rooms = rooms();
    let rooms: Vec<&str> = rooms.iter().map(String::as_str).collect();
    let pids = [0, 1].map(|index| world.cluster.persister(index).pid());
    let stop = AtomicBool::new(false);
    let breaking = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.cluster.mariadb().stop().await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert_eq!(world.ready(0).await.0, 503, "not ready, and it says so");
        world.cluster.mariadb().start().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.cluster.mariadb().kill9().await;
        world.cluster.mariadb().start().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.cluster.mariadb().pause().unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        world.cluster.mariadb().resume().unwrap();
        stop.store(true, Ordering::Relaxed);
    };
    let (written, ()) = tokio::join!(write_until(&world, &stop, &rooms), breaking);
    assert_all(&world, &written, 40).await;
    assert_eq!(pids, [0, 1].map(|index| world.cluster.persister(index).pid()), "nobody was restarted");
    within(10, "ready again", async || world.ready(0).await.0 == 200).await;
}

// R-PST-4: 1205 rolls back the statement only; the persister ends the whole transaction and tries it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_held_by_another_transaction_commits_no_half_batch() {
    let world = World::start(1, &[]).await;
    let room = "grp.locked";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    world.wait_for_head(room, 1, 20).await;
    let mut lock = world.sql.begin().await.unwrap();
    sqlx::query("SELECT head FROM conversations WHERE conversation = ? FOR UPDATE")
        .bind(room.as_bytes())
        .execute(&mut *lock)
        .await
        .unwrap();
    owner.send_all((2..=100).map(|seq| message(room, seq))).await;
    let retries = async || {
        let metrics = world.cluster.persister(0).metrics().await.unwrap();
        metrics.lines().any(|line| line.starts_with("lapwing_persist_total{result=\"retry\"}"))
    };
    within(20, "1205 was met", retries).await;
    assert_eq!(
        world.rows(room).await.len(),
        1,
        "messages were inserted before the lock was met, and taken back"
    );
    lock.rollback().await.unwrap();
    world.wait_for_head(room, 100, 20).await;
    world.assert_exact(room, 100).await;
}

// R-REL, R-PST-4: error 1040 is waited out, never a dead letter.
#[tokio::test(flavor = "multi_thread")]
async fn exhausted_connections_are_waited_out() {
    let world = World::prepare(1, &[]).await;
    let room = "grp.many";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    owner.send_all((2..=200).map(|seq| message(room, seq))).await;
    world.cluster.start_services().await.unwrap();
    let url = world.cluster.mariadb().url();
    let mut taken = Vec::new();
    while let Ok(connection) = <sqlx::MySqlConnection as sqlx::Connection>::connect(&url).await {
        taken.push(connection);
        assert!(taken.len() < 1000);
    }
    // What the persister has open is killed, and cannot be opened again.
    let ids: Vec<i64> = sqlx::query_scalar(
        "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() ORDER BY id LIMIT 20",
    )
    .fetch_all(&mut taken[0])
    .await
    .unwrap();
    for id in ids {
        let _ = sqlx::query(sqlx::AssertSqlSafe(format!("KILL {id}"))).execute(&mut taken[0]).await;
    }
    while let Ok(connection) = <sqlx::MySqlConnection as sqlx::Connection>::connect(&url).await {
        taken.push(connection);
    }
    owner.send_all((201..=400).map(|seq| message(room, seq))).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    drop(taken);
    world.wait_for_head(room, 400, 20).await;
    world.assert_exact(room, 400).await;
    assert_eq!(world.count("dead_letters").await, 0);
    within(15, "ready again", async || world.ready(0).await.0 == 200).await;
}

// R-PST-1: Kafka away and back.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_kafka_is_read_over() {
    let world = World::start(1, &[]).await;
    let room = "grp.kafka";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    owner.send_all((2..=100).map(|seq| message(room, seq))).await;
    world.cluster.kafka().restart().await.unwrap();
    owner.send_all((101..=200).map(|seq| message(room, seq))).await;
    world.wait_for_head(room, 200, 30).await;
    world.assert_exact(room, 200).await;
    within(15, "ready again", async || world.ready(0).await.0 == 200).await;
}
