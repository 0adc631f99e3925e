//! Kafka as one process, broker and controller, with the product's topics.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::install::Tools;
use crate::kafka_wire::{self, Topic};
use crate::managed::{Managed, Ready};
use crate::paths;
use crate::ports::Port;
use crate::process::{Signal, Spec};
use crate::secrets;

const SEVEN_DAYS_MS: &str = "604800000";
const PARTITIONS: i32 = 8;

/// How many brokers there are, each of them a controller too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Brokers {
    #[default]
    One,
    /// Replication 3, an acknowledgement needs two.
    Three,
}

#[derive(Debug)]
pub struct Kafka {
    brokers: Vec<Broker>,
}

#[derive(Debug)]
struct Broker {
    server: Managed,
    port: Port,
    /// Held, so that nobody takes the controller's port while the broker is down.
    _controller: Port,
}

impl Kafka {
    /// One broker for each pair of ports: the clients' and the controller's.
    pub fn prepare(tools: &Tools, folder: &Path, ports: Vec<(Port, Port)>, detached: bool) -> Result<Self> {
        let voters: Vec<u16> = ports.iter().map(|(_, controller)| controller.number()).collect();
        let brokers = ports.into_iter().enumerate().map(|(index, ports)| {
            let folder =
                if index == 0 { folder.to_path_buf() } else { folder.join(format!("{}", index + 1)) };
            Broker::prepare(tools, &folder, index, &voters, ports, detached)
        });
        Ok(Self { brokers: brokers.collect::<Result<_>>()? })
    }

    /// Starts the brokers and makes the topics that are missing.
    pub async fn start(&self) -> Result<()> {
        self.brokers.iter().try_for_each(|broker| broker.server.spawn())?;
        self.make_topics().await?;
        for broker in &self.brokers {
            broker.server.wait_ready().await?;
        }
        Ok(())
    }

    async fn make_topics(&self) -> Result<()> {
        let begin = Instant::now();
        let replicas = i16::try_from(self.brokers.len())?;
        while let Err(error) = kafka_wire::create_topics(&self.address(), &topics(), replicas).await {
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
        Ok(())
    }

    pub async fn restart(&self) -> Result<()> {
        self.stop().await;
        self.start().await
    }

    /// All brokers at once.
    pub async fn stop(&self) {
        for broker in &self.brokers {
            let _stopped = broker.server.signal(Signal::Term);
        }
        for broker in &self.brokers {
            broker.server.stop().await;
        }
    }

    pub fn release(&self) {
        self.brokers.iter().for_each(|broker| broker.server.release());
    }

    /// The first is what `Kafka` itself stands for.
    pub fn broker(&self, index: usize) -> &Managed {
        &self.brokers[index].server
    }

    /// Where the first broker keeps its data.
    pub fn data(&self) -> PathBuf {
        self.brokers[0].server.record().spec.folder.join("data")
    }

    pub fn address(&self) -> String {
        self.brokers[0].port.address()
    }

    pub fn brokers(&self) -> String {
        self.brokers.iter().map(|broker| broker.port.address()).collect::<Vec<_>>().join(",")
    }

    /// The index of the broker that leads a partition now.
    pub async fn leader(&self, topic: &str, partition: i32) -> Result<usize> {
        let mut last = None;
        for broker in self.brokers.iter().filter(|broker| broker.server.is_running()) {
            match kafka_wire::leader(&broker.port.address(), topic, partition).await {
                Ok(node) => return Ok(usize::try_from(node - 1)?),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("no broker runs")))
    }

    /// What the broker tells its clients from its next start on: a proxy before it.
    pub fn advertise(&self, address: &str) -> Result<()> {
        let broker = &self.brokers[0];
        let config = broker.server.record().spec.folder.join("server.properties");
        let text = std::fs::read_to_string(&config)?;
        let told = format!("advertised.listeners=PLAINTEXT://{}", broker.port.address());
        anyhow::ensure!(text.contains(&told), "kafka: {} tells another address", config.display());
        std::fs::write(&config, text.replace(&told, &format!("advertised.listeners=PLAINTEXT://{address}")))?;
        Ok(())
    }

    /// Where the stopped broker listens from its next start on; what it tells its clients is the new address, too.
    pub fn move_to(&mut self, port: Port) -> Result<()> {
        let broker = &mut self.brokers[0];
        anyhow::ensure!(!broker.server.is_running(), "kafka: it still runs on {}", broker.port.address());
        let mut record = broker.server.record();
        let config = record.spec.folder.join("server.properties");
        let text = std::fs::read_to_string(&config)?;
        std::fs::write(&config, text.replace(&broker.port.address(), &port.address()))?;
        if let Ready::Kafka { address, .. } = &mut record.ready {
            *address = port.address();
        }
        broker.server = Managed::adopt(record);
        broker.port = port;
        Ok(())
    }
}

impl Broker {
    fn prepare(
        tools: &Tools,
        folder: &Path,
        index: usize,
        voters: &[u16],
        (port, controller): (Port, Port),
        detached: bool,
    ) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let data = folder.join("data");
        if !data.join("meta.properties").exists() {
            // Formatting takes a JVM of 1.5 s, so it is done once and copied.
            paths::copy_tree(&tools.kafka_template, &data)
                .context("kafka: cannot copy the formatted data folder")?;
            if index > 0 {
                rename(&data.join("meta.properties"), index + 1)?;
            }
        }
        let config = folder.join("server.properties");
        let text = settings(&data, index + 1, port.number(), controller.number(), voters);
        std::fs::write(&config, text)?;
        let name = if index == 0 { "kafka".to_owned() } else { format!("kafka-{}", index + 1) };
        let spec = Spec {
            log: folder.join(format!("{name}.log")),
            name,
            program: tools.java.clone(),
            args: crate::install::kafka_command(tools, "kafka.Kafka", &[&config.to_string_lossy()]),
            env: Vec::new(),
            folder: folder.to_path_buf(),
            detached,
        };
        let topics = topics().into_iter().map(|topic| topic.name).collect();
        let ready = Ready::Kafka { address: port.address(), topics };
        let server = Managed::new(spec, ready, Duration::from_secs(60), Duration::from_secs(15));
        Ok(Self { server, port, _controller: controller })
    }
}

/// The template is formatted for node 1; another node is another node and folder of the same cluster.
fn rename(meta: &Path, node: usize) -> Result<()> {
    let text = std::fs::read_to_string(meta)?;
    let line = |line: &str| match line.split_once('=') {
        Some(("node.id", _)) => format!("node.id={node}\n"),
        Some(("directory.id", _)) => format!("directory.id={}\n", cluster_id()),
        _ => format!("{line}\n"),
    };
    std::fs::write(meta, text.lines().map(line).collect::<String>())?;
    Ok(())
}

impl std::ops::Deref for Kafka {
    type Target = Managed;

    fn deref(&self) -> &Managed {
        &self.brokers[0].server
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

/// A lost broker is replaced within about 3 s; the defaults need 8 to 12 s.
const FAST_FAILOVER: [(&str, &str); 6] = [
    ("controller.quorum.election.timeout.ms", "500"),
    ("controller.quorum.fetch.timeout.ms", "1000"),
    ("controller.quorum.request.timeout.ms", "1000"),
    ("replica.lag.time.max.ms", "3000"),
    ("replica.fetch.backoff.ms", "200"),
    ("leader.imbalance.check.interval.seconds", "5"),
];

/// The broker's settings; also used to format the template.
pub(crate) fn settings(data: &Path, node: usize, port: u16, controller: u16, voters: &[u16]) -> String {
    let fixed = [
        ("process.roles", "broker,controller"),
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
    let voters = voters.iter().enumerate().map(|(i, port)| format!("{}@127.0.0.1:{port}", i + 1));
    let voters: Vec<String> = voters.collect();
    text.push_str(&format!(
        "node.id={node}\nmin.insync.replicas={}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         controller.quorum.voters={}\n\
         log.dirs={}\n",
        voters.len().div_ceil(2),
        voters.join(","),
        data.display().to_string().replace('\\', "\\\\")
    ));
    if voters.len() > 1 {
        text.extend(FAST_FAILOVER.map(|(key, value)| format!("{key}={value}\n")));
    }
    text
}

/// A cluster id in Kafka's form: 22 characters of base64.
pub(crate) fn cluster_id() -> String {
    secrets::generate()[..22].to_owned()
}
