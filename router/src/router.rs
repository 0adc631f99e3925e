//! The parts of a router, and how they are put together.

use std::{collections::HashMap, sync::Arc, time::Duration};

use anyhow::Context as _;
use bytes::Bytes;
use lapwing_links::{
    kafka::{Kafka, Producer, ProducerOptions},
    nats::Nats,
};
use lapwing_model::{Kind, PartitionId, Position, kind::KINDS};
use lapwing_proto::bus::RouterRequest;
use lapwing_runtime::{Context, OnError, config::BadConfig, queue::Budget};
use lapwing_views::{Places, Views};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::{
    admin, admit, answer, apply, config::Config, dispatch, lookup, memory::Memory, ownership, sequence,
    tenants, watermark,
};

const REBUILDS: usize = 4;

/// What every stage of this process shares.
pub struct Router {
    pub(crate) config: Config,
    pub(crate) context: Context,
    /// Of this process: a greater one is a later start of the same node.
    pub(crate) incarnation: u64,
    pub(crate) nats: Nats,
    pub(crate) kafka: Kafka,
    pub(crate) producer: Producer,
    pub(crate) views: Views,
    pub(crate) inbound: Arc<Budget>,
    pub(crate) memory: Arc<Memory>,
    /// Partitions that this router owns or wants.
    pub(crate) partitions: RwLock<HashMap<PartitionId, sequence::Handle>>,
    /// Up to where MySQL has each partition, as last heard.
    pub(crate) persisted: Mutex<HashMap<PartitionId, Position>>,
    pub(crate) lookups: lookup::Handle,
    pub(crate) answers: answer::Handle,
    pub(crate) dispatch: dispatch::Handle,
    pub(crate) apply: apply::Handle,
    pub(crate) ownership: ownership::Handle,
    pub(crate) tenants: tenants::Handle,
    /// Rebuilds of views at the same time: each holds a page in memory and asks the persisters.
    pub(crate) rebuilds: Semaphore,
}

impl Router {
    /// A request that came by another way than NATS; `answer` gets the encoded reply where the others leave. `size`: bytes that it
    /// counts for in its queue.
    pub fn request(
        self: &Arc<Self>,
        request: RouterRequest,
        size: usize,
        answer: impl FnOnce(Bytes) + Send + 'static,
    ) {
        admit::take(self, request, Some(answer::To::Here(Box::new(answer))), "", size);
    }

    /// Partitions of the logs that this router serves now.
    pub fn serving(&self) -> Vec<PartitionId> {
        let handles = self.partitions.read();
        let serving = handles.iter().filter(|(_, handle)| handle.status.lock().epoch.is_some());
        serving.map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn node(&self) -> &str {
        self.context.node()
    }

    /// Offsets that were read back and that the commit views do not have yet.
    pub fn unapplied(&self) -> u64 {
        let behind = |handle: &sequence::Handle| {
            let status = *handle.status.lock();
            status.position.offset.saturating_sub(status.view_acked)
        };
        self.partitions.read().values().map(behind).sum()
    }

    /// All partitions of the logs.
    pub(crate) fn all(&self) -> Vec<PartitionId> {
        KINDS
            .into_iter()
            .map(Kind::topic)
            .flat_map(|topic| (0..self.config.partitions).map(move |p| PartitionId::new(topic, p)))
            .collect()
    }
}

pub async fn start(config: Config, context: Context) -> anyhow::Result<()> {
    open(config, context).await.map(drop)
}

/// Connects and spawns every stage.
pub async fn open(config: Config, context: Context) -> anyhow::Result<Arc<Router>> {
    if !config.partitions.is_power_of_two() || config.partitions > 256 {
        return Err(BadConfig("LAPWING_PARTITIONS must be a power of two up to 256".to_owned()).into());
    }
    let (tasks, health) = (&context.tasks, &context.health);
    health.require("ownership");
    let nats = Nats::connect(&config.common.nats_url, context.node(), tasks, health).await?;
    let places = Places::connect(&config.redis, config.partitions, tasks, health)?;
    let views = Views::new(places).with_window(config.dedupe_window_ms);
    let kafka = Kafka::new(&config.kafka_brokers, &format!("router-{}", context.node()));
    let producer = Producer::new(
        &kafka,
        ProducerOptions {
            delivery_timeout: Duration::from_millis(config.delivery_timeout_ms),
            in_flight_bytes: config.kafka_in_flight_bytes,
            ..ProducerOptions::default()
        },
    )
    .context("Kafka producer")?;
    let (lookups, lookup_stage) = lookup::open();
    let (answers, answer_stage) = answer::open();
    let (dispatch, dispatch_stage) = dispatch::open();
    let (apply, apply_stage) = apply::open(views.places().instances().len());
    let (ownership, ownership_stage) = ownership::open();
    let (tenants, tenants_stage) = tenants::open();
    let router = Arc::new(Router {
        inbound: Budget::new("router_inbound", config.inbound_bytes),
        memory: Memory::new(config.conversation_bytes),
        incarnation: lapwing_runtime::time::now_ms(),
        partitions: RwLock::default(),
        persisted: Mutex::default(),
        config,
        nats,
        kafka,
        producer,
        views,
        lookups,
        answers,
        dispatch,
        apply,
        ownership,
        tenants,
        rebuilds: Semaphore::new(REBUILDS),
        context: context.clone(),
    });
    admin::routes(&router);
    let tasks = &context.tasks;
    tasks.spawn("lookup", OnError::StopService, lookup_stage.run(router.clone()));
    tasks.spawn("answer", OnError::StopService, answer_stage.run(context.stopping()));
    tasks.spawn("dispatch", OnError::StopService, dispatch_stage.run(router.clone()));
    apply_stage.start(&router, tasks);
    tasks.spawn("tenants", OnError::StopService, tenants_stage.run(router.clone()));
    tasks.spawn("watermark", OnError::StopService, watermark::run(router.clone()));
    tasks.spawn("admit", OnError::StopService, admit::run(router.clone()));
    tasks.spawn("ownership", OnError::StopService, ownership_stage.run(router.clone()));
    let leaving = router.clone();
    context.on_drain("release partitions", async move { ownership::leave(&leaving).await });
    Ok(router)
}
