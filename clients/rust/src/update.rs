use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use lapwing_proto::client as proto;

use crate::{contiguity::Order, error::ClientError, raw::RawEvent};

/// What the application hears of, in the order in which it came over the socket.
#[derive(Debug, Clone)]
pub enum Update {
    Connected(Arc<proto::Welcome>),
    Conversations(Vec<proto::ConversationState>),
    Joined(Box<proto::ConversationState>),
    Event(Box<proto::Event>),
    Gap(proto::Gap),
    Cursor(proto::CursorMoved),
    Persisted(proto::Persisted),
    Moved(proto::Moved),
    Disconnected(ClientError),
    /// The client has given up; nothing follows.
    Ended(ClientError),
}

/// Looks at events in place, on the reader's own task: it must return quickly.
pub trait Handler: Send + Sync + 'static {
    fn event(&self, event: &RawEvent<'_>, order: Order);

    /// Everything that is not an event.
    fn update(&self, _update: Update) {}
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) events: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) holes: AtomicU64,
    pub(crate) unannounced: AtomicU64,
    pub(crate) declared_gaps: AtomicU64,
    pub(crate) disconnects: AtomicU64,
    pub(crate) reconnects: AtomicU64,
}

/// Everything is 0 but events, frames and bytes, unless something went wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    pub events: u64,
    pub frames: u64,
    pub bytes: u64,
    pub duplicates: u64,
    pub late: u64,
    pub holes: u64,
    pub unannounced: u64,
    pub declared_gaps: u64,
    pub disconnects: u64,
    pub reconnects: u64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn order(&self, order: Order) {
        Self::add(&self.events, 1);
        match order {
            Order::InOrder => {}
            Order::Duplicate => Self::add(&self.duplicates, 1),
            Order::Late => Self::add(&self.late, 1),
            Order::AfterHole { .. } => Self::add(&self.holes, 1),
            Order::Unannounced => Self::add(&self.unannounced, 1),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            events: get(&self.events),
            frames: get(&self.frames),
            bytes: get(&self.bytes),
            duplicates: get(&self.duplicates),
            late: get(&self.late),
            holes: get(&self.holes),
            unannounced: get(&self.unannounced),
            declared_gaps: get(&self.declared_gaps),
            disconnects: get(&self.disconnects),
            reconnects: get(&self.reconnects),
        }
    }
}
