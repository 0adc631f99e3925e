//! The gateway nodes that are alive, each with its lanes.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_links::nats::SubscriptionOptions;
use lapwing_model::ConversationKey;
use lapwing_proto::{
    Message as _,
    bus::{self, GatewayHeartbeat},
};
use lapwing_router_core::aside::Aside;
use lapwing_runtime::{OnError, metrics};

use crate::{
    dispatch::Dispatch,
    lanes::{self, Lanes},
    router::Router,
};

pub(crate) struct Nodes {
    router: Arc<Router>,
    nodes: HashMap<String, Node>,
    silent: HashMap<String, Silent>,
    /// Lanes begun so far, to whichever node.
    begun: u32,
}

struct Node {
    incarnation: u64,
    since: Instant,
    heard: Instant,
    lanes: Lanes,
}

/// It may have stood still, or the bus did, with its sessions alive. Events come back by their seq, receipts and announcements
/// only from here.
struct Silent {
    incarnation: u64,
    since: Instant,
    receipts: Aside,
    announcements: VecDeque<bus::Announce>,
}

/// Then its sessions are gone, too, or will read `persisted_seq`.
const GIVEN_UP: Duration = Duration::from_secs(60);
/// Messages whose receipts wait for one silent node.
const RECEIPTS: usize = 65_536;
/// So long after it was heard (again) a node may not have said yet what it wants.
const YOUNG: Duration = Duration::from_secs(5);

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
        Self { router, nodes: HashMap::new(), silent: HashMap::new(), begun: 0 }
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
            // The sessions that it was for ended with the process.
            let _ = old.lanes.close();
        }
        let lanes = Lanes::start(&self.router, &beat.node, self.begun);
        self.begun += 1;
        let silent = self.silent.remove(&beat.node).filter(|silent| silent.incarnation == beat.incarnation);
        if let Some(mut silent) = silent {
            let receipts = silent.receipts.take(usize::MAX);
            receipts.into_iter().for_each(|(key, receipt)| lanes.push_receipt(&key, receipt));
            silent.announcements.into_iter().for_each(|announce| lanes.announce(announce));
        }
        let now = Instant::now();
        let node = Node { incarnation: beat.incarnation, since: now, heard: now, lanes };
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
            let Some(node) = self.nodes.remove(name) else { continue };
            let mut receipts = Aside::new(RECEIPTS);
            let untold = node.lanes.close();
            for (key, receipt) in untold.receipts {
                keep(name, &mut receipts, key, receipt);
            }
            let announcements = untold.announcements;
            let silent =
                Silent { incarnation: node.incarnation, since: Instant::now(), receipts, announcements };
            self.silent.insert(name.clone(), silent);
        }
        self.silent.retain(|_, silent| silent.since.elapsed() < GIVEN_UP);
        gone
    }

    /// To those who want the conversation, may want it, or cannot say now.
    pub(crate) fn tell(
        &mut self,
        key: &ConversationKey,
        receipt: &bus::Receipt,
        wanted: impl Fn(&str) -> bool,
    ) {
        for (name, node) in &self.nodes {
            if wanted(name) || node.since.elapsed() < YOUNG {
                node.lanes.push_receipt(key, receipt.clone());
            }
        }
        for (name, silent) in &mut self.silent {
            keep(name, &mut silent.receipts, key.clone(), receipt.clone());
        }
    }

    pub(crate) fn get(&self, node: &str) -> Option<&Lanes> {
        self.nodes.get(node).map(|node| &node.lanes)
    }

    /// To all, and to those who are silent when they are heard again.
    pub(crate) fn announce(&mut self, announce: &bus::Announce) {
        self.nodes.values().for_each(|node| node.lanes.announce(announce.clone()));
        for (name, silent) in &mut self.silent {
            lanes::keep_announcement(name, &mut silent.announcements, announce.clone());
        }
    }
}

fn keep(node: &str, receipts: &mut Aside, key: ConversationKey, receipt: bus::Receipt) {
    let conversation = key.conversation.clone();
    if !receipts.put(key, receipt) {
        ::metrics::counter!(metrics::ENQUEUE_TOTAL, "queue" => "silent_node", "result" => "full")
            .increment(1);
        tracing::debug!(node, %conversation, "a receipt for a silent node found no room");
    }
}
