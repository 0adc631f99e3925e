//! One conversation in its owner's memory: the folded state, what pending events will make of it, and who waits.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use lapwing_model::{
    Header, Member,
    fold::{MemberChange, header_changes, member_changes},
};
use lapwing_proto::record::Record;

use crate::Loaded;

pub(crate) type EntryId = u64;

#[derive(Default)]
pub(crate) struct Conversation {
    /// Folded from released records; whole only once `loaded`.
    pub(crate) header: Header,
    pub(crate) loaded: bool,
    /// Released while not loaded, to be folded on top of what the view says.
    unfolded: Vec<Arc<Record>>,
    /// Members known here; None = known not to be one.
    pub(crate) members: HashMap<Arc<str>, Option<Member>>,
    /// With the pending events folded in; meaningful while `inflight` > 0.
    ahead: Header,
    ahead_members: HashMap<Arc<str>, Option<Member>>,
    /// Events that were given a seq and are not released yet; those of them that change more than the head.
    pub(crate) inflight: u32,
    pub(crate) state_inflight: u32,
    /// Publishes and commands in order of arrival, from their lookup to their seq.
    pub(crate) queue: VecDeque<EntryId>,
    /// Offset of the newest released record: memory is ahead of the view until the view passed it.
    pub(crate) newest_offset: Option<u64>,
    pub(crate) persisted: u64,
    /// Changes with each load: a load that was asked under another number is not taken.
    pub(crate) generation: u64,
    pub(crate) last_used: u64,
}

impl Conversation {
    pub(crate) fn new(generation: u64) -> Self {
        Self { generation, ..Self::default() }
    }

    pub(crate) fn head(&self) -> &Header {
        if self.inflight > 0 { &self.ahead } else { &self.header }
    }

    /// Membership with pending events; the outer None: not known here, ask the view.
    pub(crate) fn member(&self, user: &str) -> Option<Option<Member>> {
        if self.state_inflight > 0
            && let Some(member) = self.ahead_members.get(user)
        {
            return Some(*member);
        }
        self.members.get(user).copied()
    }

    /// Takes what a load found, filling only what memory lacks.
    pub(crate) fn load(&mut self, loaded: &Loaded, users: &[Arc<str>]) {
        if !self.loaded {
            self.header = loaded.header.clone();
            for record in std::mem::take(&mut self.unfolded) {
                if record.seq > self.header.head {
                    self.header.fold(&record);
                }
            }
            self.loaded = true;
            self.persisted = self.persisted.max(loaded.persisted);
        }
        for (user, member) in users.iter().zip(&loaded.members) {
            self.members.entry(user.clone()).or_insert(*member);
        }
    }

    /// Gives the next seq to an event; `countable` events are numbered by n, too.
    pub(crate) fn sequence(&mut self, record: &mut Record) {
        if self.inflight == 0 {
            self.ahead = self.header.clone();
        }
        if self.state_inflight == 0 {
            self.ahead_members.clear();
        }
        record.seq = self.ahead.head + 1;
        record.n = self.ahead.n + u64::from(record.countable);
        self.ahead.fold(record);
        self.inflight += 1;
        if changes_state(record) {
            self.state_inflight += 1;
            apply_members(&mut self.ahead_members, Some(&self.members), record);
        }
    }

    /// Folds a record that was read, judged valid and acknowledged.
    pub(crate) fn release(&mut self, offset: u64, record: &Arc<Record>, own: bool) {
        if self.loaded {
            self.header.fold(record);
        } else {
            self.unfolded.push(record.clone());
        }
        apply_members(&mut self.members, None, record);
        self.newest_offset = Some(offset);
        if own {
            self.inflight = self.inflight.saturating_sub(1);
            if changes_state(record) {
                self.state_inflight = self.state_inflight.saturating_sub(1);
            }
        }
    }

    /// What was sequenced and not read back will be sequenced anew.
    pub(crate) fn forget_inflight(&mut self) {
        self.inflight = 0;
        self.state_inflight = 0;
        self.ahead_members.clear();
    }

    /// Nothing here that the view does not have (R-SEQ-9): behind `acked` it may be dropped and loaded again.
    pub(crate) fn evictable(&self, acked: u64) -> bool {
        self.inflight == 0 && self.queue.is_empty() && self.newest_offset.is_none_or(|offset| offset < acked)
    }
}

fn changes_state(record: &Record) -> bool {
    header_changes(record) != (None, None) || !member_changes(record).is_empty()
}

fn apply_members(
    into: &mut HashMap<Arc<str>, Option<Member>>,
    below: Option<&HashMap<Arc<str>, Option<Member>>>,
    record: &Record,
) {
    for change in member_changes(record) {
        match change {
            MemberChange::Joined { user, from_seq } => {
                into.insert(user.into(), Some(Member { from_seq, to_seq: 0 }));
            }
            MemberChange::Left { user, to_seq } => {
                let known = into.get(user).or_else(|| below?.get(user)).copied().flatten();
                // Unknown here (inherited): shown only its own removal, never too much.
                let from_seq = known.map_or(to_seq, |member| member.from_seq);
                into.insert(user.into(), Some(Member { from_seq, to_seq }));
            }
        }
    }
}
