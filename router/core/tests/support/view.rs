//! The Redis views in memory: the operations of both families, each with its position, and cold loads that check it.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use lapwing_model::{ConversationKey, Header, Member, MidEntry, Op, Position};
use lapwing_router_core::{Load, Loaded, io::LoadAsk};

/// What one family of views holds of one partition.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct View {
    pub(crate) at: Position,
    pub(crate) heads: BTreeMap<ConversationKey, Header>,
    pub(crate) hot: BTreeMap<(ConversationKey, u64), Bytes>,
    pub(crate) mids: BTreeMap<[u8; 16], MidEntry>,
    pub(crate) members: BTreeMap<(ConversationKey, Arc<str>), Member>,
    pub(crate) joined: BTreeMap<(Arc<str>, Arc<str>), Member>,
    pub(crate) peers: BTreeMap<(Arc<str>, Arc<str>), Arc<str>>,
    pub(crate) read: BTreeMap<(Arc<str>, Arc<str>), (u64, u64)>,
}

impl View {
    /// `apply.lua`: all or nothing. Err: where it stands instead.
    pub(crate) fn apply(&mut self, expected: Position, new: Position, ops: &[Op]) -> Result<(), Position> {
        if self.at != expected {
            return if self.at == new { Ok(()) } else { Err(self.at) };
        }
        self.force(new, ops);
        Ok(())
    }

    pub(crate) fn force(&mut self, new: Position, ops: &[Op]) {
        for op in ops {
            self.run(op);
        }
        self.at = new;
    }

    fn run(&mut self, op: &Op) {
        match op.clone() {
            Op::Head { key, head, n, member_count, history, .. } => {
                let header = self.heads.entry(key).or_default();
                (header.head, header.n) = (head, n);
                header.member_count = member_count.unwrap_or(header.member_count);
                header.history_for_new_members = history.unwrap_or(header.history_for_new_members);
            }
            Op::Hot { key, seq, event, .. } => drop(self.hot.insert((key, seq), event)),
            Op::Mid { mid, entry, .. } => drop(self.mids.insert(mid, entry)),
            Op::Joined { key, user, member, .. } => drop(self.members.insert((key, user), member)),
            Op::Left { key, user, to_seq, .. } => {
                self.members.entry((key, user)).or_default().to_seq = to_seq;
            }
            Op::UserJoined { user, conversation, member, .. } => {
                self.joined.insert((user, conversation), member);
            }
            Op::UserLeft { user, conversation, to_seq, .. } => {
                self.joined.entry((user, conversation)).or_default().to_seq = to_seq;
            }
            Op::UserPeer { user, conversation, peer, .. } => {
                self.peers.insert((user, conversation), peer);
            }
            Op::Cursor { user, conversation, read_seq, read_n, .. } => {
                let read = self.read.entry((user, conversation)).or_default();
                *read = (*read).max((read_seq, read_n));
            }
            Op::Reset { key, .. } => {
                self.hot.retain(|(of, _), _| *of != key);
                self.members.retain(|(of, _), _| *of != key);
            }
            Op::Persisted { .. } | Op::Told { .. } => {}
        }
    }

    /// `load.lua`: nothing is said by a view that has not come far enough (I9).
    pub(crate) fn load(&self, key: &ConversationKey, ask: &LoadAsk) -> Load {
        if self.at.offset < ask.lowest {
            return Load::Unavailable;
        }
        let member = |user: &Arc<str>| self.members.get(&(key.clone(), user.clone())).copied();
        Load::Found(Box::new(Loaded {
            header: self.heads.get(key).cloned().unwrap_or_default(),
            persisted: 0,
            mid: ask.mid.and_then(|mid| self.mids.get(&mid).copied()),
            members: ask.users.iter().map(member).collect(),
        }))
    }
}
