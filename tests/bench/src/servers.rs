//! The servers of one benchmark: only those that it needs, gone when it ends.

use anyhow::{Context, Result};
use lapwing_servers::{Infra, InfraOptions};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Redis,
    Kafka,
    /// NATS, Redis and Kafka.
    Routers,
}

pub(crate) async fn start(needs: Needs) -> Result<Infra> {
    let infra = Infra::prepare(InfraOptions::default()).await?;
    match needs {
        Needs::Redis => infra.redis().start().await.context("Redis did not start")?,
        Needs::Kafka => infra.kafka().start().await.context("Kafka did not start")?,
        Needs::Routers => {
            infra.kafka().start().await.context("Kafka did not start")?;
            infra.redis().start().await.context("Redis did not start")?;
            infra.nats().start().await.context("NATS did not start")?;
        }
    }
    if needs != Needs::Kafka {
        no_rewrite(&infra.redis().url()).await.context("Redis does not take a setting")?;
    }
    Ok(infra)
}

/// The append-only file stays on; its rewrite by a second process, which would fall into one round and not into another, is off.
pub(crate) async fn no_rewrite(url: &str) -> Result<()> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("auto-aof-rewrite-percentage").arg(0);
    set.query_async::<()>(&mut connection).await?;
    Ok(())
}

pub(crate) const REDIS_NOTE: &str = "Redis: append-only file on (everysec), its automatic rewrite off while the benchmark runs, for all ways alike.";
