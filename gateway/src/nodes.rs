//! The gateways as they hear each other: heartbeats, the list of `/v1/nodes`, the number of live ones.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use lapwing_proto::{Message as _, bus::GatewayHeartbeat};
use parking_lot::Mutex;
use serde::Serialize;

use crate::gateway::Gateway;

pub const HEARTBEATS: &str = "lw.g.hb";
const PERIOD: Duration = Duration::from_millis(500);
const SILENT: Duration = Duration::from_secs(3);
/// A node that fell silent is still listed for so long when nobody else is there.
const SNAPSHOT: Duration = Duration::from_secs(90);

struct Node {
    url: String,
    sessions: u32,
    draining: bool,
    incarnation: u64,
    heard: Instant,
}

#[derive(Default)]
pub struct Nodes {
    nodes: Mutex<HashMap<String, Node>>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    pub url: String,
    pub node: String,
}

impl Nodes {
    pub fn handle_heartbeat(&self, beat: GatewayHeartbeat, now: Instant) {
        let mut nodes = self.nodes.lock();
        if nodes.get(&beat.node).is_some_and(|node| node.incarnation > beat.incarnation) {
            return;
        }
        nodes.retain(|_, node| now.saturating_duration_since(node.heard) < SNAPSHOT);
        let GatewayHeartbeat { node, incarnation, sessions, public_url: url, draining } = beat;
        nodes.insert(node, Node { url, sessions, draining, incarnation, heard: now });
    }

    pub fn live(&self, now: Instant) -> usize {
        let nodes = self.nodes.lock();
        nodes.values().filter(|node| now.saturating_duration_since(node.heard) < SILENT).count()
    }

    /// Least loaded first, draining ones last; always at least `own`.
    pub fn list(&self, own: Listed, now: Instant) -> Vec<Listed> {
        let nodes = self.nodes.lock();
        let mut heard: Vec<_> = nodes
            .iter()
            .map(|(name, node)| {
                let silent = now.saturating_duration_since(node.heard) >= SILENT;
                (silent, node.draining, node.sessions, name)
            })
            .collect();
        heard.sort();
        let usable = heard.iter().filter(|node| !node.0 && !node.1).count();
        let listed = heard.into_iter().take(usable.max(1)).map(|(.., name)| (name, &nodes[name].url));
        let listed: Vec<_> =
            listed.map(|(node, url)| Listed { url: url.clone(), node: node.clone() }).collect();
        if listed.is_empty() { vec![own] } else { listed }
    }

    /// Where a session of this node can go.
    pub fn other(&self, own: &str, turn: usize, now: Instant) -> Option<String> {
        let nodes = self.nodes.lock();
        let mut others: Vec<_> = nodes
            .iter()
            .filter(|(name, node)| {
                *name != own && !node.draining && now.saturating_duration_since(node.heard) < SILENT
            })
            .map(|(_, node)| &node.url)
            .collect();
        others.sort();
        (!others.is_empty()).then(|| others[turn % others.len()].clone())
    }
}

pub fn own(gateway: &Gateway) -> Listed {
    Listed { url: gateway.config.public_url(), node: gateway.node.to_string() }
}

pub async fn beat(gateway: Arc<Gateway>) {
    let stop = gateway.tasks.stopping();
    loop {
        let beat = GatewayHeartbeat {
            node: gateway.node.to_string(),
            incarnation: gateway.incarnation,
            sessions: gateway.sessions.count() as u32,
            public_url: gateway.config.public_url(),
            draining: gateway.draining.load(Ordering::Relaxed),
        };
        gateway.nodes.handle_heartbeat(beat.clone(), Instant::now());
        gateway.share.set_gateways(gateway.nodes.live(Instant::now()));
        // Lost ones are made up for by the next.
        let _ = gateway.nats.publish(HEARTBEATS, &[], Bytes::from(beat.encode_to_vec())).await;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(node: &str, sessions: u32, draining: bool) -> GatewayHeartbeat {
        GatewayHeartbeat {
            node: node.into(),
            incarnation: 1,
            sessions,
            public_url: format!("ws://{node}"),
            draining,
        }
    }

    fn names(nodes: &Nodes, now: Instant) -> Vec<String> {
        let own = Listed { url: "ws://self".into(), node: "self".into() };
        nodes.list(own, now).into_iter().map(|listed| listed.node).collect()
    }

    // R-GW-5: always an answer; the least loaded first.
    #[test]
    fn the_list_is_sorted_by_load_and_never_empty() {
        let (nodes, start) = (Nodes::default(), Instant::now());
        assert_eq!(names(&nodes, start), ["self"]);
        for (node, sessions, draining) in [("a", 9, false), ("b", 2, false), ("c", 0, true)] {
            nodes.handle_heartbeat(beat(node, sessions, draining), start);
        }
        assert_eq!(names(&nodes, start), ["b", "a"]);
        assert_eq!(nodes.live(start), 3);
        assert_eq!(nodes.other("b", 0, start), Some("ws://a".into()));
        let late = start + SILENT;
        assert_eq!(names(&nodes, late), ["b"], "the last usable snapshot rather than nothing");
        assert_eq!((nodes.live(late), nodes.other("b", 0, late)), (0, None));
    }
}
