use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use crate::codec::Encoding;

pub type TokenSource = dyn Fn() -> Pin<Box<dyn Future<Output = anyhow::Result<String>> + Send>> + Send + Sync;

/// Where the JWT comes from. A source is asked again when the server says 401.
#[derive(Clone)]
pub enum Token {
    Fixed(String),
    Source(Arc<TokenSource>),
}

impl Token {
    pub(crate) async fn get(&self) -> anyhow::Result<String> {
        match self {
            Token::Fixed(token) => Ok(token.clone()),
            Token::Source(source) => source().await,
        }
    }

    pub(crate) fn renewable(&self) -> bool {
        matches!(self, Token::Source(_))
    }
}

impl From<String> for Token {
    fn from(token: String) -> Self {
        Token::Fixed(token)
    }
}

#[derive(Clone)]
pub struct Options {
    /// Gateways, `ws://host:port` each (the path defaults to /v1/ws). The first is tried first, the others when it fails.
    pub urls: Vec<String>,
    pub token: Token,
    /// Stable per installation: a device that connects again takes its session over.
    pub device: String,
    /// Newest seq held per conversation; delivery goes on behind it.
    pub cursors: Vec<(String, u64)>,
    /// Ask for `persisted` pushes of own messages.
    pub receipts: bool,
    pub encoding: Encoding,
    pub reconnect: bool,
    /// Tell the server what was delivered, cumulatively.
    pub acks: bool,
    /// How often at most; never below a second (R-FAN-14).
    pub ack_every: Duration,
    /// How long the first connect tries; zero: each url once.
    pub patience: Duration,
    /// For each step of getting a session: TCP, upgrade, welcome.
    pub step_timeout: Duration,
    /// For the answer to one request; above the gateway's own 5 s, so that its 504 comes first.
    pub answer_timeout: Duration,
    pub retry: RetryPolicy,
    /// Events waiting for the application before the reader stops reading (typed stream only).
    pub event_queue: usize,
    /// Frames waiting for the socket.
    pub write_queue: usize,
}

impl Options {
    pub fn new(url: impl Into<String>, token: impl Into<Token>, device: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            token: token.into(),
            device: device.into(),
            cursors: Vec::new(),
            receipts: false,
            encoding: Encoding::Proto,
            reconnect: true,
            acks: true,
            ack_every: Duration::from_secs(1),
            patience: Duration::ZERO,
            step_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(10),
            retry: RetryPolicy::default(),
            event_queue: 1024,
            write_queue: 256,
        }
    }
}

/// How long `publish` goes on before it reports what it has.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    pub max_attempts: u32,
    pub max_elapsed: Duration,
    /// Older than this a message is never sent again (dedupe window less 10 min, R-ACK-4).
    pub max_age: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: u32::MAX,
            max_elapsed: Duration::from_secs(60),
            max_age: Duration::from_secs(110 * 60),
        }
    }
}

impl RetryPolicy {
    /// One attempt, whatever comes of it.
    pub fn once() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }
}
