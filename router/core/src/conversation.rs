//! One conversation in its owner's memory: the folded state, what pending events will make of it, and who waits.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use lapwing_model::{
    Bucket, ConversationKey, Header, Member, bucket,
    fold::{MemberChange, header_changes, member_changes},
};
use lapwing_proto::record::Record;

use crate::Loaded;

type Members = HashMap<Arc<str>, Option<Member>>;

pub(crate) type EntryId = u64;

#[derive(Default)]
pub(crate) struct Conversation {
    /// Folded from released records; whole only once `loaded`.
    pub(crate) header: Header,
    pub(crate) loaded: bool,
    /// Released while not loaded, to be laid over what the view says.
    unloaded: Newest,
    /// Members known here; None = known not to be one.
    pub(crate) members: Members,
    /// Removed here, from a time that began before memory does: the view knows since when they saw it.
    left: HashMap<Arc<str>, u64>,
    /// With the pending events folded in; meaningful while `inflight` > 0.
    ahead: Header,
    ahead_members: Members,
    /// Events that were given a seq and are not released yet; those of them that change more than the head.
    pub(crate) inflight: u32,
    pub(crate) state_inflight: u32,
    /// Publishes and commands in order of arrival, from their lookup to their seq.
    pub(crate) queue: VecDeque<EntryId>,
    /// Offset of the newest released record: memory is ahead of the view until the view passed it.
    pub(crate) newest_offset: Option<u64>,
    /// Of the newest that changed members.
    members_offset: Option<u64>,
    pub(crate) persisted: u64,
    /// Changes with each load: a load that was asked under another number is not taken.
    pub(crate) generation: u64,
    pub(crate) last_used: u64,
    /// A hash of its key, kept since each publish needs it.
    pub(crate) bucket: Bucket,
    text: u32,
    /// What it was last counted for.
    counted: u32,
}

/// It, as allocators round it up, its place in the map (which is two thirds full, about), and two texts with their counts.
const PLACE: usize = size_of::<Conversation>().next_multiple_of(64)
    + (size_of::<(ConversationKey, Box<Conversation>)>() + 1) * 3 / 2
    + 2 * 24;
/// A user's place in a map, and its text, which is shared with nothing.
const MEMBER: usize = size_of::<(Arc<str>, Option<Member>)>() + 1;
const NAME: usize = 64;

/// The newest of each part of a header that records told: their number does not matter.
#[derive(Default)]
struct Newest {
    head: u64,
    n: u64,
    member_count: Option<u32>,
    history: Option<bool>,
}

impl Newest {
    fn fold(&mut self, record: &Record) {
        let (member_count, history) = header_changes(record);
        (self.head, self.n) = (record.seq, record.n);
        self.member_count = member_count.or(self.member_count);
        self.history = history.or(self.history);
    }

    fn over(self, below: &Header) -> Header {
        if self.head <= below.head {
            return below.clone();
        }
        Header {
            head: self.head,
            n: self.n,
            member_count: self.member_count.unwrap_or(below.member_count),
            history_for_new_members: self.history.unwrap_or(below.history_for_new_members),
        }
    }
}

impl Conversation {
    pub(crate) fn new(key: &ConversationKey, generation: u64) -> Self {
        let bucket = bucket::bucket_of(key).unwrap_or_default();
        let text = (key.tenant.len() + key.conversation.len()) as u32;
        Self { generation, bucket, text, ..Self::default() }
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
        let left = || self.left.get(user).map(|to| Some(Member { from_seq: *to, to_seq: *to }));
        self.members.get(user).copied().or_else(left)
    }

    /// Takes what a load found, filling only what memory lacks.
    pub(crate) fn load(&mut self, loaded: &Loaded, users: &[Arc<str>]) {
        if !self.loaded {
            self.header = std::mem::take(&mut self.unloaded).over(&loaded.header);
            self.loaded = true;
            self.persisted = self.persisted.max(loaded.persisted);
        }
        for (user, member) in users.iter().zip(&loaded.members) {
            let member = match (self.left.remove(user), member) {
                (None, member) => *member,
                // The view may stand before the removal.
                (Some(to), Some(member)) if member.from_seq <= to => {
                    Some(Member { from_seq: member.from_seq, to_seq: to })
                }
                (Some(_), Some(member)) => Some(*member),
                (Some(to), None) => Some(Member { from_seq: to, to_seq: to }),
            };
            self.members.entry(user.clone()).or_insert(member);
        }
    }

    /// Gives the next seq to an event; `countable` events are numbered by n, too.
    pub(crate) fn sequence(&mut self, record: &mut Record) {
        if self.inflight == 0 {
            self.ahead = self.header.clone();
        }
        record.seq = self.ahead.head + 1;
        record.n = self.ahead.n + u64::from(record.countable);
        self.ahead.fold(record);
        self.inflight += 1;
        if changes_state(record) {
            self.state_inflight += 1;
            self.look_ahead(record);
        }
    }

    /// Folds a record that was read, judged valid and acknowledged.
    pub(crate) fn release(&mut self, offset: u64, record: &Arc<Record>, own: bool) {
        if self.loaded {
            self.header.fold(record);
        } else {
            self.unloaded.fold(record);
        }
        if self.apply_members(record) {
            self.members_offset = Some(offset);
        }
        self.newest_offset = Some(offset);
        if own {
            self.inflight = self.inflight.saturating_sub(1);
            if changes_state(record) {
                self.state_inflight = self.state_inflight.saturating_sub(1);
                if self.state_inflight == 0 {
                    self.ahead_members = Members::default();
                }
            }
        }
    }

    fn apply_members(&mut self, record: &Record) -> bool {
        let changes = member_changes(record);
        let any = !changes.is_empty();
        for change in changes {
            match change {
                MemberChange::Joined { user, from_seq } => {
                    self.left.remove(user);
                    self.members.insert(user.into(), Some(Member { from_seq, to_seq: 0 }));
                }
                MemberChange::Left { user, to_seq } => match self.members.get_mut(user) {
                    Some(Some(member)) => member.to_seq = to_seq,
                    Some(None) | None => {
                        self.members.remove(user);
                        self.left.insert(user.into(), to_seq);
                    }
                },
            }
        }
        any
    }

    fn look_ahead(&mut self, record: &Record) {
        for change in member_changes(record) {
            let (user, member) = match change {
                MemberChange::Joined { user, from_seq } => (user, Member { from_seq, to_seq: 0 }),
                MemberChange::Left { user, to_seq } => {
                    let from_seq = self.member(user).flatten().map_or(to_seq, |member| member.from_seq);
                    (user, Member { from_seq, to_seq })
                }
            };
            self.ahead_members.insert(user.into(), Some(member));
        }
    }

    /// What was sequenced and not read back will be sequenced anew.
    pub(crate) fn forget_inflight(&mut self) {
        self.inflight = 0;
        self.state_inflight = 0;
        self.ahead_members = Members::default();
    }

    /// Nothing here that is not `stored` elsewhere (R-SEQ-9): it may be dropped and loaded again.
    pub(crate) fn evictable(&self, stored: u64) -> bool {
        self.inflight == 0 && self.queue.is_empty() && self.newest_offset.is_none_or(|offset| offset < stored)
    }

    /// The same of its members, while it is busy. Some: from which offset on they are known.
    pub(crate) fn forget_members(&mut self, stored: u64) -> Option<u64> {
        let begins = self.members_offset.map_or(0, |offset| offset + 1);
        if self.state_inflight > 0 || !self.queue.is_empty() || begins > stored {
            return None;
        }
        self.members = Members::default();
        self.left = HashMap::default();
        Some(begins)
    }

    pub(crate) fn members_weight(&self) -> usize {
        let maps = [
            (self.members.capacity(), self.members.len()),
            (self.left.capacity(), self.left.len()),
            (self.ahead_members.capacity(), self.ahead_members.len()),
        ];
        let places =
            |capacity: usize| if capacity == 0 { 0 } else { (capacity * 8 / 7 + 1).next_power_of_two() };
        maps.iter().map(|(capacity, names)| places(*capacity) * MEMBER + names * NAME).sum()
    }

    /// What it weighs, about.
    fn weight(&self) -> usize {
        PLACE + self.text as usize + self.members_weight()
    }

    /// After a change: corrects the sum of all.
    pub(crate) fn reweigh(&mut self, sum: &mut usize) {
        let now = self.weight();
        let before = std::mem::replace(&mut self.counted, now as u32);
        *sum = sum.saturating_add(now).saturating_sub(before as usize);
    }

    /// Gone out of the sum.
    pub(crate) fn unweigh(self, sum: &mut usize) {
        debug_assert_eq!(self.weight(), self.counted as usize, "it changed and was not weighed");
        *sum = sum.saturating_sub(self.counted as usize);
    }
}

fn changes_state(record: &Record) -> bool {
    header_changes(record) != (None, None) || !member_changes(record).is_empty()
}
