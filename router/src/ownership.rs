//! Who owns what: heartbeats out and in, claims and releases. Only a wish; the log decides (R-SEQ-10).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use lapwing_links::nats::SubscriptionOptions;
use lapwing_model::PartitionId;
use lapwing_proto::{
    Message as _,
    bus::{Owned, RouterHeartbeat},
};
use lapwing_router_core::{
    Assignment,
    assign::{Order, Times},
};
use lapwing_runtime::time::mono_ms;
use lapwing_views::Piece;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{router::Router, sequence};

#[derive(Clone, Default)]
pub(crate) struct Handle {
    state: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Epoch, once serving.
    mine: Mutex<BTreeMap<PartitionId, Option<u64>>>,
    assignment: Mutex<Option<Assignment>>,
    changed: Notify,
    draining: std::sync::atomic::AtomicBool,
}

pub(crate) struct Stage {
    handle: Handle,
}

pub(crate) fn open() -> (Handle, Stage) {
    let handle = Handle::default();
    (handle.clone(), Stage { handle })
}

impl Handle {
    pub(crate) fn serving(&self, id: &PartitionId, epoch: u64) {
        self.state.mine.lock().insert(id.clone(), Some(epoch));
        self.state.changed.notify_one();
    }

    pub(crate) fn gone(&self, id: &PartitionId, by: Option<String>) {
        self.state.mine.lock().remove(id);
        if let (Some(_), Some(assignment)) = (by, self.state.assignment.lock().as_mut()) {
            assignment.deposed(id, mono_ms());
        }
        self.state.changed.notify_one();
    }

    pub(crate) fn owner_of_tenants(&self) -> Option<String> {
        self.state.assignment.lock().as_ref().map(|assignment| assignment.owner_of_tenants(mono_ms()))
    }
}

/// A graceful stop: every partition is released, then the tasks may end.
pub(crate) async fn leave(router: &Arc<Router>) {
    let state = &router.ownership.state;
    state.draining.store(true, std::sync::atomic::Ordering::Relaxed);
    if let Some(assignment) = state.assignment.lock().as_mut() {
        assignment.drain();
    }
    state.changed.notify_one();
    let handles: Vec<_> = router.partitions.read().values().map(|handle| handle.events.clone()).collect();
    for events in handles {
        let _gone = events.send(sequence::Event::Release).await;
    }
    while !state.mine.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Heard once more without any partition, so that others claim at once.
    state.changed.notify_one();
    tokio::time::sleep(Duration::from_millis(50)).await;
}

impl Stage {
    pub(crate) async fn run(self, router: Arc<Router>) -> anyhow::Result<()> {
        let state = self.handle.state;
        let times = Times { lease_ms: router.config.lease_ms, ..Times::default() };
        *state.assignment.lock() = Some(Assignment::new(router.node(), router.incarnation, times, mono_ms()));
        let mut beats =
            router.nats.subscribe("lw.r.hb", SubscriptionOptions::named("router_heartbeats")).await?;
        let all = router.all();
        let mut ticks = tokio::time::interval(Duration::from_millis(router.config.beat_ms));
        let stopping = router.context.stopping();
        let (mut counter, mut isolated) = (0, true);
        loop {
            tokio::select! {
                () = stopping.cancelled() => return Ok(()),
                _ = ticks.tick() => beat(&router, &state, &mut counter).await,
                () = state.changed.notified() => beat(&router, &state, &mut counter).await,
                message = beats.next() => {
                    let Some(message) = message else { return Ok(()) };
                    if let Ok(heard) = RouterHeartbeat::decode(message.payload)
                        && let Some(assignment) = state.assignment.lock().as_mut()
                    {
                        assignment.heard(&heard, mono_ms());
                    }
                }
            }
            isolated = tell_isolation(&router, &state, isolated).await;
            follow(&router, &state, &all).await;
        }
    }
}

async fn beat(router: &Router, state: &Shared, counter: &mut u64) {
    *counter += 1;
    let places = router.views.places();
    let now = mono_ms();
    let isolated = state.assignment.lock().as_mut().is_none_or(|assignment| {
        assignment.sent(*counter, now);
        assignment.isolated(now)
    });
    let entry = |(id, epoch): (&PartitionId, &Option<u64>)| Owned {
        topic: id.topic.to_string(),
        partition: id.partition,
        epoch: epoch.unwrap_or_default(),
        serving: epoch.is_some(),
        redis: places.redis(places.commit(id)).instance().to_owned(),
        commit_at: router.apply.right_up_to(id, &[Piece::commit(places.commit(id))]),
        user_at: router.apply.right_up_to(id, &places.pieces(id)[1..]),
    };
    // Who does not hear itself lists nothing and wants nothing, so that others do not wait for it.
    let owned = if isolated { Vec::new() } else { state.mine.lock().iter().map(entry).collect() };
    let heartbeat = RouterHeartbeat {
        router: router.node().to_owned(),
        incarnation: router.incarnation,
        counter: *counter,
        owned,
        draining: isolated || state.draining.load(std::sync::atomic::Ordering::Relaxed),
        tenants_generation: router.tenants.generation(),
    };
    // Lost ones are the point of the lease.
    let _lost = router.nats.publish("lw.r.hb", &[], heartbeat.encode_to_vec().into()).await;
}

async fn tell_isolation(router: &Router, state: &Shared, before: bool) -> bool {
    let now = mono_ms();
    let isolated = state.assignment.lock().as_ref().is_none_or(|assignment| assignment.isolated(now));
    if isolated != before {
        // Heard by the others at once: what this router has, or that it has nothing to say.
        state.changed.notify_one();
        if isolated {
            tracing::warn!("own heartbeats are not heard: publishes are redirected");
        }
        let handles: Vec<_> = router.partitions.read().values().map(|handle| handle.events.clone()).collect();
        for events in handles {
            let _gone = events.send(sequence::Event::Isolated(isolated)).await;
        }
    }
    isolated
}

async fn follow(router: &Arc<Router>, state: &Shared, all: &[PartitionId]) {
    let mine: BTreeSet<PartitionId> = state.mine.lock().keys().cloned().collect();
    let orders = match state.assignment.lock().as_ref() {
        Some(assignment) => assignment.decide(all, &mine, mono_ms()),
        None => return,
    };
    for order in orders {
        match order {
            Order::Claim(id) => {
                state.mine.lock().insert(id.clone(), None);
                let handle = sequence::start(router, id.clone());
                router.partitions.write().insert(id, handle);
                // Listed at once, so that nobody else tries meanwhile.
                state.changed.notify_one();
            }
            Order::Release(id) => {
                let events = router.partitions.read().get(&id).map(|handle| handle.events.clone());
                if let Some(events) = events {
                    let _gone = events.send(sequence::Event::Release).await;
                }
            }
        }
    }
    let mine = state.mine.lock();
    router.partitions.write().retain(|id, _| mine.contains_key(id));
    let serving = mine.values().filter(|epoch| epoch.is_some()).count();
    ::metrics::gauge!("lapwing_partitions_owned").set(serving as f64);
    let claiming = mine.len() - serving;
    let state = match (serving, claiming) {
        (_, 0) => Ok(()),
        _ => Err(format!("{claiming} partitions are being taken over")),
    };
    router.context.health.set("ownership", state);
}
