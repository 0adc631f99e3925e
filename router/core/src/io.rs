//! What goes into a partition's state machine and what comes out of it.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, Ordering},
};

use bytes::Bytes;
use lapwing_model::{ConversationKey, Header, Member, MidEntry, Position};
use lapwing_proto::{bus, record::Record};

/// Handle of the shell for one request that waits for its reply.
pub type RequestId = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Monotonic milliseconds: every decision.
    pub mono: u64,
    /// Wall clock milliseconds: only shown to people.
    pub wall: u64,
}

/// A question to the views on behalf of one publish, command or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    pub ticket: u64,
    pub key: ConversationKey,
    pub bucket: u32,
    /// Load the header, these members and this client_mid, from a view at or past `lowest`.
    pub load: Option<LoadAsk>,
    /// Claim the client_mid over all conversations.
    pub own: Option<OwnAsk>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadAsk {
    pub lowest: u64,
    pub users: Vec<Arc<str>>,
    pub mid: Option<[u8; 16]>,
    /// Memory lacks the header or members: with the view's instance away a persister may be asked for them (R-ACK-5).
    pub cold: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnAsk {
    pub sender: Arc<str>,
    pub client_mid: Arc<str>,
    pub content_hash: [u8; 16],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupAnswer {
    pub ticket: u64,
    pub load: Load,
    pub own: Own,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Load {
    NotAsked,
    /// The view is down, has no position, or is below `lowest`: nothing can be said.
    Unavailable,
    Found(Box<Loaded>),
    /// By a persister: the state at this offset of the log, and no word on the dedupe window.
    Persisted(u64, Box<Loaded>),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    pub header: Header,
    pub persisted: u64,
    pub mid: Option<MidEntry>,
    /// In the order in which they were asked for.
    pub members: Vec<Option<Member>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    NotAsked,
    New,
    SameContent,
    OtherContent,
    /// Redis slow or down: skipped and counted, publishing goes on (R-SEQ-7).
    Skipped,
}

/// How far an event's way to the gateway nodes is (R-SEQ-5, "dispatched"): the lanes report here.
#[derive(Debug, Default)]
pub struct FanOut {
    nodes: OnceLock<u32>,
    answered: AtomicU32,
}

impl FanOut {
    /// It was put into the lanes of so many nodes.
    pub fn sent_to(&self, nodes: u32) {
        self.nodes.get_or_init(|| nodes);
    }

    /// One of them has it.
    pub fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// How many nodes it goes to, once that is known, and how many have it.
    pub fn progress(&self) -> (Option<u32>, u32) {
        (self.nodes.get().copied(), self.answered.load(Ordering::Relaxed))
    }
}

impl PartialEq for FanOut {
    fn eq(&self, other: &Self) -> bool {
        self.progress() == other.progress()
    }
}

/// A record that was read, judged valid, and is acknowledged by all in-sync replicas: the truth.
#[derive(Debug, PartialEq)]
pub struct Released {
    pub offset: u64,
    /// The position behind it.
    pub after: Position,
    pub key: ConversationKey,
    pub record: Arc<Record>,
    /// The encoded client event.
    pub event: Bytes,
    pub fan_out: FanOut,
}

#[derive(Debug, PartialEq)]
pub enum Effect {
    Lookup(Lookup),
    /// Append to the log, in this order. `index` 0 is the claim.
    Produce {
        epoch: u64,
        index: u64,
        key: Bytes,
        value: Bytes,
        traceparent: String,
    },
    Reply {
        request: RequestId,
        reply: bus::RouterReply,
    },
    Released(Arc<Released>),
    /// Read on past the newest offset released, to where the views may be told (claims, void records).
    Advanced(Position),
    Receipts {
        key: ConversationKey,
        receipt: bus::Receipt,
    },
    Persisted {
        key: ConversationKey,
        bucket: u32,
        seq: u64,
        head: u64,
    },
    /// Clamped by the owner; to the cursor topic, then to the view.
    Cursor {
        cursor: lapwing_proto::record::CursorRecord,
        request: RequestId,
        slot: usize,
    },
    Interest {
        hash: u64,
        node: String,
        incarnation: u64,
        counter: u64,
    },
    Serving {
        epoch: u64,
    },
    /// A newer claim of another router was read, or the release is done.
    SteppedDown {
        by: Option<String>,
    },
    Alarm(String),
}
