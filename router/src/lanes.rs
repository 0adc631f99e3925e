//! The lanes to one gateway node: 16 by hash of the conversation, each in order, one NATS request in flight (R-FAN-2).

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lapwing_model::ConversationKey;
use lapwing_proto::{
    Message as _,
    bus::{self, deliver_item, node_reply, node_request},
};
use lapwing_router_core::{
    Released,
    lane::{Lane, Limits, Missed},
};
use lapwing_runtime::{OnError, Tasks, metrics, time::mono_ms};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::router::Router;

const LANES: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(1);
/// Announcements waiting for one node.
const ANNOUNCEMENTS: usize = 65_536;
const PATIENCE: Duration = Duration::from_millis(200);

pub(crate) struct Lanes {
    node: Arc<str>,
    lanes: Vec<Arc<Shared>>,
    announcements: Arc<Announcements>,
    tasks: Tasks,
}

struct Shared {
    lane: Mutex<Lane>,
    filled: Notify,
}

#[derive(Default)]
struct Announcements {
    queue: Mutex<VecDeque<bus::Announce>>,
    filled: Notify,
}

/// What comes only once, and a node may not have had.
pub(crate) struct Untold {
    pub(crate) receipts: Vec<(ConversationKey, bus::Receipt)>,
    pub(crate) announcements: VecDeque<bus::Announce>,
}

/// In order, within the bound.
pub(crate) fn keep_announcement(node: &str, queue: &mut VecDeque<bus::Announce>, announce: bus::Announce) {
    if queue.len() < ANNOUNCEMENTS {
        return queue.push_back(announce);
    }
    tracing::error!(
        node,
        conversation = announce.conversation,
        "announcements overflow; users of this node may miss a new conversation until they reconnect"
    );
}

impl Lanes {
    /// `generation`: how often this process has begun lanes to a node before.
    pub(crate) fn start(router: &Arc<Router>, node: &str, generation: u32) -> Self {
        let tasks = router.context.tasks.child();
        let node: Arc<str> = node.into();
        let lanes: Vec<_> = (0..LANES)
            .map(|_| {
                let lane = Lane::new(Limits::default()).numbered_behind(u64::from(generation) << 32);
                Arc::new(Shared { lane: Mutex::new(lane), filled: Notify::new() })
            })
            .collect();
        for (number, lane) in lanes.iter().enumerate() {
            let work = run(router.clone(), node.clone(), number as u32, lane.clone(), tasks.stopping());
            tasks.spawn(format!("lane {node}/{number}"), OnError::Log, work);
        }
        let announcements = Arc::new(Announcements::default());
        let work = announce(router.clone(), node.clone(), announcements.clone(), tasks.stopping());
        tasks.spawn(format!("announce {node}"), OnError::Log, work);
        let work = ask_interest(router.clone(), node.clone(), tasks.stopping());
        tasks.spawn(format!("interest {node}"), OnError::Log, work);
        Self { node, lanes, announcements, tasks }
    }

    pub(crate) fn close(&self) -> Untold {
        self.tasks.stop();
        let receipts = self.lanes.iter().flat_map(|shared| shared.lane.lock().take_receipts()).collect();
        Untold { receipts, announcements: std::mem::take(&mut *self.announcements.queue.lock()) }
    }

    pub(crate) fn push_receipt(&self, key: &ConversationKey, receipt: bus::Receipt) {
        let item = bus::DeliverItem {
            tenant: key.tenant.to_string(),
            conversation: key.conversation.to_string(),
            body: Some(deliver_item::Body::Receipt(receipt)),
            ..bus::DeliverItem::default()
        };
        self.push(key.hash64(), item, None);
    }

    pub(crate) fn push(&self, hash: u64, item: bus::DeliverItem, of: Option<&Arc<Released>>) {
        let shared = &self.lanes[(hash % LANES as u64) as usize];
        let taken = shared.lane.lock().push(item, of.cloned());
        if !taken {
            ::metrics::counter!(metrics::ENQUEUE_TOTAL, "queue" => "lane", "result" => "full").increment(1);
        }
        shared.filled.notify_one();
    }

    pub(crate) fn announce(&self, announce: bus::Announce) {
        keep_announcement(&self.node, &mut self.announcements.queue.lock(), announce);
        self.announcements.filled.notify_one();
    }
}

async fn run(
    router: Arc<Router>,
    node: Arc<str>,
    number: u32,
    shared: Arc<Shared>,
    stop: tokio_util::sync::CancellationToken,
) {
    loop {
        let next = shared.lane.lock().next(mono_ms()).map(|(batch, items)| (batch, items.to_vec()));
        let Some((batch, items)) = next else {
            let retry = shared.lane.lock().retry_at();
            let wait = retry.map_or(Duration::from_secs(1), |at| {
                Duration::from_millis(at.saturating_sub(mono_ms()).max(1))
            });
            tokio::select! {
                () = stop.cancelled() => return,
                () = shared.filled.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
            continue;
        };
        let count = items.len();
        let deliver = bus::Deliver {
            router: router.node().to_owned(),
            incarnation: router.incarnation,
            lane: number,
            batch,
            items,
        };
        let started = Instant::now();
        let answer = ask(&router, &node, node_request::Body::Deliver(deliver)).await;
        let mut lane = shared.lane.lock();
        let missed = match answer {
            Ok(Some(node_reply::Body::Deliver(reply))) => lane.answered(&reply.results, mono_ms()),
            _ => lane.failed(mono_ms()),
        };
        drop(lane);
        let result = if missed.is_empty() { "ok" } else { "missed" };
        metrics::stage("dispatch").kind("lane").since(started).done(result);
        ::metrics::counter!(metrics::ROUTE_TOTAL, "peer" => node.to_string(), "result" => result)
            .increment(count as u64);
        report(&node, &missed);
    }
}

/// R-FAN-3: searchable, never silent; the gateway recovers by seq.
fn report(node: &str, missed: &Missed) {
    for (key, seq) in missed.iter().take(10) {
        tracing::warn!(tenant = %key.tenant, conversation = %key.conversation, seq, node,
            "not delivered; the node is told the head and fetches");
    }
    if missed.len() > 10 {
        tracing::warn!(node, more = missed.len() - 10, "further events were not delivered");
    }
}

async fn announce(
    router: Arc<Router>,
    node: Arc<str>,
    announcements: Arc<Announcements>,
    stop: tokio_util::sync::CancellationToken,
) {
    loop {
        let next = announcements.queue.lock().front().cloned();
        let Some(next) = next else {
            tokio::select! {
                () = stop.cancelled() => return,
                () = announcements.filled.notified() => continue,
            }
        };
        // Until it is acknowledged or the node is gone.
        match ask(&router, &node, node_request::Body::Announce(next)).await {
            Ok(_) => drop(announcements.queue.lock().pop_front()),
            Err(_) => tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PATIENCE) => {}
            },
        }
    }
}

/// A node that is heard, for the first time or again, may want what this router forgot when it was silent, and not know it:
/// it is asked until it has answered for each partition. Later owners are found by the node itself.
async fn ask_interest(router: Arc<Router>, node: Arc<str>, stop: tokio_util::sync::CancellationToken) {
    for partition in router.serving() {
        let query = bus::InterestQuery { partition: Some((&partition).into()) };
        while ask(&router, &node, node_request::Body::InterestQuery(query.clone())).await.is_err() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PATIENCE) => {}
            }
        }
    }
}

async fn ask(
    router: &Router,
    node: &str,
    body: node_request::Body,
) -> Result<Option<node_reply::Body>, String> {
    let request = bus::NodeRequest { body: Some(body) };
    let subject = format!("lw.g.{node}");
    let payload = Bytes::from(request.encode_to_vec());
    let reply =
        router.nats.request(&subject, &[], payload, TIMEOUT).await.map_err(|error| error.to_string())?;
    bus::NodeReply::decode(reply).map(|reply| reply.body).map_err(|error| error.to_string())
}

/// Heads of active conversations; a lost one is repeated within a second.
pub(crate) fn digest(router: &Arc<Router>, node: &str, digest: bus::Digest) {
    let (router, node) = (router.clone(), node.to_owned());
    let tasks = router.context.tasks.clone();
    tasks.spawn("digest", OnError::Log, async move {
        let _repeated = ask(&router, &node, node_request::Body::Digest(digest)).await;
    });
}
