//! NATS: requests whose errors say whether anything was handed over, and subscriptions that are known to be active.
//!
//! Traps closed here: a request that was not given to the client is told apart from one without an answer; a new subscription
//! has made a round trip before it is returned; every subscription is drained at once into a bounded queue with a loss count;
//! while the server is away nothing blocks.

use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{HeaderMap, Subject};
use bytes::Bytes;
use lapwing_runtime::metrics::rpc;
use lapwing_runtime::{Health, OnError, SecretUrl, Tasks};
use tokio::sync::watch;

mod connection;
mod inbox;
mod message;
mod subscription;

pub use message::{Message, Responder};
pub use subscription::{Subscription, SubscriptionOptions};

use connection::{Events, dial, watch_health};
use inbox::Inbox;

/// The header that carries the trace.
pub const TRACEPARENT: &str = "traceparent";

/// How long the client's command channel may be full before a call is given up as not sent.
const ENQUEUE_TIMEOUT: Duration = Duration::from_millis(200);
const ROUND_TRIP_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a request has no answer. What matters is [`RequestError::nothing_sent`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// NATS answered that nobody listens on this subject: nobody got it.
    #[error("no responders on {0}")]
    NoResponders(String),
    /// Handed over; the other side may have acted or still act.
    #[error("no answer from {subject} within {after_ms} ms")]
    Timeout { subject: String, after_ms: u64 },
    /// Certain: nothing was handed to the NATS client.
    #[error("not sent: {0}")]
    NotSent(String),
    /// Certain: refused before it was handed over.
    #[error("{size} bytes are more than the {max} that NATS takes")]
    TooLarge { size: usize, max: usize },
    /// Handed over, then something broke: like a timeout, nobody can say.
    #[error("{0}")]
    Other(String),
}

impl RequestError {
    /// True: certainly nobody got the request (R-ACK-1: 502 unreachable). False: it may have been acted upon (504 unknown).
    pub fn nothing_sent(&self) -> bool {
        matches!(self, Self::NoResponders(_) | Self::NotSent(_) | Self::TooLarge { .. })
    }

    fn result(&self) -> &'static str {
        match self {
            Self::NoResponders(_) => "no_responders",
            Self::Timeout { .. } => "timeout",
            Self::NotSent(_) => "not_sent",
            Self::TooLarge { .. } => "too_large",
            Self::Other(_) => "other",
        }
    }
}

/// Clones are the same connection.
#[derive(Clone)]
pub struct Nats {
    inner: Arc<Inner>,
}

struct Inner {
    client: async_nats::Client,
    inbox: Inbox,
    tasks: Tasks,
    connects: watch::Receiver<u64>,
}

impl Nats {
    /// Connects, waiting as long as it takes (services start in any order; the check `nats` of `health` says what is missing).
    /// `name` is shown by the server's monitoring.
    pub async fn connect(
        url: &SecretUrl,
        name: &str,
        tasks: &Tasks,
        health: &Health,
    ) -> anyhow::Result<Self> {
        health.require("nats");
        let events = Arc::new(Events::default());
        let (client, connects) = (dial(url, name, &events).await?, events.connects.subscribe());
        while client.connection_state() != State::Connected {
            health.set("nats", Err(format!("{url}: not connected {}", events.trouble.lock())));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let inbox = Inbox::open(&client, tasks).await?;
        let nats = Self { inner: Arc::new(Inner { client, inbox, tasks: tasks.clone(), connects }) };
        nats.round_trip().await.map_err(|error| anyhow::anyhow!("NATS at {url}: {error}"))?;
        health.set("nats", Ok(()));
        tasks.spawn(
            "nats health",
            OnError::Log,
            watch_health(nats.clone(), health.clone(), url.to_string(), events),
        );
        Ok(nats)
    }

    pub fn is_connected(&self) -> bool {
        self.inner.client.connection_state() == State::Connected
    }

    /// Counts connections made: a change means that messages may have been missed in between, so resync what needs it.
    pub fn connects(&self) -> watch::Receiver<u64> {
        self.inner.connects.clone()
    }

    /// Asks and waits for the answer, `timeout` in all. Dropping the future leaves the outcome unknown.
    pub async fn request(
        &self,
        subject: &str,
        headers: &[(&str, &str)],
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, RequestError> {
        let timer = rpc("nats_request");
        let result = self.ask(subject, headers, payload, timeout).await;
        timer.done(result.as_ref().map_or_else(RequestError::result, |_| "ok"));
        result
    }

    async fn ask(
        &self,
        subject: &str,
        headers: &[(&str, &str)],
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, RequestError> {
        let deadline = tokio::time::Instant::now() + timeout;
        let waiting = self.inner.inbox.expect();
        let reply = Subject::from(waiting.subject());
        self.hand_over(subject, Some(reply), headers, payload, ENQUEUE_TIMEOUT.min(timeout)).await?;
        match tokio::time::timeout_at(deadline, waiting.answer()).await {
            Ok(Ok(answer)) if answer.status == Some(async_nats::StatusCode::NO_RESPONDERS) => {
                Err(RequestError::NoResponders(subject.to_owned()))
            }
            Ok(Ok(answer)) => Ok(answer.payload),
            Ok(Err(())) => Err(RequestError::Other(format!("the inbox closed while waiting for {subject}"))),
            Err(_) => Err(RequestError::Timeout {
                subject: subject.to_owned(),
                after_ms: timeout.as_millis() as u64,
            }),
        }
    }

    /// Sends without an answer. `Ok` means only that the client took it: it is lost if the server dies now.
    pub async fn publish(
        &self,
        subject: &str,
        headers: &[(&str, &str)],
        payload: Bytes,
    ) -> Result<(), RequestError> {
        self.hand_over(subject, None, headers, payload, ENQUEUE_TIMEOUT).await
    }

    /// Subscribes; messages wait in a bounded queue of their own. When this returns the server knows the subscription.
    pub async fn subscribe(
        &self,
        subject: &str,
        options: SubscriptionOptions,
    ) -> Result<Subscription, RequestError> {
        self.listen(subject, None, options).await
    }

    /// Like [`Nats::subscribe`], each message to one member of the group only.
    pub async fn queue_subscribe(
        &self,
        subject: &str,
        group: &str,
        options: SubscriptionOptions,
    ) -> Result<Subscription, RequestError> {
        self.listen(subject, Some(group), options).await
    }

    async fn listen(
        &self,
        subject: &str,
        group: Option<&str>,
        options: SubscriptionOptions,
    ) -> Result<Subscription, RequestError> {
        let client = &self.inner.client;
        let subject = subject.to_owned();
        let subscribing = async {
            match group {
                Some(group) => client.queue_subscribe(subject.clone(), group.to_owned()).await,
                None => client.subscribe(subject.clone()).await,
            }
        };
        let subscriber = match tokio::time::timeout(ROUND_TRIP_TIMEOUT, subscribing).await {
            Ok(Ok(subscriber)) => subscriber,
            Ok(Err(error)) => {
                return Err(RequestError::Other(format!("cannot subscribe to {subject}: {error}")));
            }
            Err(_) => {
                return Err(RequestError::NotSent(format!(
                    "cannot subscribe to {subject}: NATS takes nothing"
                )));
            }
        };
        let subscription = subscription::start(self, subscriber, subject, options);
        // The server reads one connection in order, so once a later message has come back, the subscription is active.
        self.round_trip().await?;
        Ok(subscription)
    }

    /// A message to ourselves and back: proves that the server reads, routes and writes.
    pub async fn round_trip(&self) -> Result<(), RequestError> {
        let waiting = self.inner.inbox.expect();
        let subject = waiting.subject();
        self.hand_over(&subject, None, &[], Bytes::new(), ENQUEUE_TIMEOUT).await?;
        match tokio::time::timeout(ROUND_TRIP_TIMEOUT, waiting.answer()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(())) => Err(RequestError::Other("the inbox closed".to_owned())),
            Err(_) => Err(RequestError::Timeout {
                subject: "own inbox".to_owned(),
                after_ms: ROUND_TRIP_TIMEOUT.as_millis() as u64,
            }),
        }
    }

    /// The one place where bytes go to the client. On `Err` it has certainly not got them.
    async fn hand_over(
        &self,
        subject: &str,
        reply: Option<Subject>,
        headers: &[(&str, &str)],
        payload: Bytes,
        limit: Duration,
    ) -> Result<(), RequestError> {
        if !subject_fits(subject) {
            return Err(RequestError::NotSent(format!("`{subject}` is no subject to publish to")));
        }
        let (size, max) = (payload.len(), self.inner.client.max_payload());
        if size > max {
            return Err(RequestError::TooLarge { size, max });
        }
        // While disconnected the client would hold commands back and send them whenever it is back.
        if !self.is_connected() {
            return Err(RequestError::NotSent("NATS is disconnected".to_owned()));
        }
        let client = &self.inner.client;
        let subject = subject.to_owned();
        let headers = header_map(headers);
        let sending = async {
            match (reply, headers) {
                (Some(reply), Some(headers)) => {
                    client.publish_with_reply_and_headers(subject, reply, headers, payload).await
                }
                (Some(reply), None) => client.publish_with_reply(subject, reply, payload).await,
                (None, Some(headers)) => client.publish_with_headers(subject, headers, payload).await,
                (None, None) => client.publish(subject, payload).await,
            }
        };
        // Cancelled while it waits for room in the command channel, a publish leaves nothing there.
        match tokio::time::timeout(limit, sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(RequestError::NotSent(error.to_string())),
            Err(_) => Err(RequestError::NotSent("NATS takes nothing, its command queue is full".to_owned())),
        }
    }
}

/// A subject to publish to: non-empty tokens, no wildcards, no white space (I8).
fn subject_fits(subject: &str) -> bool {
    !subject.is_empty()
        && subject
            .split('.')
            .all(|token| !token.is_empty() && !token.bytes().any(|b| b <= b' ' || b == b'*' || b == b'>'))
}

fn header_map(headers: &[(&str, &str)]) -> Option<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        // A value with a line break would panic in the client; it can only come from outside, so it is left out.
        if let (Ok(name), Ok(value)) =
            (name.parse::<async_nats::HeaderName>(), value.parse::<async_nats::HeaderValue>())
        {
            map.insert(name, value);
        }
    }
    (!map.is_empty()).then_some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    // I8
    #[test]
    fn only_plain_subjects_are_published_to() {
        for good in ["lw.r.r1", "lw", "_INBOX.a.b"] {
            assert!(subject_fits(good), "{good}");
        }
        for bad in ["", "lw.*", "lw.>", "lw..r", ".lw", "lw.", "lw.a b", "lw.a\r\nPUB x"] {
            assert!(!subject_fits(bad), "{bad:?} passed");
        }
    }

    #[test]
    fn a_header_value_that_would_break_the_protocol_is_left_out() {
        assert!(header_map(&[("traceparent", "a\r\nb")]).is_none());
        assert_eq!(header_map(&[("traceparent", "x")]).map(|map| map.len()), Some(1));
    }

    // R-ACK-6
    #[test]
    fn each_error_says_whether_anything_was_handed_over() {
        assert!(RequestError::NotSent(String::new()).nothing_sent());
        assert!(RequestError::NoResponders(String::new()).nothing_sent());
        assert!(!RequestError::Timeout { subject: String::new(), after_ms: 1 }.nothing_sent());
        assert!(!RequestError::Other(String::new()).nothing_sent());
    }
}
