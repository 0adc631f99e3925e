//! The Redis views in memory: one partition's piece of one family on one instance, with its position.
//!
//! Times of life are left out: neither the slices of the dedupe window nor anything else ends here.

use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc};

use bytes::Bytes;
use lapwing_model::{
    Bucket, ConversationKey, Header, Member, MidEntry, Op, Position,
    view::{Applied, Expect, HotPage, LoadedItem, PageAsk, UserConversation},
};

/// Tenant, user, conversation.
pub type OfUser = (Arc<str>, Arc<str>, Arc<str>);

/// Read seq with its n, delivered seq.
pub type Cursor = (u64, u64, u64);

#[derive(Debug, Clone, Default, PartialEq)]
enum Stands {
    #[default]
    Nowhere,
    At(Position),
    /// On the instance of this name.
    Moved(String),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Piece {
    stands: Stands,
    /// The rebuild that fills it.
    token: Option<String>,
    pub told: Option<Position>,
    pub heads: BTreeMap<ConversationKey, Header>,
    pub persisted: BTreeMap<ConversationKey, u64>,
    pub hot: BTreeMap<(ConversationKey, u64), Bytes>,
    pub mids: BTreeMap<(Bucket, u64, [u8; 16]), MidEntry>,
    pub members: BTreeMap<(ConversationKey, Arc<str>), Member>,
    pub joined: BTreeMap<OfUser, Member>,
    pub peers: BTreeMap<OfUser, Arc<str>>,
    pub sent: BTreeMap<OfUser, (u64, u64)>,
    pub cursors: BTreeMap<OfUser, Cursor>,
}

/// What is asked of one conversation.
pub struct Load<'a> {
    pub key: &'a ConversationKey,
    pub bucket: Bucket,
    pub lowest: u64,
    pub users: &'a [Arc<str>],
    pub mid: Option<[u8; 16]>,
    /// Of the dedupe window.
    pub slices: RangeInclusive<u64>,
}

impl Piece {
    /// Empty, and told to be right at the log's start.
    pub fn begun() -> Self {
        Self { stands: Stands::At(Position::default()), ..Self::default() }
    }

    pub fn stands(&self) -> Option<Position> {
        match self.stands {
            Stands::At(at) => Some(at),
            Stands::Nowhere | Stands::Moved(_) => None,
        }
    }

    /// From where its owner has to go on: no position counts as the log's start.
    pub fn position(&self) -> Position {
        self.stands().unwrap_or_default()
    }

    /// One section of `apply.lua`: all or nothing.
    pub fn apply(&mut self, expect: &Expect, ops: &[Op]) -> Applied {
        if let Expect::Begin(token) = expect
            && self.stands == Stands::Nowhere
        {
            self.token = Some(token.clone());
        }
        let goes = match expect {
            Expect::Any => true,
            Expect::Begin(token) | Expect::Rebuild(token) | Expect::End(token, _) => {
                self.stands == Stands::Nowhere && self.token.as_ref() == Some(token)
            }
            Expect::Move(from, _) | Expect::Leave(from, _) => {
                self.stands == Stands::At(*from)
                    || self.stands == Stands::Nowhere && *from == Position::default()
            }
        };
        let next = match expect {
            Expect::Any | Expect::Begin(_) | Expect::Rebuild(_) => None,
            Expect::Move(_, to) | Expect::End(_, to) => Some(Stands::At(*to)),
            Expect::Leave(_, to) => Some(Stands::Moved(to.clone())),
        };
        if !goes {
            // The answer to its first call was lost.
            return if next.as_ref() == Some(&self.stands) { Applied::Ok } else { self.refusal() };
        }
        ops.iter().for_each(|op| self.run(op));
        if matches!(expect, Expect::End(..)) {
            self.token = None;
        }
        self.stands = next.unwrap_or_else(|| self.stands.clone());
        Applied::Ok
    }

    fn refusal(&self) -> Applied {
        match &self.stands {
            Stands::Nowhere => Applied::At(None),
            Stands::At(at) => Applied::At(Some(*at)),
            Stands::Moved(to) => Applied::Moved(to.clone()),
        }
    }

    /// Whatever its position: what a rollback runs again.
    pub fn force(&mut self, new: Position, ops: &[Op]) {
        ops.iter().for_each(|op| self.run(op));
        self.stands = Stands::At(new);
    }

    /// An instance that is to get the view begins with nothing; what an earlier time left behind is only overwritten.
    pub fn clear(&mut self) {
        (self.stands, self.token) = (Stands::Nowhere, None);
    }

    /// Takes away what a move has left behind.
    pub fn sweep(&mut self) {
        self.heads.clear();
        self.persisted.clear();
        self.hot.clear();
        self.members.clear();
    }

    fn run(&mut self, op: &Op) {
        match op.clone() {
            Op::Head { key, head, n, member_count, history, .. } => {
                if self.last(&key).is_some_and(|last| last != head) {
                    self.forget(&key, 0);
                }
                let header = self.heads.entry(key).or_default();
                (header.head, header.n) = (head, n);
                header.member_count = member_count.unwrap_or(header.member_count);
                header.history_for_new_members = history.unwrap_or(header.history_for_new_members);
            }
            Op::Hot { key, seq, event, .. } => {
                // The window has no holes and ends at the head, which its events move.
                let hole = self.last(&key).is_some_and(|last| seq > last + 1);
                self.forget(&key, if hole { 0 } else { seq });
                self.heads.entry(key.clone()).or_default().head = seq;
                self.hot.insert((key, seq), event);
            }
            Op::Mid { bucket, slice, mid, entry } => drop(self.mids.insert((bucket, slice, mid), entry)),
            Op::Joined { key, user, member, .. } => drop(self.members.insert((key, user), member)),
            Op::Left { key, user, to_seq, .. } => {
                self.members.entry((key, user)).or_default().to_seq = to_seq;
            }
            Op::Reset { key, .. } => {
                self.forget(&key, 0);
                self.members.retain(|(of, _), _| *of != key);
            }
            Op::Persisted { key, seq, trim_to, .. } => {
                self.hot.retain(|(of, seq), _| *of != key || *seq > trim_to);
                let persisted = self.persisted.entry(key).or_default();
                *persisted = (*persisted).max(seq);
            }
            Op::Told { at } => {
                if self.told.is_none_or(|told| told.offset < at.offset) {
                    self.told = Some(at);
                }
            }
            Op::UserJoined { tenant, user, conversation, member } => {
                self.joined.insert((tenant, user, conversation), member);
            }
            Op::UserLeft { tenant, user, conversation, to_seq } => {
                self.joined.entry((tenant, user, conversation)).or_default().to_seq = to_seq;
            }
            Op::UserPeer { tenant, user, conversation, peer } => {
                self.peers.insert((tenant, user, conversation), peer);
            }
            Op::Sent { tenant, user, conversation, seq, n } => {
                self.sent.insert((tenant, user, conversation), (seq, n));
            }
            Op::Cursor { tenant, user, conversation, read_seq, read_n, delivered_seq } => {
                let cursor = self.cursors.entry((tenant, user, conversation)).or_default();
                if read_seq >= cursor.0 {
                    (cursor.0, cursor.1) = (read_seq, read_n);
                }
                cursor.2 = cursor.2.max(delivered_seq);
            }
        }
    }

    fn last(&self, key: &ConversationKey) -> Option<u64> {
        let of_it = self.hot.range((key.clone(), 0)..=(key.clone(), u64::MAX));
        of_it.map(|((_, seq), _)| *seq).next_back()
    }

    /// The hot window from this seq on.
    fn forget(&mut self, key: &ConversationKey, from: u64) {
        self.hot.retain(|(of, seq), _| of != key || *seq < from);
    }

    /// Whether it may say anything: what is not there counts as "none" only then (I9).
    fn reaches(&self, lowest: u64) -> bool {
        self.stands().is_some_and(|at| at.offset >= lowest)
    }

    fn header(&self, key: &ConversationKey) -> (Header, u64) {
        let persisted = self.persisted.get(key).copied().unwrap_or_default();
        (self.heads.get(key).cloned().unwrap_or_default(), persisted)
    }

    /// One item of `load.lua`; None: the view is not far enough.
    pub fn load(&self, ask: &Load<'_>) -> Option<LoadedItem> {
        if !self.reaches(ask.lowest) {
            return None;
        }
        let member = |user: &Arc<str>| self.members.get(&(ask.key.clone(), user.clone())).copied();
        let entry = |mid| {
            let mut newest_first = ask.slices.clone().rev();
            newest_first.find_map(|slice| self.mids.get(&(ask.bucket, slice, mid)).copied())
        };
        let (header, persisted) = self.header(ask.key);
        let (mid, members) = (ask.mid.and_then(entry), ask.users.iter().map(member).collect());
        Some(LoadedItem { header, persisted, mid, members })
    }

    /// `hot.lua`; None: the view is not far enough.
    pub fn page(&self, ask: PageAsk<'_>, lowest: u64) -> Option<HotPage> {
        if !self.reaches(lowest) {
            return None;
        }
        let window = |from: u64, to: u64| {
            let of_it = self.hot.range((ask.key.clone(), from)..);
            of_it.take_while(move |((of, seq), _)| of == ask.key && *seq <= to)
        };
        let mut events: Vec<Bytes> = Vec::new();
        if ask.from <= ask.to {
            events.extend(window(ask.from, ask.to).map(|(_, event)| event.clone()));
        }
        let limit = events.len().min(ask.limit as usize);
        let events =
            if ask.newest { events.split_off(events.len() - limit) } else { events[..limit].to_vec() };
        let (header, persisted_seq) = self.header(ask.key);
        let member = ask.user.and_then(|user| self.members.get(&(ask.key.clone(), user.into())).copied());
        let lowest = window(0, u64::MAX).next().map_or(0, |((_, seq), _)| *seq);
        Some(HotPage { header, persisted_seq, member, lowest, events })
    }

    /// The user's own newest message counts as read (R-FAN-8).
    pub fn cursor(&self, place: &OfUser) -> Cursor {
        let cursor = self.cursors.get(place).copied().unwrap_or_default();
        match self.sent.get(place).copied() {
            Some(sent) if sent.0 > cursor.0 => (sent.0, sent.1, cursor.2),
            _ => cursor,
        }
    }

    /// This piece's part of `convs.lua`, in order of the ids; None: it is not far enough.
    pub fn conversations(&self, tenant: &str, user: &str, lowest: u64) -> Option<Vec<UserConversation>> {
        let of_user = |(place, member): (&OfUser, &Member)| {
            let (read_seq, read_n, delivered_seq) = self.cursor(place);
            UserConversation {
                conversation: place.2.to_string(),
                member: *member,
                read_seq,
                read_n,
                delivered_seq,
                peer: self.peers.get(place).map(ToString::to_string).unwrap_or_default(),
            }
        };
        let own = self.joined.iter().filter(|((of, who, _), _)| (&**of, &**who) == (tenant, user));
        self.reaches(lowest).then(|| own.map(of_user).collect())
    }
}
