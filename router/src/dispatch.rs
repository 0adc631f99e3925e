//! ⑥ dispatch: each released event goes once to each node that has sessions for its conversation (R-FAN-1).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use lapwing_model::{
    ConversationKey,
    fold::{MemberChange, member_changes},
};
use lapwing_proto::{
    bus::{self, deliver_item},
    record::CursorRecord,
};
use lapwing_router_core::{Released, interest::Interest};
use lapwing_runtime::{
    fail_point, metrics,
    queue::{Queue, Receiver, Sender},
    telemetry,
};

use parking_lot::Mutex;

use crate::{lanes, nodes, router::Router};

pub(crate) enum Dispatch {
    Released(Arc<Released>),
    Receipt {
        key: ConversationKey,
        receipt: bus::Receipt,
        /// Also to nodes that have not told a new owner yet what they want.
        everywhere: bool,
    },
    Cursor(CursorRecord),
    Interest {
        hash: u64,
        node: String,
        incarnation: u64,
        counter: u64,
    },
    Withdraw {
        hash: u64,
        node: String,
        incarnation: u64,
        counter: u64,
    },
    /// Users became members: to every node, acknowledged; again once the user views have it, so that neither order loses it.
    Announce(Arc<Released>),
    NodeHeard(bus::GatewayHeartbeat),
}

#[derive(Clone)]
pub(crate) struct Handle {
    queue: Sender<Dispatch>,
    missed: Missed,
}

pub(crate) struct Stage {
    queue: Receiver<Dispatch>,
    missed: Missed,
}

/// Head and n of what found no room: the next digest tells them.
type Missed = Arc<Mutex<HashMap<ConversationKey, (u64, u64)>>>;

/// Items wait here only while the task is busy; what is slow waits in the nodes' lanes.
pub(crate) fn open() -> (Handle, Stage) {
    let (sender, receiver) = Queue::named("dispatch").items(262_144).bytes(256 << 20).open();
    let missed = Missed::default();
    (Handle { queue: sender, missed: missed.clone() }, Stage { queue: receiver, missed })
}

impl Handle {
    pub(crate) fn push(&self, item: Dispatch) {
        let refused = match item {
            Dispatch::Released(ref released) => {
                let weight = released.event.len() + WEIGHT;
                self.queue.try_push(item, weight)
            }
            // The next one says more.
            Dispatch::Cursor(_) => self.queue.try_push(item, WEIGHT),
            // One a request, a mark or a heartbeat: a node that is not known to want a conversation would get nothing of it any more.
            _ => return self.queue.push_over(item, WEIGHT),
        };
        if let Err(item) = refused {
            self.queue.count_drop();
            if let Dispatch::Released(released) = item.into_inner() {
                let (seq, n) = (released.record.seq, released.record.n);
                self.missed.lock().insert(released.key.clone(), (seq, n));
            }
        }
    }
}

/// What an item takes beside an event.
const WEIGHT: usize = 128;
/// Conversations with news in the last seconds, for the digest.
const ACTIVE: Duration = Duration::from_secs(5);
const DIGEST: Duration = Duration::from_secs(1);
const DIGEST_ITEMS: usize = 1000;
/// Every live gateway node has sent a heartbeat within this.
pub(crate) const HEARD: Duration = Duration::from_secs(2);
const EARLY: usize = 100_000;

struct Active {
    head: u64,
    n: u64,
    at: std::time::Instant,
}

struct Dispatcher {
    router: Arc<Router>,
    interest: Interest,
    nodes: nodes::Nodes,
    active: HashMap<ConversationKey, Active>,
    missed: Missed,
    /// Receipts of a router that has not heard all gateway nodes yet; None: by now it has.
    early: Option<Vec<(ConversationKey, bus::Receipt)>>,
    since: std::time::Instant,
}

impl Stage {
    pub(crate) async fn run(mut self, router: Arc<Router>) -> anyhow::Result<()> {
        nodes::listen(&router).await?;
        let nodes = nodes::Nodes::new(router.clone());
        let mut dispatcher = Dispatcher {
            router,
            interest: Interest::default(),
            nodes,
            active: HashMap::new(),
            missed: self.missed.clone(),
            early: Some(Vec::new()),
            since: std::time::Instant::now(),
        };
        let mut digests = tokio::time::interval(DIGEST);
        let stopping = dispatcher.router.context.stopping();
        loop {
            tokio::select! {
                // What is left reaches the nodes by the next owner's heads.
                () = stopping.cancelled() => return Ok(()),
                batch = self.queue.pop_up_to(1024, 16 << 20) => {
                    if batch.is_empty() { return Ok(()) }
                    for item in batch { dispatcher.dispatch(item) }
                }
                _ = digests.tick() => dispatcher.tick(),
            }
        }
    }
}

impl Dispatcher {
    fn dispatch(&mut self, item: Dispatch) {
        match item {
            Dispatch::Released(released) => self.released(&released),
            Dispatch::Receipt { receipt, .. } if receipt.senders.is_empty() => {}
            Dispatch::Receipt { key, receipt, everywhere: true } => match &mut self.early {
                Some(early) if early.len() < EARLY => early.push((key, receipt)),
                _ => self.nodes.tell(&key, &receipt, |_| true),
            },
            Dispatch::Receipt { key, receipt, .. } => {
                let wanting: Vec<&str> = self.interest.of(key.hash64()).collect();
                self.nodes.tell(&key, &receipt, |node| wanting.contains(&node));
            }
            Dispatch::Cursor(cursor) => {
                let key = ConversationKey::new(cursor.tenant.as_str(), cursor.conversation.as_str());
                self.send_to_interested(&key, deliver_item::Body::Cursor(cursor), None, &[]);
            }
            Dispatch::Interest { hash, node, incarnation, counter } => {
                self.interest.add(hash, &node, incarnation, counter);
            }
            Dispatch::Withdraw { hash, node, incarnation, counter } => {
                self.interest.remove(hash, &node, incarnation, counter);
            }
            Dispatch::Announce(released) => self.announce(&released),
            Dispatch::NodeHeard(beat) => {
                if self.nodes.heard(&beat) {
                    self.interest.forget(&beat.node);
                }
            }
        }
    }

    fn released(&mut self, released: &Arc<Released>) {
        let stage = metrics::stage("dispatch");
        let record = &released.record;
        let _span = telemetry::otlp_on().then(|| {
            telemetry::span_from(&record.traceparent, tracing::debug_span!("dispatch", seq = record.seq))
                .entered()
        });
        let mut left = Vec::new();
        let mut joined = false;
        for change in member_changes(record) {
            match change {
                MemberChange::Joined { .. } => joined = true,
                MemberChange::Left { user, .. } => left.push(user.to_owned()),
            }
        }
        let body = deliver_item::Body::Event(released.event.clone());
        let nodes = self.send_to_interested(&released.key, body, Some(released), &left);
        released.fan_out.sent_to(nodes);
        if joined {
            self.announce(released);
        }
        let at = std::time::Instant::now();
        self.active.insert(released.key.clone(), Active { head: record.seq, n: record.n, at });
        stage.done("ok");
        fail_point("dispatch.after");
    }

    /// How many nodes that is.
    fn send_to_interested(
        &mut self,
        key: &ConversationKey,
        body: deliver_item::Body,
        of: Option<&Arc<Released>>,
        left: &[String],
    ) -> u32 {
        let hash = key.hash64();
        let mut nodes = 0;
        for node in self.interest.of(hash) {
            let Some(lanes) = self.nodes.get(node) else { continue };
            let item = bus::DeliverItem {
                tenant: key.tenant.to_string(),
                conversation: key.conversation.to_string(),
                seq: of.map_or(0, |of| of.record.seq),
                left: left.to_vec(),
                body: Some(body.clone()),
            };
            lanes.push(hash, item, of);
            nodes += 1;
        }
        nodes
    }

    fn announce(&mut self, released: &Released) {
        let users: Vec<String> = member_changes(&released.record)
            .into_iter()
            .filter_map(|change| match change {
                MemberChange::Joined { user, .. } => Some(user.to_owned()),
                MemberChange::Left { .. } => None,
            })
            .collect();
        if users.is_empty() {
            return;
        }
        let announce = bus::Announce {
            tenant: released.key.tenant.to_string(),
            conversation: released.key.conversation.to_string(),
            users,
            seq: released.record.seq,
        };
        self.nodes.announce(&announce);
    }

    /// Heads of recently active conversations to the nodes that want them: a lost tail is found without another message.
    fn tick(&mut self) {
        if self.since.elapsed() > HEARD {
            for (key, receipt) in self.early.take().into_iter().flatten() {
                self.nodes.tell(&key, &receipt, |_| true);
            }
        }
        for node in self.nodes.expire(Duration::from_millis(self.router.config.node_silent_ms)) {
            self.interest.forget(&node);
        }
        let at = std::time::Instant::now();
        let missed = std::mem::take(&mut *self.missed.lock());
        for (key, (head, n)) in missed {
            let known = self.active.get(&key).map_or(0, |active| active.head);
            if known < head {
                self.active.insert(key, Active { head, n, at });
            }
        }
        self.active.retain(|_, active| active.at.elapsed() < ACTIVE);
        let mut digests: BTreeMap<&str, Vec<bus::DigestItem>> = BTreeMap::new();
        for (key, active) in &self.active {
            for node in self.interest.of(key.hash64()) {
                let items = digests.entry(node).or_default();
                if items.len() < DIGEST_ITEMS {
                    items.push(bus::DigestItem {
                        tenant: key.tenant.to_string(),
                        conversation: key.conversation.to_string(),
                        head: active.head,
                        n: active.n,
                    });
                }
            }
        }
        for (node, items) in digests {
            lanes::digest(&self.router, node, bus::Digest { items });
        }
    }
}
