//! What a record changes in the Redis views, as small idempotent operations. Two families, each with its own positions:
//! by conversation bucket (head, hot window, dedupe, members) and by user shard (conversations, cursors).

mod calls;

use std::sync::Arc;

use bytes::Bytes;
use lapwing_proto::record::{Record, record::Body};

use crate::{
    ConversationKey, Kind, Member,
    bucket::{self, Bucket},
    fold::{MemberChange, header_changes, member_changes},
};

pub use calls::{Applied, Expect, HotPage, LoadedItem, Owned, PageAsk, UserConversation};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    Commit,
    User,
}

pub const FAMILIES: [Family; 2] = [Family::Commit, Family::User];

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Family::Commit => "commit",
            Family::User => "user",
        }
    }
}

/// One change of a view. Applying it twice in log order changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Head {
        key: ConversationKey,
        bucket: Bucket,
        head: u64,
        n: u64,
        member_count: Option<u32>,
        history: Option<bool>,
    },
    Hot {
        key: ConversationKey,
        bucket: Bucket,
        seq: u64,
        event: Bytes,
    },
    Mid {
        bucket: Bucket,
        slice: u64,
        mid: [u8; 16],
        entry: MidEntry,
    },
    Joined {
        key: ConversationKey,
        bucket: Bucket,
        user: Arc<str>,
        member: Member,
    },
    Left {
        key: ConversationKey,
        bucket: Bucket,
        user: Arc<str>,
        to_seq: u64,
    },
    /// A rebuild begins this conversation anew: what is left of an earlier view goes.
    Reset {
        key: ConversationKey,
        bucket: Bucket,
    },
    /// All up to `seq` is in MySQL; the hot window keeps its newest `keep` and may lose the rest up to there.
    Persisted {
        key: ConversationKey,
        bucket: Bucket,
        seq: u64,
        trim_to: u64,
    },
    /// The senders were told of everything persisted below this position.
    Told {
        at: crate::Position,
    },
    UserJoined {
        tenant: Arc<str>,
        user: Arc<str>,
        conversation: Arc<str>,
        member: Member,
    },
    /// The other side of a p2p conversation.
    UserPeer {
        tenant: Arc<str>,
        user: Arc<str>,
        conversation: Arc<str>,
        peer: Arc<str>,
    },
    UserLeft {
        tenant: Arc<str>,
        user: Arc<str>,
        conversation: Arc<str>,
        to_seq: u64,
    },
    /// A user's own message moves its read cursor (R-FAN-8).
    Sent {
        tenant: Arc<str>,
        user: Arc<str>,
        conversation: Arc<str>,
        seq: u64,
        n: u64,
    },
    Cursor {
        tenant: Arc<str>,
        user: Arc<str>,
        conversation: Arc<str>,
        read_seq: u64,
        read_n: u64,
        delivered_seq: u64,
    },
}

/// What the dedupe window knows of a stored message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MidEntry {
    pub seq: u64,
    pub n: u64,
    pub sent_at_ms: u64,
    pub content_hash: [u8; 16],
}

impl MidEntry {
    pub fn encode(&self) -> [u8; 40] {
        let mut out = [0; 40];
        out[..8].copy_from_slice(&self.seq.to_be_bytes());
        out[8..16].copy_from_slice(&self.n.to_be_bytes());
        out[16..24].copy_from_slice(&self.sent_at_ms.to_be_bytes());
        out[24..].copy_from_slice(&self.content_hash);
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 40] = bytes.try_into().ok()?;
        let number = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(eight)
        };
        let mut content_hash = [0; 16];
        content_hash.copy_from_slice(&bytes[24..]);
        Some(Self { seq: number(0), n: number(8), sent_at_ms: number(16), content_hash })
    }
}

/// Length of a slice of the dedupe window; a slice is dropped as a whole.
pub const SLICE_MS: u64 = 15 * 60 * 1000;

/// 16 bytes that stand for (tenant, sender, client_mid).
pub fn mid_hash(tenant: &str, sender: &str, client_mid: &str) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&bucket::hash(&["client_mid", tenant, sender, client_mid]).as_bytes()[..16]);
    short
}

/// The slices that can hold a message of the window that ends now (one more on each side for clocks).
pub fn slices(now_ms: u64, window_ms: u64) -> std::ops::RangeInclusive<u64> {
    now_ms.saturating_sub(window_ms) / SLICE_MS..=now_ms / SLICE_MS + 1
}

/// The operations of one valid record, a function of the record alone; `event`: its bytes for clients.
pub fn ops_of(family: Family, key: &ConversationKey, record: &Record, event: &Bytes, into: &mut Vec<Op>) {
    match family {
        Family::Commit => commit_ops(key.clone(), record, event, into),
        Family::User => user_ops(key.clone(), record, into),
    }
}

fn commit_ops(key: ConversationKey, record: &Record, event: &Bytes, into: &mut Vec<Op>) {
    let bucket = record.bucket;
    into.push(Op::Hot { key: key.clone(), bucket, seq: record.seq, event: event.clone() });
    for change in member_changes(record) {
        let key = key.clone();
        into.push(match change {
            MemberChange::Joined { user, from_seq } => {
                Op::Joined { key, bucket, user: user.into(), member: Member { from_seq, to_seq: 0 } }
            }
            MemberChange::Left { user, to_seq } => Op::Left { key, bucket, user: user.into(), to_seq },
        });
    }
    if let (false, Ok(content_hash)) =
        (record.client_mid.is_empty(), <[u8; 16]>::try_from(&record.content_hash[..]))
    {
        into.push(Op::Mid {
            bucket,
            slice: record.sent_at_ms / SLICE_MS,
            mid: mid_hash(&record.tenant, &record.sender, &record.client_mid),
            entry: MidEntry { seq: record.seq, n: record.n, sent_at_ms: record.sent_at_ms, content_hash },
        });
    }
    let (member_count, history) = header_changes(record);
    into.push(Op::Head { key, bucket, head: record.seq, n: record.n, member_count, history });
}

fn user_ops(key: ConversationKey, record: &Record, into: &mut Vec<Op>) {
    let (tenant, conversation) = (key.tenant, key.conversation);
    for change in member_changes(record) {
        let (tenant, conversation) = (tenant.clone(), conversation.clone());
        into.push(match change {
            MemberChange::Joined { user, from_seq } => {
                let member = Member { from_seq, to_seq: 0 };
                Op::UserJoined { tenant, conversation, user: user.into(), member }
            }
            MemberChange::Left { user, to_seq } => {
                Op::UserLeft { tenant, conversation, user: user.into(), to_seq }
            }
        });
    }
    if let (Some(Kind::P2p), Some(Body::Created(created))) =
        (Kind::of_conversation(&conversation), &record.body)
        && let [one, other] = &created.members[..]
    {
        for (user, peer) in [(one, other), (other, one)] {
            let (user, peer) = (user.as_str().into(), peer.as_str().into());
            into.push(Op::UserPeer {
                tenant: tenant.clone(),
                conversation: conversation.clone(),
                user,
                peer,
            });
        }
    }
    if record.countable && !record.sender.is_empty() {
        let user = record.sender.as_str().into();
        into.push(Op::Sent { tenant, user, conversation, seq: record.seq, n: record.n });
    }
}
