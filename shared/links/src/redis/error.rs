//! What a call can end with: whether it may have run is what matters.

use super::Redis;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedisError {
    /// Sent, no answer in time: it may have run or may run yet. Scripts are idempotent, so call again.
    #[error("redis {instance}: no answer within {after_ms} ms, the command may have run")]
    Timeout { instance: String, after_ms: u64 },
    /// No connection, or it broke; a command that was under way may have run.
    #[error("redis {instance}: {text}")]
    Down { instance: String, text: String },
    /// The instance is a replica now; nothing was changed. A new connection is being made.
    #[error("redis {instance} is read-only: it was demoted")]
    ReadOnly { instance: String },
    /// Out of memory, loading its data, or busy with a script: nothing was changed, try again.
    #[error("redis {instance} cannot now: {text}")]
    Busy { instance: String, text: String },
    /// The script said no, or is wrong.
    #[error("redis {instance}, {name}: {text}")]
    Script { instance: String, name: &'static str, text: String },
}

impl RedisError {
    /// Whether the same call may succeed later; false for a script's own error.
    pub fn is_temporary(&self) -> bool {
        !matches!(self, Self::Script { .. })
    }

    pub(super) fn result(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::Down { .. } => "down",
            Self::ReadOnly { .. } => "read_only",
            Self::Busy { .. } => "busy",
            Self::Script { .. } => "error",
        }
    }
}

/// Inside this module a missing script is not yet an error: it is loaded and run again.
pub(super) enum Failed {
    NoScript,
    Error(RedisError),
}

impl Failed {
    pub(super) fn result(&self) -> &'static str {
        match self {
            Self::NoScript => "no_script",
            Self::Error(error) => error.result(),
        }
    }

    pub(super) fn into_error(self, redis: &Redis, name: &'static str) -> RedisError {
        match self {
            Self::Error(error) => error,
            Self::NoScript => RedisError::Script {
                instance: redis.inner.instance.clone(),
                name,
                text: "NOSCRIPT".to_owned(),
            },
        }
    }
}

impl From<RedisError> for Failed {
    fn from(error: RedisError) -> Self {
        Self::Error(error)
    }
}
