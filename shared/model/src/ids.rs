//! Ids given by users: length- and charset-checked once, at the edge, and never part of a NATS subject (I8).

use std::{fmt, sync::Arc};

/// Longest tenant, user, device, client_mid and group name, in bytes.
pub const MAX_ID: usize = 64;
/// Longest conversation id, in bytes.
pub const MAX_CONVERSATION: usize = 72;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be 1–{max} bytes of [A-Za-z0-9_.@-]")]
pub struct BadId {
    pub what: &'static str,
    pub max: usize,
}

fn check(what: &'static str, id: &str, max: usize) -> Result<(), BadId> {
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'@' | b'-');
    if id.is_empty() || id.len() > max || !id.bytes().all(good) { Err(BadId { what, max }) } else { Ok(()) }
}

/// Checks a tenant, user, device, client_mid or group name; `what` names it in the error.
pub fn check_id(what: &'static str, id: &str) -> Result<(), BadId> {
    check(what, id, MAX_ID)
}

pub fn check_conversation(id: &str) -> Result<(), BadId> {
    check("conversation", id, MAX_CONVERSATION)
}

/// A conversation of a tenant: the unit of order.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversationKey {
    pub tenant: Arc<str>,
    pub conversation: Arc<str>,
}

impl ConversationKey {
    pub fn new(tenant: impl Into<Arc<str>>, conversation: impl Into<Arc<str>>) -> Self {
        Self { tenant: tenant.into(), conversation: conversation.into() }
    }

    /// 64 bits that stand for it in interest tables and lanes.
    pub fn hash64(&self) -> u64 {
        crate::bucket::hash64(&["conversation", &self.tenant, &self.conversation])
    }
}

impl fmt::Debug for ConversationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.conversation)
    }
}

impl fmt::Display for ConversationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_ids_are_refused_and_case_kept_apart() {
        for bad in ["", "*", ">", "a b", "a\r\nb", "a\0", "{x}", "a:b", "a/b", "ä", " a", "a "] {
            assert!(check_id("user", bad).is_err(), "{bad:?}");
        }
        assert!(check_id("user", &"x".repeat(64)).is_ok() && check_id("user", &"x".repeat(65)).is_err());
        assert_ne!(ConversationKey::new("t", "A").hash64(), ConversationKey::new("t", "a").hash64());
    }
}
