//! One client's connection after its `connect`: who it is, its bounded way out, and what hangs on it.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use lapwing_gateway_core::{Encoding, EventFrame, Sink, encode::server_frame, rate::TokenBucket};
use lapwing_model::ConversationKey;
use lapwing_proto::client::{Gap, GapReason, ServerFrame, server_frame::Body};
use lapwing_runtime::{
    queue::{Queue, Receiver, Sender},
    time::mono_ms,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{close::Close, publish::LaneCell};

/// Items that one session's queue holds beside its bytes.
const OUTBOX_ITEMS: usize = 16_384;

pub struct Session {
    pub id: u64,
    /// 32 hex digits, as clients and the audit know it.
    pub name: String,
    pub tenant: Arc<str>,
    pub user: Arc<str>,
    pub device: Arc<str>,
    pub remote: String,
    pub encoding: Encoding,
    pub receipts: bool,
    pub opened_at_ms: u64,
    pub out: Arc<Outbox>,
    /// Shared by all sessions of the user on this node.
    pub rate: Arc<Mutex<TokenBucket>>,
    pub rooms: Mutex<HashSet<ConversationKey>>,
    /// Conversations that it left with its user's removal: it has everything before this seq.
    pub passed: Mutex<HashMap<ConversationKey, u64>>,
    pub lanes: Mutex<HashMap<Arc<str>, Arc<LaneCell>>>,
    /// Seconds since 1970 at which its token ends.
    pub expires_at: AtomicU64,
    pub last_heard: AtomicU64,
    pub requests: AtomicU64,
    pub answering: tokio::sync::Mutex<()>,
    /// Its welcome stands (or it never will): what is announced to the user meanwhile waits for this, so that no conversation
    /// begins twice.
    pub welcomed: CancellationToken,
}

/// The way out to one socket: a queue bounded in bytes, and the word to close.
pub struct Outbox {
    queue: Sender<Bytes>,
    watermark: usize,
    closing: Mutex<Option<Close>>,
    stop: CancellationToken,
    /// Since when one write has been under way, in monotonic ms; 0: none is.
    pub writing_since: AtomicU64,
}

impl Outbox {
    pub fn new(watermark: usize) -> (Self, Receiver<Bytes>) {
        // Answers and receipts may pass the events' watermark: up to twice of it, then the reader is too slow.
        let queue = Queue::named("session").items(OUTBOX_ITEMS).bytes(watermark * 2).of_one_peer();
        let (queue, receiver) = queue.open();
        let outbox = Self {
            queue,
            watermark,
            closing: Mutex::new(None),
            stop: CancellationToken::new(),
            writing_since: AtomicU64::new(0),
        };
        (outbox, receiver)
    }

    /// False: over the watermark; nothing was taken.
    pub fn push_event(&self, wire: &Bytes) -> bool {
        let fits = self.queue.is_empty() || self.queue.bytes() + wire.len() <= self.watermark;
        // A closed queue has nobody behind it: that session is on its way out, not behind.
        fits && self.queue.try_push(wire.clone(), wire.len()).map_or_else(|error| !error.is_full(), |()| true)
    }

    /// For frames that must not get lost; a reader that lets so many pile up is closed.
    pub fn push(&self, wire: Bytes) {
        let weight = wire.len();
        if self.queue.try_push(wire, weight).is_err_and(|error| error.is_full()) {
            self.close(Close::SlowConsumer);
        }
    }

    /// Above the watermark the sender itself is made to wait (R-GW-3).
    pub fn is_over(&self) -> bool {
        self.queue.bytes() > self.watermark
    }

    pub fn has_room(&self) -> bool {
        self.queue.bytes() <= self.watermark / 2
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The first word to close counts.
    pub fn close(&self, close: Close) {
        self.closing.lock().get_or_insert(close);
        self.stop.cancel();
    }

    pub fn closing(&self) -> Option<Close> {
        *self.closing.lock()
    }

    pub fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }
}

impl Session {
    pub fn push(&self, body: Body) {
        self.answer(0, body);
    }

    pub fn answer(&self, id: u64, body: Body) {
        self.out.push(server_frame(&ServerFrame { id, body: Some(body) }, self.encoding));
    }

    /// For large answers: one at a time, and only once the reader has taken enough of what is queued.
    pub async fn answer_with_room(&self, id: u64, body: Body) {
        let _one = self.answering.lock().await;
        while !self.out.has_room() && !self.is_closing() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.answer(id, body);
    }

    pub fn close(&self, close: Close) {
        self.out.close(close);
    }

    pub fn is_closing(&self) -> bool {
        self.out.stop.is_cancelled()
    }

    pub fn heard(&self) {
        self.last_heard.store(mono_ms(), Ordering::Relaxed);
    }

    /// The seq before which it has everything of a conversation that it left; 0 when it did not.
    pub fn passed(&self, key: &ConversationKey) -> u64 {
        self.passed.lock().get(key).copied().unwrap_or(0)
    }

    pub fn key(&self, conversation: &str) -> ConversationKey {
        ConversationKey::new(self.tenant.clone(), conversation)
    }
}

/// A session as rooms hold it, with the conversation that the room is for.
#[derive(Clone)]
pub struct Seat {
    pub session: Arc<Session>,
    pub conversation: Arc<str>,
}

impl Sink for Seat {
    fn id(&self) -> u64 {
        self.session.id
    }

    fn push(&self, frame: &Arc<EventFrame>) -> bool {
        self.session.out.push_event(frame.wire(self.session.encoding))
    }

    fn ended(&self, next: u64) {
        let key = self.session.key(&self.conversation);
        self.session.passed.lock().insert(key, next);
    }

    fn gap(&self, from: u64, to: u64, reason: GapReason) {
        let reason = reason.into();
        self.session.push(Body::Gap(Gap { conversation: self.conversation.to_string(), from, to, reason }));
    }
}
