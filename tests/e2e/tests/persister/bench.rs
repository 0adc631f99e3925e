//! Figures, not verdicts: `cargo test -p lapwing-e2e --test persister -- --ignored --nocapture bench`.

use std::time::{Duration, Instant};

use crate::{
    feed::{Owner, created, message_with},
    world::World,
};

const ROOMS: usize = 200;

async fn owners(world: &World) -> Vec<(String, Owner)> {
    // One owner a partition: a claim voids what an earlier one of its partition would write.
    let mut owners: Vec<(String, Owner)> = Vec::new();
    for i in 0.. {
        let room = format!("grp.bench{i}");
        let key = lapwing_model::ConversationKey::new(crate::feed::TENANT, room.as_str());
        let at = lapwing_model::PartitionId::of(&key, 8).unwrap();
        if owners.iter().all(|(_, owner)| owner.at != at) {
            owners.push((room.clone(), world.feed.claim(&room).await));
        }
        if owners.len() == 8 {
            break;
        }
    }
    owners
}

/// Rooms of an owner's partition.
fn rooms(owner: &Owner) -> Vec<String> {
    let all = (0..).map(|i| format!("grp.bench{i}"));
    let here = |room: &String| {
        let key = lapwing_model::ConversationKey::new(crate::feed::TENANT, room.as_str());
        lapwing_model::PartitionId::of(&key, 8).unwrap() == owner.at
    };
    all.filter(here).take(ROOMS / 8).collect()
}

/// CPU seconds that a process has used.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

async fn stored(world: &World) -> i64 {
    sqlx::query_scalar("SELECT CAST(COALESCE(SUM(head), 0) AS SIGNED) FROM conversations")
        .fetch_one(&world.sql)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn a_backlog_is_caught_up() {
    let world = World::prepare(1, &[("LAPWING_PROFILE", "bench")]).await;
    let text = "x".repeat(200);
    let mut sent = 0;
    for (_, mut owner) in owners(&world).await {
        for room in rooms(&owner) {
            owner.send(created(&room, &["alice", "bob"])).await;
            owner.send_all((2..=500).map(|seq| message_with(&room, seq, seq - 1, "alice", &text))).await;
            sent += 500;
        }
    }
    world.cluster.start_services().await.unwrap();
    let start = Instant::now();
    while stored(&world).await < sent {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = start.elapsed().as_secs_f64();
    let cpu = cpu(world.cluster.persister(0).pid().unwrap());
    eprintln!("{sent} rows of 200 B in {took:.2} s: {:.0} rows/s, {cpu:.2} s of CPU", sent as f64 / took);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn a_steady_thousand_a_second() {
    let world = World::start(2, &[("LAPWING_PROFILE", "bench")]).await;
    let text = "x".repeat(200);
    let mut all: Vec<(Owner, Vec<String>)> = Vec::new();
    for (_, mut owner) in owners(&world).await {
        let rooms = rooms(&owner);
        for room in &rooms {
            owner.send(created(room, &["alice", "bob"])).await;
        }
        all.push((owner, rooms));
    }
    let pids = [0, 1].map(|index| world.cluster.persister(index).pid().unwrap());
    let mariadb = world.cluster.mariadb().pid().unwrap();
    let used = || (pids.map(cpu).iter().sum::<f64>(), cpu(mariadb));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = used();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = used();
    let idle = ((before.0 - idle.0) / 5.0, (before.1 - idle.1) / 5.0);
    let start = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_millis(40));
    let mut sent = ROOMS as i64;
    for round in 0..250u64 {
        tick.tick().await;
        for (owner, rooms) in &mut all {
            let seq = 2 + round / 5;
            let part = (round % 5) as usize * 5;
            let here: Vec<_> = rooms[part..part + 5].to_vec();
            owner.send_all(here.iter().map(|room| message_with(room, seq, seq - 1, "alice", &text))).await;
            sent += 5;
        }
    }
    let took = start.elapsed().as_secs_f64();
    let sending = Instant::now();
    while stored(&world).await < sent {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let after = used();
    eprintln!(
        "idle: persisters {:.3}, MariaDB {:.3} CPU; {:.0} rows/s: persisters {:.3}, MariaDB {:.3} CPU; last row {:?} after the last send",
        idle.0,
        idle.1,
        (sent - ROOMS as i64) as f64 / took,
        (after.0 - before.0) / took,
        (after.1 - before.1) / took,
        sending.elapsed(),
    );
}
