//! What both sides can do, and the words of the tests.

use std::sync::Arc;

use bytes::Bytes;
use lapwing_model::{
    ConversationKey, Family, Member, MidEntry, Op, PartitionId, Position,
    bucket::{USER_SHARDS, bucket_of},
    view::SLICE_MS,
};
use lapwing_views::{
    Applied, Expect, Found, HotPage, LoadItem, LoadedItem, OwnItem, Owned, PageAsk, Piece, Section,
    UserConversation,
};

pub(crate) const PARTITIONS: u32 = 2;
pub(crate) const INSTANCES: [&str; 2] = ["one", "two"];
pub(crate) const NOW: u64 = 1_700_000_000_000;
pub(crate) const WINDOW_MS: u64 = 2 * 3600 * 1000;
pub(crate) const START: Position = Position { offset: 0, epoch: -1, index: 0 };

/// None: the view is not far enough to say anything.
pub(crate) trait Store {
    async fn apply(&mut self, instance: usize, sections: &[Section]) -> Vec<Applied>;
    async fn load(&mut self, instance: usize, items: &[LoadItem]) -> Vec<Option<LoadedItem>>;
    async fn page(&mut self, ask: PageAsk<'_>) -> Option<HotPage>;
    async fn conversations(&mut self, tenant: &str, user: &str, most: usize)
    -> Option<Vec<UserConversation>>;
    async fn own(&mut self, items: &[OwnItem]) -> Vec<Owned>;
    async fn told(&mut self, id: &PartitionId) -> Option<Position>;
    async fn found(&mut self, id: &PartitionId, instance: usize) -> Found;
    async fn clear(&mut self, id: &PartitionId, instance: usize);
    async fn place(&mut self, id: &PartitionId, instance: usize, version: u64);
    async fn sweep(&mut self, id: &PartitionId, instance: usize);
    fn right_up_to(&mut self, id: &PartitionId, commit: u64, user: u64);
}

pub(crate) fn at(offset: u64) -> Position {
    Position { offset, epoch: offset as i64 / 10, index: offset % 10 }
}

pub(crate) fn piece(family: Family) -> Piece {
    match family {
        Family::Commit => Piece::commit(0),
        Family::User => Piece { family, first: 0, last: USER_SHARDS - 1, instance: 0 },
    }
}

pub(crate) fn key(conversation: &str) -> ConversationKey {
    ConversationKey::new("t", conversation)
}

pub(crate) fn id_of(key: &ConversationKey) -> PartitionId {
    PartitionId::of(key, PARTITIONS).unwrap()
}

pub(crate) fn section(id: &PartitionId, family: Family, expect: Expect, ops: Vec<Op>) -> Section {
    Section::new(id, piece(family), expect, ops)
}

/// From one offset to another.
pub(crate) fn step(key: &ConversationKey, from: u64, to: u64, ops: Vec<Op>) -> Section {
    let from = if from == 0 { START } else { at(from) };
    section(&id_of(key), Family::Commit, Expect::Move(from, at(to)), ops)
}

pub(crate) async fn take(store: &mut impl Store, section: Section) -> Applied {
    let answers = store.apply(section.piece.instance, std::slice::from_ref(&section)).await;
    assert_eq!(answers.len(), 1, "{section:?}");
    answers.into_iter().next().unwrap()
}

pub(crate) fn event(key: &ConversationKey, seq: u64) -> Bytes {
    Bytes::from(format!("{key} has \0 and {seq}"))
}

pub(crate) fn hot(key: &ConversationKey, seq: u64) -> Op {
    Op::Hot { key: key.clone(), bucket: bucket_of(key).unwrap(), seq, event: event(key, seq) }
}

pub(crate) fn head(key: &ConversationKey, head: u64) -> Op {
    let bucket = bucket_of(key).unwrap();
    Op::Head { key: key.clone(), bucket, head, n: head, member_count: None, history: None }
}

pub(crate) fn joined(key: &ConversationKey, user: &str, from_seq: u64) -> Op {
    let member = Member { from_seq, to_seq: 0 };
    Op::Joined { key: key.clone(), bucket: bucket_of(key).unwrap(), user: user.into(), member }
}

pub(crate) fn left(key: &ConversationKey, user: &str, to_seq: u64) -> Op {
    Op::Left { key: key.clone(), bucket: bucket_of(key).unwrap(), user: user.into(), to_seq }
}

pub(crate) fn mid(key: &ConversationKey, name: u8, seq: u64, sent_at_ms: u64) -> Op {
    let entry = MidEntry { seq, n: seq, sent_at_ms, content_hash: [seq as u8; 16] };
    Op::Mid { bucket: bucket_of(key).unwrap(), slice: sent_at_ms / SLICE_MS, mid: [name; 16], entry }
}

pub(crate) fn persisted(key: &ConversationKey, seq: u64, trim_to: u64) -> Op {
    Op::Persisted { key: key.clone(), bucket: bucket_of(key).unwrap(), seq, trim_to }
}

pub(crate) fn reset(key: &ConversationKey) -> Op {
    Op::Reset { key: key.clone(), bucket: bucket_of(key).unwrap() }
}

pub(crate) fn ask_load(key: &ConversationKey, lowest: u64, users: &[&str], mid: Option<u8>) -> LoadItem {
    let users = users.iter().map(|user| Arc::from(*user)).collect();
    let mid = mid.map(|name| [name; 16]);
    LoadItem { key: key.clone(), bucket: bucket_of(key).unwrap(), lowest, users, mid }
}

pub(crate) async fn load(store: &mut impl Store, item: LoadItem) -> Option<LoadedItem> {
    store.load(0, &[item]).await.into_iter().next().unwrap()
}

pub(crate) fn newest(key: &ConversationKey) -> PageAsk<'_> {
    PageAsk { key, user: None, from: 0, to: 1 << 40, limit: 5000, newest: true }
}

/// All of the hot window.
pub(crate) async fn window(store: &mut impl Store, key: &ConversationKey) -> Vec<Bytes> {
    store.page(newest(key)).await.unwrap().events
}

pub(crate) fn events(key: &ConversationKey, seqs: impl IntoIterator<Item = u64>) -> Vec<Bytes> {
    seqs.into_iter().map(|seq| event(key, seq)).collect()
}
