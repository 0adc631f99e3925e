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
    Ok(infra)
}
