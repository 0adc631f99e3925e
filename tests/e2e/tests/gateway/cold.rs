//! Redis is away and the owner is new: nothing is in memory, MySQL has all of it.

use std::time::{Duration, Instant};

use lapwing_client::{Client, Message, Options as ClientOptions, proto};
use serde_json::json;

use crate::world::{World, event};

fn page(conversation: &str, after: u64, limit: u32) -> proto::HistoryRequest {
    proto::HistoryRequest {
        conversation: conversation.to_owned(),
        after: Some(after),
        limit,
        ..Default::default()
    }
}

/// The owner is new: until it serves, and until MySQL is where its memory begins, the answer is `not_ready`.
async fn history(client: &Client, conversation: &str) -> proto::HistoryPage {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match client.history(page(conversation, 0, 100)).await {
            Ok(page) => return page,
            Err(error) if Instant::now() > end => panic!("{error:?}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

fn seqs(page: &proto::HistoryPage) -> Vec<u64> {
    page.events.iter().map(|event| event.seq).collect()
}

// R-SEQ-9, R-ACK-5, I6, I9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_redis_away_and_a_new_owner_nothing_looks_empty_and_writing_goes_on() {
    let world = World::start(1, &[("LAPWING_PROFILE", "bench")]).await;
    let group = world.group("old", &["alice", "bob"]).await;
    let (alice, mut updates) = world.client(0, "alice", &[]).await;
    for i in 0..20 {
        let report = alice.publish(&Message::text(&group, format!("m{i}"), format!("{i}"))).await;
        assert!(report.published().is_some(), "{report:?}");
    }
    while alice.history(page(&group, 0, 0)).await.expect("position").persisted_seq < 21 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.cluster.redis().kill9().await;
    world.cluster.router(0).kill9().await;
    world.cluster.router(0).spawn().expect("router");

    let before = history(&alice, &group).await;
    assert_eq!((seqs(&before), before.head), ((1..=21).collect(), 21));
    // First attempts around a take-over wait for the window, which is away.
    tokio::time::sleep(Duration::from_millis(6500)).await;
    let report = alice.publish(&Message::text(&group, "cold", "nobody remembers this group")).await;
    assert_eq!(report.published().expect("accepted without Redis").seq, 22);
    while event(&mut updates, &group).await.seq != 22 {}
    let after = history(&alice, &group).await;
    assert_eq!((seqs(&after), after.head), ((1..=22).collect(), 22));

    let mut socket = world.socket(0).await;
    let token = world.token("bob").await;
    socket.send(json!({ "id": "1", "connect": { "token": token, "device": "phone" } })).await;
    let answer = socket.next().await;
    assert_eq!((&answer["error"]["code"], &answer["error"]["name"]), (&json!(503), &json!("not_ready")));

    world.cluster.redis().start().await.expect("Redis is back");
    let mut options = ClientOptions::new(world.cluster.gateway(0).client_url(), token, "phone");
    options.cursors = vec![(group.clone(), 1)];
    options.patience = Duration::from_secs(30);
    let (bob, mut to_bob) = Client::connect(options).await.expect("connect");
    for seq in 2..=22 {
        assert_eq!(event(&mut to_bob, &group).await.seq, seq);
    }
    let report = bob.publish(&Message::text(&group, "warm", "Redis is back")).await;
    assert_eq!(report.published().expect("accepted").seq, 23);
    assert_eq!(event(&mut to_bob, &group).await.seq, 23);
    assert_eq!((bob.counts().holes, bob.counts().duplicates), (0, 0));
    assert_eq!((alice.counts().holes, alice.counts().duplicates), (0, 0));
}
