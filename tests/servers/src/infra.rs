//! The four foreign servers together.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::install;
use crate::kafka::{Brokers, Kafka};
use crate::mariadb::MariaDb;
use crate::nats::Nats;
use crate::paths::RunDir;
use crate::ports::{self, Port};
use crate::redis::Redis;

#[derive(Clone, Debug, Default)]
pub struct InfraOptions {
    /// Where data, logs and passwords are kept. None: a folder of its own under `target/run`, removed at the end.
    pub folder: Option<PathBuf>,
    /// Five ports from here on: NATS, Redis, Kafka, Kafka's controller, MariaDB. None: any free ones.
    pub first_port: Option<u16>,
    /// Goes on when this program ends (after `release`).
    pub detached: bool,
    /// Brokers of Kafka: one, or three with every partition on each and two of them needed for an acknowledgement.
    pub brokers: Brokers,
}

/// NATS, Redis, Kafka and MariaDB, each with its own data folder and a port that it keeps over restarts.
#[derive(Debug)]
pub struct Infra {
    // Fields are dropped in this order: servers first, then their folder.
    nats: Nats,
    redis: Redis,
    kafka: Kafka,
    mariadb: MariaDb,
    folder: RunDir,
}

impl Infra {
    /// All four, started in parallel and ready: the topics and the database are there.
    pub async fn start(options: InfraOptions) -> Result<Self> {
        let infra = Self::prepare(options).await?;
        infra.start_all().await?;
        Ok(infra)
    }

    /// Ports, folders and configurations; nothing runs yet.
    pub async fn prepare(options: InfraOptions) -> Result<Self> {
        let tools = install::ensure().await?;
        let folder = match &options.folder {
            Some(folder) => RunDir::at(folder)?,
            None => RunDir::temporary()?,
        };
        let detached = options.detached;
        let port = |offset| -> Result<Port> {
            options.first_port.map_or_else(ports::any, |first| ports::at_or_after(first + offset))
        };
        let at = |name: &str| folder.path().join(name);
        let mut ports_of_kafka = vec![(port(2)?, port(3)?)];
        if options.brokers == Brokers::Three {
            ports_of_kafka.extend([(ports::any()?, ports::any()?), (ports::any()?, ports::any()?)]);
        }
        Ok(Self {
            nats: Nats::prepare(&tools, &at("nats"), port(0)?, detached)?,
            redis: Redis::prepare(&tools, &at("redis"), port(1)?, detached)?,
            kafka: Kafka::prepare(&tools, &at("kafka"), ports_of_kafka, detached)?,
            mariadb: MariaDb::prepare(&tools, &at("mariadb"), port(4)?, detached)?,
            folder,
        })
    }

    pub async fn start_all(&self) -> Result<()> {
        tokio::try_join!(
            async { self.kafka.start().await.context("Kafka did not start") },
            async { self.mariadb.start().await.context("MariaDB did not start") },
            async { self.redis.start().await.context("Redis did not start") },
            async { self.nats.start().await.context("NATS did not start") },
        )?;
        Ok(())
    }

    /// Graceful stop of all four, the servers that lean on nothing last.
    pub async fn stop(&self) {
        tokio::join!(self.kafka.stop(), self.nats.stop(), self.redis.stop(), self.mariadb.stop());
    }

    pub fn release(&self) {
        self.nats.release();
        self.redis.release();
        self.kafka.release();
        self.mariadb.release();
    }

    pub fn nats(&self) -> &Nats {
        &self.nats
    }

    pub fn redis(&self) -> &Redis {
        &self.redis
    }

    pub fn kafka(&self) -> &Kafka {
        &self.kafka
    }

    pub fn kafka_mut(&mut self) -> &mut Kafka {
        &mut self.kafka
    }

    pub fn mariadb(&self) -> &MariaDb {
        &self.mariadb
    }

    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Keeps the folder with data and logs.
    pub fn keep_folder(&mut self) {
        self.folder.keep();
    }
}
