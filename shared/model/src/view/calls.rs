//! What the scripts of the Redis views are asked and what they answer, as plain values: the real views and the model in memory that
//! the simulation plays with share these words.

use bytes::Bytes;

use crate::{ConversationKey, Header, Member, MidEntry, Position};

/// On what condition a section is applied, and where the view stands then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// The view stands at the first and moves to the second.
    Move(Position, Position),
    /// Whatever its position, which stays: for maxima from elsewhere (cursors, persisted seqs).
    Any,
    /// It has no position. From here on it takes the rebuild of this token alone.
    Begin(String),
    /// It has no position, and this rebuild is the one that fills it.
    Rebuild(String),
    /// As before, and it has this position now.
    End(String, Position),
    /// The view stands there; from now on it is on the instance of this name.
    Leave(Position, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    Ok,
    /// Nothing was changed: the view stands here (None = it has no position).
    At(Option<Position>),
    /// Nothing was changed: it is on the instance of this name.
    Moved(String),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadedItem {
    pub header: Header,
    pub persisted: u64,
    pub mid: Option<MidEntry>,
    pub members: Vec<Option<Member>>,
}

/// Who has the client_mid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owned {
    New,
    SameContent,
    OtherContent,
}

#[derive(Debug, Clone, Copy)]
pub struct PageAsk<'a> {
    pub key: &'a ConversationKey,
    /// None: no member's visibility is asked for (server API).
    pub user: Option<&'a str>,
    pub from: u64,
    pub to: u64,
    pub limit: u32,
    /// The newest ones of from…to, else the oldest.
    pub newest: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct HotPage {
    pub header: Header,
    pub persisted_seq: u64,
    pub member: Option<Member>,
    /// Lowest seq in the window; 0 = it is empty.
    pub lowest: u64,
    /// Encoded client events, ascending.
    pub events: Vec<Bytes>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct UserConversation {
    pub conversation: String,
    pub member: Member,
    pub read_seq: u64,
    pub read_n: u64,
    pub delivered_seq: u64,
    /// The other user of a p2p conversation.
    pub peer: String,
}
