//! Topics: are they there, with how many partitions; create what is missing.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;

use super::Kafka;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A topic as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSpec {
    pub name: String,
    pub partitions: i32,
    pub replication: i32,
    /// Topic settings such as `("cleanup.policy", "compact")`.
    pub settings: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    #[error("Kafka: {0}")]
    Unavailable(String),
    #[error("topic {topic} was not created: {text}")]
    Refused { topic: String, text: String },
    /// A number of partitions is fixed for the life of a cluster: conversations would change their log.
    #[error("topic {topic} has {found} partitions, the configuration says {expected}")]
    OtherPartitionCount { topic: String, found: i32, expected: i32 },
}

impl Kafka {
    /// How many partitions a topic has; `None` if there is no such topic.
    pub async fn partition_count(&self, topic: &str) -> Result<Option<i32>, AdminError> {
        Ok(self.topics().await?.into_iter().find(|(name, _)| name == topic).map(|(_, partitions)| partitions))
    }

    pub async fn topic_exists(&self, topic: &str) -> Result<bool, AdminError> {
        Ok(self.partition_count(topic).await?.is_some())
    }

    /// All topics with their number of partitions.
    pub async fn topics(&self) -> Result<Vec<(String, i32)>, AdminError> {
        let mut failed = 0;
        // A second time over a fresh client: the shared one may hold a connection to a broker that has gone.
        loop {
            let fresh = self.client(failed).await.map_err(AdminError::Unavailable)?;
            let text = match tokio::time::timeout(TIMEOUT / 2, fresh.client.list_topics()).await {
                Ok(Ok(topics)) => {
                    return Ok(topics.into_iter().map(|t| (t.name, t.partitions.len() as i32)).collect());
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer within 5 s".to_owned(),
            };
            if failed > 0 {
                return Err(AdminError::Unavailable(format!("{}: {text}", self.brokers())));
            }
            failed = fresh.generation;
        }
    }

    /// Creates the topics that are missing and checks the number of partitions of those that are there.
    pub async fn ensure_topics(&self, wanted: &[TopicSpec]) -> Result<(), AdminError> {
        let existing = self.topics().await?;
        let found = |name: &str| existing.iter().find(|(topic, _)| topic == name).map(|(_, count)| *count);
        let mut missing = Vec::new();
        for spec in wanted {
            match found(&spec.name) {
                None => missing.push(spec),
                Some(count) if count == spec.partitions => {}
                Some(count) => {
                    return Err(AdminError::OtherPartitionCount {
                        topic: spec.name.clone(),
                        found: count,
                        expected: spec.partitions,
                    });
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        self.create(&missing).await?;
        self.seen(&missing).await
    }

    /// A broker answers that a topic is made before its own metadata shows it.
    async fn seen(&self, made: &[&TopicSpec]) -> Result<(), AdminError> {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let existing = self.topics().await?;
            let shown = |spec: &&TopicSpec| existing.contains(&(spec.name.clone(), spec.partitions));
            if made.iter().all(shown) {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                let text = "the topics were made but the broker does not show them".to_owned();
                return Err(AdminError::Unavailable(text));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn create(&self, missing: &[&TopicSpec]) -> Result<(), AdminError> {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", self.brokers())
            .set("client.id", self.client_id())
            .set("log.connection.close", "false")
            .create()
            .map_err(|error| AdminError::Unavailable(error.to_string()))?;
        let topics: Vec<NewTopic<'_>> = missing
            .iter()
            .map(|spec| {
                let topic =
                    NewTopic::new(&spec.name, spec.partitions, TopicReplication::Fixed(spec.replication));
                spec.settings.iter().fold(topic, |topic, (key, value)| topic.set(key, value))
            })
            .collect();
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT));
        let results = match tokio::time::timeout(TIMEOUT * 2, admin.create_topics(&topics, &options)).await {
            Ok(Ok(results)) => results,
            Ok(Err(error)) => return Err(AdminError::Unavailable(error.to_string())),
            Err(_) => {
                return Err(AdminError::Unavailable("creating topics: no answer within 20 s".to_owned()));
            }
        };
        for result in results {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((topic, code)) => return Err(AdminError::Refused { topic, text: code.to_string() }),
            }
        }
        Ok(())
    }
}
