//! The gateway nodes that are alive, each with its lanes.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_links::nats::SubscriptionOptions;
use lapwing_proto::{Message as _, bus::GatewayHeartbeat};
use lapwing_runtime::OnError;

use crate::{dispatch::Dispatch, lanes::Lanes, router::Router};

pub(crate) struct Nodes {
    router: Arc<Router>,
    nodes: HashMap<String, Node>,
    /// Lanes begun so far, to whichever node.
    begun: u32,
}

struct Node {
    incarnation: u64,
    heard: Instant,
    lanes: Lanes,
}

/// Gateways' heartbeats into the dispatch queue, so that they are seen in order with everything else.
pub(crate) async fn listen(router: &Arc<Router>) -> anyhow::Result<()> {
    let mut beats =
        router.nats.subscribe("lw.g.hb", SubscriptionOptions::named("gateway_heartbeats")).await?;
    let (router, stopping) = (router.clone(), router.context.stopping());
    let tasks = router.context.tasks.clone();
    tasks.spawn("gateway heartbeats", OnError::StopService, async move {
        loop {
            let beat = tokio::select! {
                () = stopping.cancelled() => return,
                beat = beats.next() => beat,
            };
            let Some(beat) = beat else { return };
            if let Ok(beat) = GatewayHeartbeat::decode(beat.payload) {
                router.dispatch.push(Dispatch::NodeHeard(beat));
            }
        }
    });
    Ok(())
}

impl Nodes {
    pub(crate) fn new(router: Arc<Router>) -> Self {
        Self { router, nodes: HashMap::new(), begun: 0 }
    }

    /// True: it started anew, so what it said before counts no more.
    pub(crate) fn heard(&mut self, beat: &GatewayHeartbeat) -> bool {
        let restarted = match self.nodes.get_mut(&beat.node) {
            Some(node) if node.incarnation == beat.incarnation => {
                node.heard = Instant::now();
                return false;
            }
            Some(node) if node.incarnation > beat.incarnation => return false,
            known => known.is_some(),
        };
        if let Some(old) = self.nodes.remove(&beat.node) {
            old.lanes.close();
        }
        let lanes = Lanes::start(&self.router, &beat.node, self.begun);
        self.begun += 1;
        let node = Node { incarnation: beat.incarnation, heard: Instant::now(), lanes };
        tracing::info!(node = beat.node, incarnation = beat.incarnation, "a gateway node is heard");
        self.nodes.insert(beat.node.clone(), node);
        restarted
    }

    /// Removes and names the nodes that have been silent for too long.
    pub(crate) fn expire(&mut self, silent: Duration) -> Vec<String> {
        let gone: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.heard.elapsed() > silent)
            .map(|(name, _)| name.clone())
            .collect();
        for name in &gone {
            tracing::warn!(node = name, "a gateway node is silent; it gets nothing more");
            if let Some(node) = self.nodes.remove(name) {
                node.lanes.close();
            }
        }
        gone
    }

    pub(crate) fn get(&self, node: &str) -> Option<&Lanes> {
        self.nodes.get(node).map(|node| &node.lanes)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Lanes> {
        self.nodes.values().map(|node| &node.lanes)
    }
}
