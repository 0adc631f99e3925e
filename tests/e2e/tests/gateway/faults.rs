//! What a gateway does while something behind it is away; and history over both of its sources.

use std::time::Duration;

use lapwing_client::{Client, Message, Options as ClientOptions, RetryPolicy, proto};
use serde_json::json;

use crate::world::{self, World, event, text};

fn page(conversation: &str, after: Option<u64>, before: Option<u64>, limit: u32) -> proto::HistoryRequest {
    proto::HistoryRequest {
        conversation: conversation.to_owned(),
        after,
        before,
        limit,
        ..Default::default()
    }
}

async fn seqs(client: &Client, request: proto::HistoryRequest) -> (Vec<u64>, bool) {
    let page = client.history(request).await.expect("history");
    assert!(page.gaps.is_empty(), "{:?}", page.gaps);
    (page.events.iter().map(|event| event.seq).collect(), page.more)
}

// R-PST-9: one history out of MySQL and the hot window; R-SEQ-9: with Redis down accepting and delivery go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_goes_on_over_both_sources_and_without_redis() {
    let world = World::start(1, &[("LAPWING_PROFILE", "bench")]).await;
    let group = world.group("old", &["alice", "bob"]).await;
    let (alice, _updates) = world.client(0, "alice", &[]).await;
    for i in 0..320 {
        let report = alice.publish(&Message::text(&group, format!("m{i}"), format!("{i}"))).await;
        assert!(report.published().is_some(), "{report:?}");
    }
    let head = alice.history(page(&group, None, None, 0)).await.expect("position").head;
    assert_eq!(head, 321, "created and 320 messages");
    // The hot window keeps 200 once they are in MySQL.
    whole(&alice, &group, head).await;
    let before = seqs(&alice, page(&group, None, Some(150), 100)).await;
    assert_eq!(before, ((50..150).collect(), true));
    // A device that was never here resumes from its cursor through all of it.
    let mut options =
        ClientOptions::new(world.cluster.gateway(0).client_url(), world.token("bob").await, "old-phone");
    options.cursors = vec![(group.clone(), 1)];
    let (bob, mut updates) = Client::connect(options).await.expect("connect");
    for seq in 2..=head {
        assert_eq!(event(&mut updates, &group).await.seq, seq);
    }

    // An owner that is new remembers no client_mid from before: first attempts sent around its take-over wait for the window.
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.cluster.redis().kill9().await;
    let report = alice.publish(&Message::text(&group, "without", "redis is down")).await;
    let seq = report.published().expect("accepted without Redis").seq;
    assert_eq!(event(&mut updates, &group).await.seq, seq);
    whole(&bob, &group, seq).await;
    world.cluster.redis().start().await.expect("Redis is back");
    let report = alice.publish(&Message::text(&group, "with", "redis is back")).await;
    let seq = report.published().expect("accepted").seq;
    assert_eq!(event(&mut updates, &group).await.seq, seq);
    whole(&bob, &group, seq).await;
    assert_eq!((bob.counts().holes, bob.counts().duplicates, bob.counts().disconnects), (0, 0, 0));
}

async fn whole(client: &Client, group: &str, head: u64) {
    let (mut all, mut more) = (Vec::new(), true);
    while more {
        let (part, further) = seqs(client, page(group, Some(all.len() as u64), None, 100)).await;
        all.extend(part);
        more = further;
    }
    assert_eq!(all, (1..=head).collect::<Vec<_>>());
}

// R-SEQ-10, R-ACK-2: an owner is killed; publishes in between wait or are retried, none is lost, doubled or out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_owner_and_a_lost_bus_cost_time_only() {
    let world = World::with_routers(1, 2, &[("LAPWING_PROFILE", "bench")]).await;
    let made = world.post("/v1/p2p", json!({ "users": ["alice", "bob"] })).await;
    let p2p = made["conversation"].as_str().expect("conversation").to_owned();
    let (alice, _to_alice) = world.client(0, "alice", &[]).await;
    let (bob, mut to_bob) = world.client(0, "bob", &[]).await;
    let policy =
        RetryPolicy { max_elapsed: Duration::from_secs(60), max_attempts: 100, ..RetryPolicy::default() };
    let sending = async {
        for i in 0..60u64 {
            let message = Message::to_user("bob", format!("m{i}"), format!("{i}"));
            let report = alice.publish_with(&message, policy).await;
            assert!(report.published().is_some(), "{i}: {report:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let faults = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        world.cluster.router(0).kill9().await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        world.cluster.router(0).start().await.expect("router");
        world.cluster.router(1).kill9().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.cluster.nats().kill9().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.cluster.nats().start().await.expect("NATS");
    };
    let reading = async {
        let mut got = Vec::new();
        while got.len() < 60 {
            let event = tokio::time::timeout(Duration::from_secs(60), event(&mut to_bob, &p2p)).await;
            let event = event.expect("an event in time");
            if !text(&event).is_empty() {
                got.push(text(&event).to_owned());
            }
        }
        got
    };
    let ((), (), got) = tokio::join!(sending, faults, reading);
    assert_eq!(got, (0..60).map(|i| i.to_string()).collect::<Vec<_>>());
    assert_eq!((bob.counts().holes, bob.counts().duplicates), (0, 0));
}

// R-ACK-3: the mark of a message comes while its partition has no owner; the next owner tells all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_became_persisted_between_two_owners_is_told() {
    persisted_between_two_owners(false).await;
}

// R-ACK-3: up to where senders were told stands in Redis alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_became_persisted_between_two_owners_is_told_though_redis_was_lost() {
    persisted_between_two_owners(true).await;
}

async fn persisted_between_two_owners(redis_lost: bool) {
    let world = World::with_routers(1, 2, &[("LAPWING_PROFILE", "bench")]).await;
    let group = world.group("receipts", &["alice", "bob"]).await;
    let (alice, mut to_alice) = world.client(0, "alice", &[]).await;
    world.cluster.persister(0).pause().expect("pause");
    let mut message = Message::text(&group, "m1", "tell me");
    message.receipt = true;
    let seq = alice.publish(&message).await.published().expect("accepted").seq;
    // Applied to the view, so that the next owner need not read it again.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for router in [0, 1] {
        world.cluster.router(router).kill9().await;
    }
    world.cluster.persister(0).resume().expect("resume");
    tokio::time::sleep(Duration::from_secs(2)).await;
    if redis_lost {
        world.cluster.redis().command(&["FLUSHALL"]).await.expect("FLUSHALL");
    }
    for router in [0, 1] {
        world.cluster.router(router).start().await.expect("router");
    }
    let persisted = world::update(&mut to_alice, |update| match update {
        lapwing_client::Update::Persisted(persisted) if persisted.seqs.contains(&seq) => Some(persisted),
        _ => None,
    });
    assert!(persisted.await.persisted_seq >= seq);
    let page = alice.history(page(&group, None, None, 0)).await.expect("position");
    assert!(page.persisted_seq >= seq, "{page:?}");
}

// R-ACK-1: a refusal that is not true would end sessions for good. Found by `./dev chaos run power-cut`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_has_not_read_the_tenants_yet_denies_none_of_them() {
    let world = World::start(1, &[]).await;
    let token = world.token("alice").await;
    let (gateway, router, kafka) = (world.cluster.gateway(0), world.cluster.router(0), world.cluster.kafka());
    router.kill9().await;
    gateway.kill9().await;
    kafka.pause().expect("Kafka stands still");
    router.spawn().expect("router");
    gateway.spawn().expect("gateway");
    while gateway.health("/livez").await.ok() != Some(200) || router.health("/livez").await.ok() != Some(200)
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Heartbeats are heard, so that there is a router to ask.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut socket = world.socket(0).await;
    socket.send(json!({ "id": "1", "connect": { "token": token, "device": "phone" } })).await;
    let answer = socket.next().await;
    assert_eq!(answer["error"]["code"], 503, "{answer}");
    let answer =
        world.api("POST", "/v1/groups", &world.key, json!({ "name": "g", "members": ["alice"] })).await;
    assert_eq!(answer.status, 503, "{}", answer.body);

    kafka.resume().expect("Kafka goes on");
    let mut options = ClientOptions::new(gateway.client_url(), token, "phone");
    options.patience = Duration::from_secs(30);
    Client::connect(options).await.expect("connect once the tenants are read");
}
