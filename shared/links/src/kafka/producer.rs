//! The one producer of a router: idempotent, all replicas, in order, bounded in bytes, never blocking its caller.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use lapwing_runtime::metrics::LINK_EVENTS_TOTAL;
use lapwing_runtime::queue::{Budget, Hold};
use parking_lot::RwLock;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer};
use tokio::sync::oneshot;

use super::Kafka;

/// A record costs this much besides its bytes.
const RECORD_OVERHEAD: usize = 256;

#[derive(Debug, Clone)]
pub struct ProducerOptions {
    /// When a send that is not acknowledged becomes a final failure. Longer than any outage that should pass unnoticed, since
    /// idempotence ends with it.
    pub delivery_timeout: Duration,
    /// Sends beyond this many bytes in flight get [`SendError::QueueFull`] at once.
    pub in_flight_bytes: usize,
    /// Above the largest record, at most the broker's `message.max.bytes`.
    pub message_max_bytes: usize,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            delivery_timeout: Duration::from_secs(60),
            in_flight_bytes: 32 << 20,
            message_max_bytes: 2 << 20,
        }
    }
}

/// Certain: the record was not given to the producer and will not be in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("{in_flight} bytes are in flight to Kafka, no room for more")]
    QueueFull { in_flight: usize },
    #[error("a record of {size} bytes is larger than the {max} allowed")]
    TooLarge { size: usize, max: usize },
    #[error("the Kafka producer refused the record: {0}")]
    Refused(String),
}

/// A final failure: nobody can say whether the record is, or will be, in the log, once or more. The owner claims again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Kafka did not acknowledge the record to {topic}/{partition}: {text}")]
pub struct DeliveryError {
    pub topic: String,
    pub partition: i32,
    pub text: String,
}

/// Resolves to the record's offset once all in-sync replicas have it. Dropping it changes nothing for the record.
pub struct Delivery {
    answer: oneshot::Receiver<Result<i64, DeliveryError>>,
}

impl Future for Delivery {
    type Output = Result<i64, DeliveryError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(cx).map(|answer| {
            answer.unwrap_or_else(|_| {
                let text = "the producer ended".to_owned();
                Err(DeliveryError { topic: String::new(), partition: -1, text })
            })
        })
    }
}

/// Clones are the same producer.
#[derive(Clone)]
pub struct Producer {
    inner: Arc<Inner>,
}

struct Inner {
    config: ClientConfig,
    options: ProducerOptions,
    in_flight: Arc<Budget>,
    current: RwLock<Arc<Running>>,
}

struct Running {
    producer: ThreadedProducer<Events>,
    fatal: Arc<AtomicBool>,
}

impl Producer {
    /// Connects in the background; sends made before are kept in order within the delivery timeout.
    pub fn new(kafka: &Kafka, options: ProducerOptions) -> anyhow::Result<Self> {
        let config = config(&kafka.brokers(), kafka.client_id(), &options);
        let in_flight = Budget::new("kafka_produce", options.in_flight_bytes);
        let running = start(&config)?;
        Ok(Self {
            inner: Arc::new(Inner { config, options, in_flight, current: RwLock::new(Arc::new(running)) }),
        })
    }

    /// Takes a record or refuses it at once. Records of one partition stand in the log in the order of these calls (unless one of
    /// them fails for good). `key` empty: no key. Headers are UTF-8 by type, since one that is not makes a reader's whole fetch
    /// fail.
    pub fn send(
        &self,
        topic: &str,
        partition: i32,
        key: &[u8],
        headers: &[(&str, &str)],
        payload: &[u8],
    ) -> Result<Delivery, SendError> {
        let (sender, answer) = oneshot::channel();
        self.send_to(topic, partition, key, headers, payload, Box::new(OneShot(sender)))?;
        Ok(Delivery { answer })
    }

    /// Like [`Producer::send`], for who sends much: the outcome is told to `outcome` on the producer's own thread, which must
    /// return at once.
    pub fn send_to(
        &self,
        topic: &str,
        partition: i32,
        key: &[u8],
        headers: &[(&str, &str)],
        payload: &[u8],
        outcome: Box<dyn Outcome>,
    ) -> Result<(), SendError> {
        let size = payload.len()
            + key.len()
            + headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let max = self.inner.options.message_max_bytes.saturating_sub(RECORD_OVERHEAD);
        if size > max {
            return Err(SendError::TooLarge { size, max });
        }
        let held = self.inner.in_flight.hold(size + RECORD_OVERHEAD);
        let held = held.ok_or_else(|| SendError::QueueFull { in_flight: self.in_flight_bytes() })?;
        let running = self.running()?;
        let mut owned = OwnedHeaders::new_with_capacity(headers.len());
        for (name, value) in headers {
            owned = owned.insert(Header { key: name, value: Some(*value) });
        }
        let opaque = Box::new(Pending { outcome: Some(outcome), held: Some(held) });
        let mut record = BaseRecord::<[u8], [u8], Box<Pending>>::with_opaque_to(topic, opaque)
            .partition(partition)
            .payload(payload);
        if !key.is_empty() {
            record = record.key(key);
        }
        if !headers.is_empty() {
            record = record.headers(owned);
        }
        let refused = match running.producer.send(record) {
            Ok(()) => return Ok(()),
            Err((_, mut record)) if running.producer.client().fatal_error().is_some() => {
                // Not taken, so it may go to the next producer; what the broken one held fails on its own.
                running.fatal.store(true, Ordering::Relaxed);
                match self.running() {
                    Ok(next) => next.producer.send(record),
                    Err(error) => {
                        record.delivery_opaque.outcome = None;
                        return Err(error);
                    }
                }
            }
            Err(refused) => Err(refused),
        };
        match refused {
            Ok(()) => Ok(()),
            Err((error, mut record)) => {
                record.delivery_opaque.outcome = None;
                Err(match error {
                    KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) => {
                        SendError::QueueFull { in_flight: self.in_flight_bytes() }
                    }
                    error => SendError::Refused(error.to_string()),
                })
            }
        }
    }

    /// Bytes given to Kafka and not yet acknowledged or failed.
    pub fn in_flight_bytes(&self) -> usize {
        self.inner.in_flight.used()
    }

    /// Waits until everything in flight is acknowledged or failed; false if that took longer.
    pub async fn flush(&self, timeout: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + timeout;
        while self.in_flight_bytes() > 0 {
            if tokio::time::Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        true
    }

    /// The running producer; one with a fatal error (an idempotence violation) is replaced, since it would refuse everything.
    fn running(&self) -> Result<Arc<Running>, SendError> {
        let running = self.inner.current.read().clone();
        if !running.fatal.load(Ordering::Relaxed) {
            return Ok(running);
        }
        let mut current = self.inner.current.write();
        if current.fatal.load(Ordering::Relaxed) {
            metrics::counter!(LINK_EVENTS_TOTAL, "link" => "kafka", "event" => "fatal").increment(1);
            let fresh =
                start(&self.inner.config).map_err(|error| SendError::Refused(format!("{error:#}")))?;
            let old = std::mem::replace(&mut *current, Arc::new(fresh));
            // Dropping it purges and waits up to half a second, which no caller may pay for.
            std::thread::spawn(move || drop(old));
        }
        Ok(current.clone())
    }
}

fn start(config: &ClientConfig) -> anyhow::Result<Running> {
    let fatal = Arc::new(AtomicBool::new(false));
    let events = Events { fatal: fatal.clone() };
    let producer: ThreadedProducer<Events> = config
        .create_with_context(events)
        .map_err(|error| anyhow::anyhow!("cannot make the Kafka producer: {error}"))?;
    Ok(Running { producer, fatal })
}

fn config(brokers: &str, client_id: &str, options: &ProducerOptions) -> ClientConfig {
    let kbytes = (options.in_flight_bytes / 1024).max(1024) * 2;
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers)
        .set("client.id", client_id)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("max.in.flight.requests.per.connection", "5")
        // Batches form while one is in flight; waiting for them would only add delay.
        .set("linger.ms", "0")
        .set("socket.nagle.disable", "true")
        .set("compression.type", "none")
        .set("message.timeout.ms", options.delivery_timeout.as_millis().to_string())
        .set("message.max.bytes", options.message_max_bytes.to_string())
        .set("request.timeout.ms", "10000")
        .set("socket.connection.setup.timeout.ms", "3000")
        .set("socket.keepalive.enable", "true")
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "500")
        .set("retry.backoff.ms", "50")
        .set("retry.backoff.max.ms", "500")
        // Our own bound comes first and answers by name; the library's stands behind it.
        .set("queue.buffering.max.kbytes", kbytes.to_string())
        .set("queue.buffering.max.messages", "1000000")
        .set("log.connection.close", "false");
    config
}

/// Hears once what became of one send that was taken.
pub trait Outcome: Send + Sync + 'static {
    fn settled(self: Box<Self>, result: Result<i64, DeliveryError>);
}

struct OneShot(oneshot::Sender<Result<i64, DeliveryError>>);

impl Outcome for OneShot {
    fn settled(self: Box<Self>, result: Result<i64, DeliveryError>) {
        let _ = self.0.send(result);
    }
}

struct Pending {
    /// None once it was told, or was refused and so is not pending.
    outcome: Option<Box<dyn Outcome>>,
    /// Given back when the record is acknowledged, failed or refused.
    held: Option<Hold>,
}

impl Pending {
    fn settle(&mut self, result: impl FnOnce() -> Result<i64, DeliveryError>) {
        // Its bytes are free before anybody hears of it.
        drop(self.held.take());
        if let Some(outcome) = self.outcome.take() {
            outcome.settled(result());
        }
    }
}

impl Drop for Pending {
    /// A producer that is gone says nothing more.
    fn drop(&mut self) {
        self.settle(|| {
            let text = "the producer ended".to_owned();
            Err(DeliveryError { topic: String::new(), partition: -1, text })
        });
    }
}

struct Events {
    fatal: Arc<AtomicBool>,
}

impl ClientContext for Events {
    fn error(&self, error: KafkaError, reason: &str) {
        if matches!(error, KafkaError::Global(RDKafkaErrorCode::Fatal)) {
            self.fatal.store(true, Ordering::Relaxed);
            tracing::error!("Kafka producer: {error}: {reason}; it is replaced");
        } else {
            metrics::counter!(LINK_EVENTS_TOTAL, "link" => "kafka", "event" => "producer_error").increment(1);
            tracing::warn!("Kafka producer: {error}: {reason}");
        }
    }
}

impl ProducerContext for Events {
    type DeliveryOpaque = Box<Pending>;

    fn delivery(&self, result: &DeliveryResult<'_>, mut pending: Box<Pending>) {
        pending.settle(|| match result {
            Ok(message) => Ok(message.offset()),
            Err((error, message)) => {
                if matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::Fatal)) {
                    self.fatal.store(true, Ordering::Relaxed);
                }
                Err(DeliveryError {
                    topic: message.topic().to_owned(),
                    partition: message.partition(),
                    text: error.to_string(),
                })
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I7, R-ACK-6: without any broker, so all of it stays in flight
    #[tokio::test]
    async fn bytes_in_flight_are_bounded_and_refused_at_once() {
        let kafka = Kafka::new("127.0.0.1:1", "test");
        let options = ProducerOptions {
            in_flight_bytes: 10_000,
            delivery_timeout: Duration::from_millis(300),
            ..ProducerOptions::default()
        };
        let producer = Producer::new(&kafka, options).unwrap();
        let body = vec![7u8; 4_000];
        let first = producer.send("t", 0, b"k", &[("traceparent", "x")], &body).unwrap();
        let _second = producer.send("t", 0, b"k", &[], &body).unwrap();
        let refused = producer.send("t", 0, b"k", &[], &body);
        assert!(matches!(refused, Err(SendError::QueueFull { in_flight }) if in_flight > 8_000));
        let huge = producer.send("t", 0, b"k", &[], &vec![0; 3 << 20]);
        assert!(matches!(huge, Err(SendError::TooLarge { .. })));
        let failure = first.await.unwrap_err();
        assert_eq!((failure.topic.as_str(), failure.partition), ("t", 0));
        assert!(producer.flush(Duration::from_secs(2)).await, "failed sends give their bytes back");
        assert!(producer.send("t", 0, b"k", &[], &body).is_ok());
    }

    struct Heard(std::sync::mpsc::Sender<Result<i64, DeliveryError>>);

    impl Outcome for Heard {
        fn settled(self: Box<Self>, result: Result<i64, DeliveryError>) {
            let _ = self.0.send(result);
        }
    }

    // I1: what was refused is not in the log and is told by the return alone; what was taken is told once, also by a producer that
    // ends.
    #[tokio::test]
    async fn an_outcome_is_heard_once_and_not_of_what_was_refused() {
        let options = ProducerOptions { in_flight_bytes: 5_000, ..ProducerOptions::default() };
        let producer = Producer::new(&Kafka::new("127.0.0.1:1", "test"), options).unwrap();
        let (taken, of_taken) = std::sync::mpsc::channel();
        let (refused, of_refused) = std::sync::mpsc::channel();
        let body = vec![7u8; 4_000];
        producer.send_to("t", 0, b"", &[], &body, Box::new(Heard(taken))).unwrap();
        assert!(producer.send_to("t", 0, b"", &[], &body, Box::new(Heard(refused))).is_err());
        assert_eq!(
            of_refused.try_recv(),
            Err(std::sync::mpsc::TryRecvError::Disconnected),
            "unheard and gone"
        );
        assert_eq!(of_taken.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty), "still on its way");
        drop(producer);
        let told = of_taken.recv_timeout(Duration::from_secs(5)).unwrap();
        assert!(told.is_err(), "{told:?}");
        assert!(of_taken.recv_timeout(Duration::from_secs(1)).is_err(), "once");
    }

    // An idempotence violation makes the library refuse everything from then on; brokers are simulated by the library itself.
    #[tokio::test]
    async fn a_producer_with_a_fatal_error_is_replaced() {
        use rdkafka::mocking::MockCluster;
        use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t", 1, 1).unwrap();
        let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
        cluster.request_errors(RDKafkaApiKey::InitProducerId, &[denied]);
        let producer =
            Producer::new(&Kafka::new(&cluster.bootstrap_servers(), "test"), ProducerOptions::default())
                .unwrap();
        let first = producer.send("t", 0, b"", &[], b"first").unwrap();
        let failure = tokio::time::timeout(Duration::from_secs(10), first).await.unwrap().unwrap_err();
        assert_eq!((failure.topic.as_str(), failure.partition), ("t", 0), "{failure}");
        let mut offsets = Vec::new();
        for n in 0..3 {
            let sent = producer.send("t", 0, b"", &[], format!("{n}").as_bytes()).unwrap();
            offsets.push(tokio::time::timeout(Duration::from_secs(10), sent).await.unwrap().unwrap());
        }
        assert_eq!(offsets, [0, 1, 2]);
        assert!(producer.flush(Duration::from_secs(1)).await);
    }
}
