//! Kafka: the idempotent producer (rdkafka), ordered partition readers and admin calls (rskafka).

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rskafka::BackoffConfig;
use rskafka::client::{Client, ClientBuilder};

mod admin;
mod producer;
mod reader;

pub use admin::{AdminError, TopicSpec};
pub use producer::{Delivery, DeliveryError, Outcome, Producer, ProducerOptions, SendError};
pub use reader::{Fetched, PartitionReader, RawRecord, ReadError};

/// The longest that a fresh client may take to learn who leads what.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Answers larger than this are refused: far above any fetch that is asked for.
const MAX_ANSWER: usize = 64 << 20;

/// A cluster, by its bootstrap addresses. Clones share one metadata client; each partition reads on connections of its own.
#[derive(Clone)]
pub struct Kafka {
    inner: Arc<Inner>,
}

struct Inner {
    brokers: Vec<String>,
    client_id: String,
    current: Mutex<Option<Fresh>>,
    opening: tokio::sync::Mutex<()>,
    refused: Mutex<Option<(Instant, String)>>,
}

#[derive(Clone)]
struct Fresh {
    generation: u64,
    client: Arc<Client>,
}

impl Kafka {
    /// `brokers`: `host:port,host:port`. Nothing is connected yet. `client_id` is shown in the brokers' logs.
    pub fn new(brokers: &str, client_id: &str) -> Self {
        let brokers =
            brokers.split(',').map(|broker| broker.trim().to_owned()).filter(|b| !b.is_empty()).collect();
        Self {
            inner: Arc::new(Inner {
                brokers,
                client_id: client_id.to_owned(),
                current: Mutex::new(None),
                opening: tokio::sync::Mutex::new(()),
                refused: Mutex::new(None),
            }),
        }
    }

    pub fn brokers(&self) -> String {
        self.inner.brokers.join(",")
    }

    pub fn client_id(&self) -> &str {
        &self.inner.client_id
    }

    /// A client newer than the one that failed (`after` its generation), made once however many readers ask.
    async fn client(&self, after: u64) -> Result<Fresh, String> {
        let usable = |current: &Option<Fresh>| current.clone().filter(|fresh| fresh.generation > after);
        if let Some(fresh) = usable(&self.inner.current.lock()) {
            return Ok(fresh);
        }
        let asked = Instant::now();
        let _one = self.inner.opening.lock().await;
        if let Some(fresh) = usable(&self.inner.current.lock()) {
            return Ok(fresh);
        }
        // Whoever waited behind a failed attempt fails with it: a queue of readers must not try one after the other.
        if let Some((_, text)) = self.inner.refused.lock().clone().filter(|(when, _)| *when > asked) {
            return Err(text);
        }
        let client = self.dial().await.inspect_err(|text| {
            *self.inner.refused.lock() = Some((Instant::now(), text.clone()));
        })?;
        let mut current = self.inner.current.lock();
        let generation = current.as_ref().map_or(0, |fresh| fresh.generation).max(after) + 1;
        let fresh = Fresh { generation, client };
        *current = Some(fresh.clone());
        Ok(fresh)
    }

    async fn dial(&self) -> Result<Arc<Client>, String> {
        let building = ClientBuilder::new(self.inner.brokers.clone())
            .client_id(self.inner.client_id.clone())
            .max_message_size(MAX_ANSWER)
            .backoff_config(backoff())
            .build();
        match tokio::time::timeout(CONNECT_TIMEOUT, building).await {
            Ok(Ok(client)) => Ok(Arc::new(client)),
            Ok(Err(error)) => Err(format!("no broker of {} answers: {error}", self.brokers())),
            Err(_) => Err(format!("no broker of {} answered within 5 s", self.brokers())),
        }
    }
}

/// Without a deadline the library would try for ever.
fn backoff() -> BackoffConfig {
    BackoffConfig {
        init_backoff: Duration::from_millis(20),
        max_backoff: Duration::from_millis(250),
        base: 2.0,
        deadline: Some(Duration::from_secs(2)),
    }
}
