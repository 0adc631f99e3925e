//! Lapwing's persister: the log into MySQL, exactly once, and history out of it.

mod admin;
mod config;
mod consume;
mod db;
mod history;
mod lease;
mod load;
mod moving;
mod partition;
mod persister;
mod places;
mod rebuild;
mod schema;
mod unit;
mod watermark;
mod write;

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use lapwing_links::{kafka::Kafka, nats::Nats};
use lapwing_model::{Kind, PartitionId, kind::KINDS};
use lapwing_persister_core::{Placement, placement::AUTHORITY, side};
use lapwing_runtime::{Context, OnError, config::BadConfig, lifecycle};

use crate::{config::Config, db::Db, persister::Persister, places::Places};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let config: Config = lapwing_runtime::config::load();
    lifecycle::run("persister", config.common.clone(), |context| build(context, config))
}

async fn build(context: Context, config: Config) -> anyhow::Result<()> {
    let config = Arc::new(config);
    context.health.require("kafka");
    let (configured, dbs) = (Arc::new(config.placement()?), Db::all(&config)?);
    context.health.require("nats");
    for db in &dbs[1..] {
        let own = configured.tables_on(db.instance);
        let keeping = schema::keep(context.clone(), config.clone(), db.clone(), own);
        context.tasks.spawn(format!("instance {}", db.name), OnError::StopService, keeping);
    }
    let db = &dbs[AUTHORITY];
    schema::prepare(&context, &config, db, &configured.tables_on(AUTHORITY)).await?;
    let kafka = Kafka::new(&config.kafka_brokers, &format!("lapwing-{}", context.node()));
    let partitions = partitions(&context, &kafka).await;
    schema::ensure_partitions(db, &partitions).await?;
    let logs =
        partitions.iter().filter(|partition| Kind::of_topic(&partition.topic) == Some(Kind::P2p)).count();
    configured.check_partitions(logs as u32).map_err(|bad| BadConfig(bad.to_string()))?;
    let placement = Placement::new(configured, logs as u32);
    let places = Places::begin(db, placement, &partitions).await.context("placements")?;

    let persister = Persister::new(context.clone(), config, dbs, places, partitions.len());
    let (tasks, stop) = (&context.tasks, context.stopping());
    tasks.spawn("lease", OnError::StopService, lease::run(persister.clone(), kafka));
    tasks.spawn("nats", OnError::StopService, answer_on_nats(persister.clone()));
    tasks.spawn("report", OnError::Log, admin::report(persister.clone(), stop));
    admin::routes(&persister);
    Ok(())
}

/// Writing does not wait for NATS; telling how far it is, and history, do.
async fn answer_on_nats(persister: Arc<Persister>) -> anyhow::Result<()> {
    let (context, stop) = (&persister.context, persister.context.stopping());
    let url = &persister.config.common.nats_url;
    let nats = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        nats = Nats::connect(url, context.node(), &context.tasks, &context.health) => nats?,
    };
    let marks = watermark::run(persister.marks.clone(), nats.clone(), stop.clone());
    context.tasks.spawn("watermark", OnError::StopService, marks);
    let rebuilds = rebuild::run(persister.clone(), nats.clone());
    context.tasks.spawn("rebuild", OnError::StopService, rebuilds);
    let loads = load::run(persister.clone(), nats.clone());
    context.tasks.spawn("load", OnError::StopService, loads);
    history::run(persister.clone(), nats).await
}

/// Every partition of every topic that goes to MySQL; waits until all the topics are there.
async fn partitions(context: &Context, kafka: &Kafka) -> Vec<PartitionId> {
    let logs = KINDS.into_iter().map(|kind| kind.topic());
    let wanted: Vec<&str> = logs.chain([side::CURSOR_TOPIC, side::AUDIT_TOPIC]).collect();
    loop {
        let problem = match kafka.topics().await {
            Err(error) => error.to_string(),
            Ok(topics) => {
                let count =
                    |name: &str| topics.iter().find(|(topic, _)| topic == name).map(|(_, count)| *count);
                let missing: Vec<_> = wanted.iter().filter(|name| count(name).is_none()).collect();
                if missing.is_empty() {
                    context.health.set("kafka", Ok(()));
                    let of = |name: &str| {
                        let (name, count) = (name.to_owned(), count(name).unwrap_or(0).max(0) as u32);
                        (0..count).map(move |partition| PartitionId::new(name.as_str(), partition))
                    };
                    return wanted.iter().flat_map(|name| of(name)).collect();
                }
                format!("topics are missing: {missing:?}")
            }
        };
        context.health.set("kafka", Err(format!("{}: {problem}", kafka.brokers())));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
