use std::{fmt, time::Duration};

use lapwing_proto::client as proto;

/// What the client was doing when it failed (R-GW-9: an error names the step, the address and the code).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    Nodes,
    Resolve,
    Dial,
    Upgrade,
    Connect,
    Publish,
    History,
    Sync,
    Refresh,
    Receive,
    Http,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Nodes => "nodes",
            Step::Resolve => "resolve",
            Step::Dial => "dial",
            Step::Upgrade => "upgrade",
            Step::Connect => "connect",
            Step::Publish => "publish",
            Step::History => "history",
            Step::Sync => "sync",
            Step::Refresh => "refresh",
            Step::Receive => "receive",
            Step::Http => "http",
        })
    }
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("{step} at {address}: {kind}")]
pub struct ClientError {
    pub step: Step,
    pub address: String,
    pub kind: ErrorKind,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum ErrorKind {
    #[error("{0}")]
    Io(String),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("HTTP {status}: {body}")]
    Status { status: u16, body: String },
    #[error("{} {}: {} (trace {})", .0.code, .0.name, .0.message, .0.trace_id)]
    Answer(Box<proto::Error>),
    #[error("connection closed, code {code} {reason}")]
    Closed { code: u16, reason: String },
    #[error("the other side does not speak the protocol: {0}")]
    Protocol(String),
    #[error("not connected: {0}")]
    Offline(String),
}

impl ClientError {
    pub(crate) fn new(step: Step, address: impl Into<String>, kind: ErrorKind) -> Self {
        Self { step, address: address.into(), kind }
    }

    pub(crate) fn io(step: Step, address: &str, error: impl fmt::Display) -> Self {
        Self::new(step, address, ErrorKind::Io(error.to_string()))
    }

    /// HTTP-like code of the refusal, when there is one.
    pub fn code(&self) -> Option<u32> {
        match &self.kind {
            ErrorKind::Answer(error) => Some(error.code),
            ErrorKind::Status { status, .. } => Some(u32::from(*status)),
            ErrorKind::Closed { code, .. } => Some(u32::from(*code)),
            _ => None,
        }
    }

    /// Whether connecting again can help: close codes 4500–4999 and definitive refusals say no.
    pub fn reconnect(&self) -> bool {
        match &self.kind {
            ErrorKind::Closed { code, .. } => !(4500..5000).contains(code),
            ErrorKind::Answer(error) => error.temporary || error.code >= 500,
            ErrorKind::Status { status, .. } => *status >= 500 || *status == 429,
            ErrorKind::Protocol(_) => false,
            _ => true,
        }
    }

    /// The token was not accepted: a fresh one may be.
    pub fn unauthenticated(&self) -> bool {
        matches!(self.code(), Some(401 | 4501))
    }
}
