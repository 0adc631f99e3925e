//! Kafka as one process, broker and controller, with the product's topics.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::install::Tools;
use crate::kafka_wire::{self, Topic};
use crate::managed::{Managed, Ready};
use crate::paths;
use crate::ports::Port;
use crate::process::Spec;
use crate::secrets;

const SEVEN_DAYS_MS: &str = "604800000";
const PARTITIONS: i32 = 8;

#[derive(Debug)]
pub struct Kafka {
    server: Managed,
    port: Port,
    /// Held, so that nobody takes the controller's port while the broker is down.
    _controller: Port,
}

impl Kafka {
    pub fn prepare(
        tools: &Tools,
        folder: &Path,
        port: Port,
        controller: Port,
        detached: bool,
    ) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let data = folder.join("data");
        if !data.join("meta.properties").exists() {
            // Formatting takes a JVM of 1.5 s, so it is done once and copied.
            paths::copy_tree(&tools.kafka_template, &data)
                .context("kafka: cannot copy the formatted data folder")?;
        }
        let config = folder.join("server.properties");
        std::fs::write(&config, settings(&data, port.number(), controller.number()))?;
        let spec = Spec {
            name: "kafka".to_owned(),
            program: tools.java.clone(),
            args: crate::install::kafka_command(tools, "kafka.Kafka", &[&config.to_string_lossy()]),
            env: Vec::new(),
            folder: folder.to_path_buf(),
            log: folder.join("kafka.log"),
            detached,
        };
        let topics = topics().into_iter().map(|topic| topic.name).collect();
        let ready = Ready::Kafka { address: port.address(), topics };
        let server = Managed::new(spec, ready, Duration::from_secs(60), Duration::from_secs(15));
        Ok(Self { server, port, _controller: controller })
    }

    /// Starts the broker and makes the topics that are missing.
    pub async fn start(&self) -> Result<()> {
        self.server.spawn()?;
        let begin = Instant::now();
        while let Err(error) = kafka_wire::create_topics(&self.address(), &topics()).await {
            if begin.elapsed() > Duration::from_secs(60) {
                return Err(
                    error.context(format!("kafka: cannot make the topics; see {}", self.log().display()))
                );
            }
            if !self.is_running() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.server.wait_ready().await
    }

    pub async fn restart(&self) -> Result<()> {
        self.server.stop().await;
        self.start().await
    }

    pub fn address(&self) -> String {
        self.port.address()
    }

    pub fn brokers(&self) -> String {
        self.port.address()
    }
}

impl std::ops::Deref for Kafka {
    type Target = Managed;

    fn deref(&self) -> &Managed {
        &self.server
    }
}

/// The product's topics with their settings.
pub(crate) fn topics() -> Vec<Topic> {
    let compacted = || {
        vec![
            ("cleanup.policy".to_owned(), "compact".to_owned()),
            ("min.compaction.lag.ms".to_owned(), SEVEN_DAYS_MS.to_owned()),
        ]
    };
    let topic =
        |name: &str, partitions, settings| Topic { name: format!("lapwing.{name}"), partitions, settings };
    vec![
        topic("p2p", PARTITIONS, Vec::new()),
        topic("group", PARTITIONS, Vec::new()),
        topic("system", PARTITIONS, Vec::new()),
        topic("cursor", PARTITIONS, compacted()),
        topic("tenants", 1, compacted()),
        topic("audit", 2, Vec::new()),
        topic("dead", 1, Vec::new()),
    ]
}

/// Name and number of partitions of each topic.
pub fn topic_partitions() -> Vec<(String, i32)> {
    topics().into_iter().map(|topic| (topic.name, topic.partitions)).collect()
}

/// The broker's settings; also used to format the template.
pub(crate) fn settings(data: &Path, port: u16, controller: u16) -> String {
    let fixed = [
        ("process.roles", "broker,controller"),
        ("node.id", "1"),
        ("controller.listener.names", "CONTROLLER"),
        ("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"),
        ("auto.create.topics.enable", "false"),
        ("offsets.topic.replication.factor", "1"),
        ("offsets.topic.num.partitions", "1"),
        ("transaction.state.log.replication.factor", "1"),
        ("transaction.state.log.min.isr", "1"),
        ("transaction.state.log.num.partitions", "1"),
        ("share.coordinator.state.topic.replication.factor", "1"),
        ("share.coordinator.state.topic.min.isr", "1"),
        ("min.insync.replicas", "1"),
        ("unclean.leader.election.enable", "false"),
        ("broker.session.timeout.ms", "3000"),
        ("broker.heartbeat.interval.ms", "500"),
        // Above any event of 512 KiB, with room for headers and batches.
        ("message.max.bytes", "4194304"),
        ("replica.fetch.max.bytes", "4194304"),
        ("log.retention.hours", "168"),
        // A partition's share of 5 GB over the busiest topic's 8 partitions, with room for an uneven spread.
        ("log.retention.bytes", "1073741824"),
        ("log.segment.bytes", "134217728"),
        ("log.index.size.max.bytes", "2097152"),
        ("log.cleaner.dedupe.buffer.size", "8388608"),
        ("group.initial.rebalance.delay.ms", "0"),
    ];
    let mut text: String = fixed.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    text.push_str(&format!(
        "listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         log.dirs={}\n",
        data.display().to_string().replace('\\', "\\\\")
    ));
    text
}

/// A cluster id in Kafka's form: 22 characters of base64.
pub(crate) fn cluster_id() -> String {
    secrets::generate()[..22].to_owned()
}
