//! What is broadcast: the routers' and gateways' heartbeats, sessions opened elsewhere.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_links::nats::{Subscription, SubscriptionOptions};
use lapwing_model::PartitionId;
use lapwing_proto::{
    Message as _,
    bus::{GatewayHeartbeat, RouterHeartbeat, SessionOpened},
};
use lapwing_runtime::{OnError, time::mono_ms};

use crate::{attach, gateway::Gateway, nodes, presence, tenants};

const ROUTERS: &str = "lw.r.hb";

pub async fn start(gateway: &Arc<Gateway>) -> anyhow::Result<()> {
    let routers = gateway.nats.subscribe(ROUTERS, SubscriptionOptions::named("router_heartbeats")).await?;
    let nodes =
        gateway.nats.subscribe(nodes::HEARTBEATS, SubscriptionOptions::named("gateway_heartbeats")).await?;
    let opened = gateway
        .nats
        .subscribe(presence::OPENED, SubscriptionOptions::named("sessions_opened").items(65_536))
        .await?;
    let tasks = &gateway.tasks;
    tasks.spawn("router heartbeats", OnError::StopService, hear_routers(gateway.clone(), routers));
    tasks.spawn("gateway heartbeats", OnError::StopService, hear_gateways(gateway.clone(), nodes));
    tasks.spawn("sessions opened", OnError::StopService, hear_sessions(gateway.clone(), opened));
    tasks.spawn("nats reconnects", OnError::StopService, resync(gateway.clone()));
    tasks.spawn("heartbeat", OnError::StopService, nodes::beat(gateway.clone()));
    Ok(())
}

async fn hear_routers(gateway: Arc<Gateway>, mut beats: Subscription) {
    let mut generation = 0;
    let mut second = tokio::time::interval(Duration::from_millis(250));
    loop {
        let changed = tokio::select! {
            message = beats.next() => match message {
                None => return,
                Some(message) => match RouterHeartbeat::decode(message.payload) {
                    Ok(beat) => {
                        places_of(&gateway, &beat);
                        gateway.routers.handle_heartbeat(&beat)
                    }
                    Err(error) => {
                        tracing::error!("a router's heartbeat cannot be read: {error}");
                        Vec::new()
                    }
                },
            },
            _ = second.tick() => {
                gateway.stall.tick(mono_ms());
                gateway.routers.handle_timeout()
            }
        };
        moved(&gateway, changed);
        let heard = gateway.routers.heard_tenants_generation();
        if heard > generation {
            generation = heard;
            tenants::recheck(&gateway);
        }
    }
}

/// Which Redis instance the owners write to.
fn places_of(gateway: &Gateway, beat: &RouterHeartbeat) {
    let places = gateway.views.places();
    for owned in beat.owned.iter().filter(|owned| owned.serving) {
        let id = PartitionId::new(owned.topic.as_str(), owned.partition);
        if let Some(instance) = places.instance_named(&owned.redis) {
            places.moved(&id, instance);
        }
        places.right_up_to(&id, owned.commit_at, owned.user_at);
    }
}

fn moved(gateway: &Arc<Gateway>, changed: Vec<PartitionId>) {
    let mut lost = Vec::new();
    for partition in changed {
        match gateway.routers.owner(&partition) {
            Some(owner) => {
                tracing::debug!(%partition, router = %owner.router, epoch = owner.epoch, "owner");
                attach::announce_partition(gateway, partition);
            }
            None => lost.push(partition.to_string()),
        }
    }
    if !lost.is_empty() {
        lost.sort();
        tracing::warn!(partitions = lost.join(" "), "no router serves these partitions");
    }
}

async fn hear_gateways(gateway: Arc<Gateway>, mut beats: Subscription) {
    while let Some(message) = beats.next().await {
        if let Ok(beat) = GatewayHeartbeat::decode(message.payload) {
            gateway.nodes.handle_heartbeat(beat, Instant::now());
        }
    }
}

async fn hear_sessions(gateway: Arc<Gateway>, mut opened: Subscription) {
    while let Some(message) = opened.next().await {
        if let Ok(opened) = SessionOpened::decode(message.payload) {
            presence::handle_opened(&gateway, &opened);
        }
    }
}

/// While NATS was away events may have gone by: all interest is announced again, and its heads tell what was missed.
async fn resync(gateway: Arc<Gateway>) {
    let stop = gateway.tasks.stopping();
    let mut connects = gateway.nats.connects();
    connects.mark_unchanged();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = connects.changed() => if changed.is_err() { return },
        }
        tracing::info!("NATS is back: announcing all interest again");
        for partition in &gateway.routers.wanted {
            attach::announce_partition(&gateway, partition.clone());
        }
    }
}
