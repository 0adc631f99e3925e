//! Who may connect, who is replaced, who is too slow, and how a node goes.

use std::time::{Duration, Instant};

use lapwing_client::{Message, Update};
use lapwing_servers::http;
use serde_json::json;

use crate::{
    socket::Frame,
    world::{self, World, event},
};

// R-AUTH-1, R-GW-9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_connect() {
    let world = World::start(1, &[("LAPWING_HEARTBEAT_MS", "400"), ("LAPWING_USER_CONNECTIONS", "2")]).await;
    let good = world.token("alice").await;
    let mut forged = good.clone();
    forged.replace_range(good.len() - 4.., "AAAA");
    for token in ["", "x.y.z", &forged] {
        let mut socket = world.socket(0).await;
        socket.send(json!({ "id": "1", "connect": { "token": token, "device": "phone" } })).await;
        let error = socket.next().await["error"].clone();
        assert_eq!((&error["code"], &error["name"]), (&json!(401), &json!("unauthenticated")), "{error}");
        assert_eq!(error["traceId"].as_str().map(str::len), Some(32), "{error}");
        assert_eq!(socket.closed().await, 4501);
    }
    let mut socket = world.socket(0).await;
    socket.send(json!({ "id": "1", "connect": { "token": good, "device": "a device" } })).await;
    assert_eq!(socket.next().await["error"]["code"], 400);
    assert_eq!(socket.closed().await, 4502);

    // R-GW-1: a dead client is found within two missed heartbeats.
    let (mut silent, welcome) = world.session(0, "alice", "phone").await;
    assert_eq!(welcome["heartbeatMs"], 400);
    let since = Instant::now();
    assert_eq!(silent.closed().await, 4002);
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());

    // Connections per user.
    let _one = world.session(0, "bob", "d1").await;
    let _two = world.session(0, "bob", "d2").await;
    let mut third = world.socket(0).await;
    let token = world.token("bob").await;
    third.send(json!({ "id": "1", "connect": { "token": token, "device": "d3" } })).await;
    assert_eq!(third.next().await["error"]["name"], "rate_limited");

    // A suspended tenant's sessions end, and it is refused, within 2 s (R-PERM-5).
    let (mut suspended, _) = world.session(0, "carol", "phone").await;
    let path = format!("/v1/tenants/{}/suspend", world::TENANT);
    world.cluster.operator_post(&path, json!({ "suspended": true })).await.expect("suspend");
    let since = Instant::now();
    let end = loop {
        assert!(since.elapsed() < Duration::from_secs(10), "a session of a suspended tenant goes on");
        suspended.send(json!({ "id": "2", "ping": {} })).await;
        match suspended.frame().await {
            Frame::Close(code, _) => break code,
            Frame::End => break 1006,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    assert_eq!(end, 4503);
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    let refused = world.api("POST", "/v1/p2p", &world.key, json!({ "users": ["a", "b"] })).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
}

// R-GW-2: the same device elsewhere takes the session over; nothing is lost or doubled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_takes_its_session_over_and_a_node_drains() {
    let world = World::start(2, &[("LAPWING_DRAIN_SPREAD_MS", "200")]).await;
    let group = world.group("lobby", &["alice", "bob"]).await;
    let (mut here, _) = world.session(0, "alice", "phone").await;
    let (mut other_device, _) = world.session(0, "alice", "laptop").await;
    let (_there, _) = world.session(1, "alice", "phone").await;
    assert_eq!(here.closed().await, 4500, "from another node");
    let (_again, _) = world.session(1, "alice", "phone").await;
    other_device.send(json!({ "id": "9", "ping": {} })).await;
    assert!(other_device.answer(9).await["ok"].is_object(), "another device stays");

    // R-GW-6: sessions are told to move, then closed with a code that says reconnect; a client goes on elsewhere.
    let (bob, mut updates) = world.client(0, "bob", &[]).await;
    let report = bob.publish(&Message::text(&group, "m1", "before")).await;
    let before = report.published().expect("accepted").seq;
    assert_eq!(event(&mut updates, &group).await.seq, before);
    let stopping = world.cluster.gateway(0).stop();
    let told = async {
        let moved = world::update(&mut updates, |update| match update {
            Update::Moved(moved) => Some(moved),
            _ => None,
        });
        assert_eq!(moved.await.url, world.cluster.gateway(1).client_url());
        assert_eq!(other_device.closed().await, 4000);
    };
    tokio::join!(stopping, told);
}

// R-GW-3: a reader that takes nothing is closed with 4001, its memory stays bounded, others get everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_ends_alone() {
    let world = World::start(1, &[("LAPWING_SLOW_READER_MS", "1000"), ("LAPWING_PROFILE", "bench")]).await;
    let group = world.group("busy", &["alice", "bob", "carol"]).await;
    let (mut slow, _) = world.session(0, "carol", "phone").await;
    let (alice, _updates) = world.client(0, "alice", &[]).await;
    let (_bob, mut updates) = world.client(0, "bob", &[]).await;
    let body = "x".repeat(100_000);
    let mut last = 0;
    for i in 0..120 {
        let report = alice.publish(&Message::text(&group, format!("m{i}"), body.clone())).await;
        last = report.published().expect("accepted").seq;
    }
    let mut seq = 0;
    while seq < last {
        let next = event(&mut updates, &group).await.seq;
        assert!(seq == 0 || next == seq + 1, "{next} after {seq}");
        seq = next;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let metrics =
        http::get(&world.cluster.gateway(0).admin_address(), "/metrics").await.expect("metrics").body;
    assert!(metrics.contains("lapwing_gateway_closed_total{reason=\"slow_consumer\"} 1"), "closed as slow");
    let code = slow.closed().await;
    assert!([4001, 1006].contains(&code), "{code}: the close frame only fits if the reader takes something");
}
