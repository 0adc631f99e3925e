//! Bytes of the log ⇄ records: one decode for all readers, the content hash, Kafka keys.

use bytes::Bytes;
use lapwing_proto::{
    Message as _, client,
    record::{self, Record, record::Body},
};

use crate::{ConversationKey, Position, Rule, Verdict};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    #[error("record {offset} has no value")]
    Empty { offset: u64 },
    #[error("record {offset} cannot be read: {problem}")]
    Malformed { offset: u64, problem: String },
}

pub fn decode(offset: u64, value: Option<&[u8]>) -> Result<Record, BadRecord> {
    let value = value.ok_or(BadRecord::Empty { offset })?;
    let record =
        Record::decode(value).map_err(|error| BadRecord::Malformed { offset, problem: error.to_string() })?;
    if record.body.is_none() {
        return Err(BadRecord::Malformed { offset, problem: "no body of a known kind".to_owned() });
    }
    Ok(record)
}

/// Judges a record by the one rule.
pub fn follow(at: &mut Position, offset: u64, record: &Record) -> Verdict {
    follow_by(Rule::WHOLE, at, offset, record)
}

#[doc(hidden)]
pub fn follow_by(rule: Rule, at: &mut Position, offset: u64, record: &Record) -> Verdict {
    at.follow_by(rule, offset, matches!(record.body, Some(Body::Claim(_))), record.epoch, record.index)
}

/// Whether the record is an event of a conversation (claims and beats are not).
pub fn is_event(record: &Record) -> bool {
    record.seq > 0
}

pub fn key_of(record: &Record) -> ConversationKey {
    ConversationKey::new(record.tenant.as_str(), record.conversation.as_str())
}

/// The Kafka key of a conversation's records.
pub fn kafka_key(key: &ConversationKey) -> Bytes {
    Bytes::from([key.tenant.as_bytes(), &[0], key.conversation.as_bytes()].concat())
}

/// The Kafka key of a cursor.
pub fn cursor_key(cursor: &record::CursorRecord) -> Bytes {
    let fields = [cursor.tenant.as_str(), cursor.conversation.as_str(), cursor.user.as_str()];
    Bytes::from(fields.join("\0").into_bytes())
}

/// 16 bytes that tell whether a retry carries the same content to the same conversation (R-ACK-4).
pub fn content_hash(key: &ConversationKey, content: &client::Content) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    let mut field = |tag: u8, bytes: &[u8]| {
        hasher.update(&[tag]);
        hasher.update(&(bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    field(0, key.tenant.as_bytes());
    field(1, key.conversation.as_bytes());
    field(2, content.r#type.as_bytes());
    match &content.body {
        Some(client::content::Body::Text(text)) => field(3, text.as_bytes()),
        Some(client::content::Body::Data(data)) => field(4, data),
        None => {}
    }
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    short
}

/// Bytes of a content's body.
pub fn content_len(content: &client::Content) -> usize {
    let body = match &content.body {
        Some(client::content::Body::Text(text)) => text.len(),
        Some(client::content::Body::Data(data)) => data.len(),
        None => 0,
    };
    body + content.r#type.len()
}
