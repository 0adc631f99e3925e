//! What a subscriber gets.

use async_nats::{HeaderMap, Subject};
use bytes::Bytes;

use super::{Nats, RequestError, TRACEPARENT};

pub struct Message {
    pub payload: Bytes,
    /// Bytes on the wire, headers included.
    pub(super) length: usize,
    subject: Subject,
    reply: Option<Subject>,
    headers: Option<HeaderMap>,
    nats: Nats,
}

impl Message {
    pub(super) fn new(message: async_nats::Message, nats: Nats) -> Self {
        Self {
            payload: message.payload,
            length: message.length,
            subject: message.subject,
            reply: message.reply,
            headers: message.headers,
            nats,
        }
    }

    pub fn subject(&self) -> &str {
        &self.subject
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.as_ref()?.get(name).map(|value| value.as_str())
    }

    /// The trace that came with the message; empty if none.
    pub fn traceparent(&self) -> &str {
        self.header(TRACEPARENT).unwrap_or_default()
    }

    /// Somebody waits for an answer.
    pub fn wants_answer(&self) -> bool {
        self.reply.is_some()
    }

    /// For answering later, without holding the payload.
    pub fn responder(&self) -> Option<Responder> {
        self.reply.clone().map(|reply| Responder { reply, nats: self.nats.clone() })
    }

    /// Answers the request; nothing happens if nobody asked.
    pub async fn respond(&self, payload: Bytes) -> Result<(), RequestError> {
        match self.responder() {
            Some(responder) => responder.respond(payload).await,
            None => Ok(()),
        }
    }
}

/// Answers one request. Dropped without an answer, the asker runs into its timeout.
#[derive(Clone)]
pub struct Responder {
    reply: Subject,
    nats: Nats,
}

impl Responder {
    pub async fn respond(&self, payload: Bytes) -> Result<(), RequestError> {
        self.nats.publish(&self.reply, &[], payload).await
    }
}
