//! A gateway node that falls silent and is heard again.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use lapwing_links::nats::{Subscription, SubscriptionOptions};
use lapwing_proto::{
    Message as _,
    bus::{Announce, Done, GatewayHeartbeat, NodeReply, NodeRequest, node_reply, node_request},
};

use crate::bench::{Bench, PARTITIONS};

const NODE: &str = "g7";
/// A router's default, and a digest more.
const SILENCE: Duration = Duration::from_millis(6500);

struct Node {
    requests: Subscription,
    asked: HashSet<(String, u32)>,
    announced: Vec<Announce>,
}

impl Node {
    async fn beat(bench: &Bench) {
        let beat = GatewayHeartbeat { node: NODE.into(), incarnation: 5, ..GatewayHeartbeat::default() };
        bench.nats.publish("lw.g.hb", &[], beat.encode_to_vec().into()).await.expect("a beat");
    }

    /// Answers each request as a gateway does, beating, for so long.
    async fn live(&mut self, bench: &Bench, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            Self::beat(bench).await;
            let next = tokio::time::timeout(Duration::from_millis(300), self.requests.next());
            let Ok(Some(message)) = next.await else { continue };
            match NodeRequest::decode(message.payload.clone()).expect("a request").body {
                Some(node_request::Body::InterestQuery(query)) => {
                    let partition = query.partition.expect("a partition");
                    self.asked.insert((partition.topic, partition.partition));
                }
                Some(node_request::Body::Announce(announce)) => self.announced.push(announce),
                other => panic!("{other:?}"),
            }
            let reply = NodeReply { body: Some(node_reply::Body::Done(Done {})) };
            message.respond(reply.encode_to_vec().into()).await.expect("an answer");
        }
    }
}

// R-FAN-3, R-REL: what a router forgot of a silent node it asks for, and it keeps what it would have said only once.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_heard_again_is_asked_for_its_interest_and_told_who_joined() {
    let bench = Bench::start(1).await;
    bench.p2p("t1", "alice", "bob").await;
    let options = SubscriptionOptions::named("test node");
    let requests = bench.nats.subscribe(&format!("lw.g.{NODE}"), options).await.expect("subscription");
    let mut node = Node { requests, asked: HashSet::new(), announced: Vec::new() };
    node.live(&bench, Duration::from_secs(1)).await;
    let all = (3 * PARTITIONS) as usize;
    assert_eq!(node.asked.len(), all, "heard for the first time: {:?}", node.asked);

    node.asked.clear();
    tokio::time::sleep(SILENCE).await;
    bench.p2p("t1", "carol", "dave").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    node.announced.clear();
    node.live(&bench, Duration::from_secs(2)).await;
    assert_eq!(node.asked.len(), all, "heard again: {:?}", node.asked);
    let users: HashSet<_> = node.announced.iter().flat_map(|announce| announce.users.clone()).collect();
    assert!(users.contains("carol") && users.contains("dave"), "{:?}", node.announced);
}
