//! A gateway node that falls silent and is heard again.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use lapwing_links::nats::{Subscription, SubscriptionOptions};
use lapwing_proto::{
    Message as _,
    bus::{Done, GatewayHeartbeat, NodeReply, NodeRequest, RouterHeartbeat, node_reply, node_request},
};

use crate::bench::{Bench, PARTITIONS};

/// All partitions of the three kinds.
const ALL: usize = 3 * PARTITIONS as usize;
const PATIENCE: Duration = Duration::from_secs(20);

const NODE: &str = "g7";
/// A router's default, and a digest more.
const SILENCE: Duration = Duration::from_millis(6500);

struct Node {
    requests: Subscription,
    asked: HashSet<(String, u32)>,
    announced: HashSet<String>,
}

impl Node {
    async fn beat(bench: &Bench) {
        let beat = GatewayHeartbeat { node: NODE.into(), incarnation: 5, ..GatewayHeartbeat::default() };
        bench.nats.publish("lw.g.hb", &[], beat.encode_to_vec().into()).await.expect("a beat");
    }

    /// Answers each request as a gateway does, beating, until it has heard enough.
    async fn live(&mut self, bench: &Bench, enough: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && !enough(self) {
            Self::beat(bench).await;
            let next = tokio::time::timeout(Duration::from_millis(300), self.requests.next());
            let Ok(Some(message)) = next.await else { continue };
            match NodeRequest::decode(message.payload.clone()).expect("a request").body {
                Some(node_request::Body::InterestQuery(query)) => {
                    let partition = query.partition.expect("a partition");
                    self.asked.insert((partition.topic, partition.partition));
                }
                Some(node_request::Body::Announce(announce)) => self.announced.extend(announce.users),
                other => panic!("{other:?}"),
            }
            let reply = NodeReply { body: Some(node_reply::Body::Done(Done {})) };
            message.respond(reply.encode_to_vec().into()).await.expect("an answer");
        }
    }
}

/// Partitions that begin to be served later are found by a node itself.
async fn all_served(bench: &Bench) {
    let options = SubscriptionOptions::named("test heartbeats");
    let mut beats = bench.nats.subscribe("lw.r.hb", options).await.expect("subscription");
    let served = async {
        while let Some(message) = beats.next().await {
            let beat = RouterHeartbeat::decode(message.payload).expect("a heartbeat");
            if beat.owned.iter().filter(|owned| owned.serving).count() == ALL {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, served).await.expect("every partition is served");
}

// R-FAN-3, R-REL: what a router forgot of a silent node it asks for, and it keeps what it would have said only once.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_heard_again_is_asked_for_its_interest_and_told_who_joined() {
    let bench = Bench::start(1).await;
    all_served(&bench).await;
    let options = SubscriptionOptions::named("test node");
    let requests = bench.nats.subscribe(&format!("lw.g.{NODE}"), options).await.expect("subscription");
    let mut node = Node { requests, asked: HashSet::new(), announced: HashSet::new() };
    node.live(&bench, |node| node.asked.len() == ALL).await;
    assert_eq!(node.asked.len(), ALL, "heard for the first time: {:?}", node.asked);

    node.asked.clear();
    tokio::time::sleep(SILENCE).await;
    bench.p2p("t1", "carol", "dave").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let both = |node: &Node| ["carol", "dave"].iter().all(|user| node.announced.contains(*user));
    assert!(!both(&node), "it was not silent");
    node.live(&bench, |node| node.asked.len() == ALL && both(node)).await;
    assert_eq!(node.asked.len(), ALL, "heard again: {:?}", node.asked);
    assert!(both(&node), "{:?}", node.announced);
}
