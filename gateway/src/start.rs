//! Build: ports, links, state, tasks.

use std::sync::{Arc, atomic::AtomicBool};

use lapwing_gateway_core::cursors::Cursors;
use lapwing_gateway_core::stall::Stall;
use lapwing_links::nats::Nats;
use lapwing_runtime::{
    Context, OnError,
    limits::bind,
    queue::{Budget, Queue},
    time::now_ms,
};
use lapwing_views::{Places, Views};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    accept,
    attach::{self, Interest},
    auth::Auth,
    config::Config,
    cursors, deliver, drain,
    gateway::Gateway,
    health, heartbeats,
    hub::Hub,
    nodes::Nodes,
    owners::Routers,
    presence,
    rate::Share,
    server_api,
};

const CURSORS: usize = 200_000;
const AUDIT: usize = 8192;
const INBOUND: usize = 128 << 20;
const FETCHES: usize = 64;
const DEEP: usize = 32;

pub async fn start(context: Context, config: Config) -> anyhow::Result<()> {
    let clients = bind(config.client_addr, "LAPWING_CLIENT_ADDR")?;
    let api = bind(config.api_addr, "LAPWING_API_ADDR")?;
    let auth = Auth::new(&config.jwt_secret)?;
    let limits = config.limits.of_profile(config.common.profile);
    let name = format!("lapwing-gateway {}", context.node());
    let nats = Nats::connect(&config.common.nats_url, &name, &context.tasks, &context.health).await?;
    let places = Places::connect(&config.redis, config.partitions, &context.tasks, &context.health)?;
    let incarnation = now_ms();
    let (audit, records) = Queue::named("audit").items(AUDIT).open();
    let gateway = Arc::new(Gateway {
        node: Arc::from(context.node()),
        incarnation,
        tasks: context.tasks.clone(),
        health: context.health.clone(),
        routers: Routers::new(nats.clone(), config.partitions),
        nats,
        views: Views::new(places),
        hub: Hub::new(config.partitions, limits.linger),
        sessions: Default::default(),
        auth,
        tenants: Default::default(),
        interest: Interest::default(),
        nodes: Nodes::default(),
        share: Share::new(limits.cluster),
        cursors: Mutex::new(Cursors::new(CURSORS)),
        audit,
        inbound: Budget::new("publish", INBOUND),
        fetches: Semaphore::new(FETCHES),
        deep: Semaphore::new(DEEP),
        draining: AtomicBool::new(false),
        stall: Stall::new(lapwing_runtime::time::mono_ms()),
        limits,
        config,
    });
    health::watch(&gateway);
    heartbeats::start(&gateway).await?;
    let tasks = &gateway.tasks;
    tasks.spawn("deliver inbound", OnError::StopService, deliver::run(gateway.clone()));
    tasks.spawn("session sweep", OnError::StopService, presence::sweep(gateway.clone()));
    tasks.spawn("audit", OnError::StopService, presence::write_audit(gateway.clone(), records));
    tasks.spawn("cursors", OnError::StopService, cursors::run(gateway.clone()));
    let withdrawing = gateway.clone();
    tasks.spawn("interest", OnError::StopService, async move { attach::withdraw(&withdrawing).await });
    tasks.spawn("clients", OnError::StopService, accept::run(gateway.clone(), clients));
    tasks.spawn("server api", OnError::StopService, server_api::run(gateway.clone(), api));
    context.on_drain("sessions", drain::run(gateway.clone()));
    Ok(())
}
