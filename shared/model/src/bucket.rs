//! Where a conversation lives: 256 commit buckets and 64 user shards, fixed for the life of a cluster; buckets map to
//! partitions, Redis instances and MySQL instances by explicit ranges, never by `% instances` (R-SEQ-2, R-SEQ-3).

use std::{fmt, sync::Arc};

use lapwing_proto::bus;

use crate::{ConversationKey, Kind};

pub const BUCKETS: u32 = 256;
pub const USER_SHARDS: u32 = 64;

pub type Bucket = u32;

pub(crate) fn hash(fields: &[&str]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for (i, field) in fields.iter().enumerate() {
        if i > 0 {
            hasher.update(&[0]);
        }
        hasher.update(field.as_bytes());
    }
    hasher.finalize()
}

pub(crate) fn hash64(fields: &[&str]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash(fields).as_bytes()[..8]);
    u64::from_be_bytes(first)
}

fn hash32(fields: &[&str]) -> u32 {
    (hash64(fields) >> 32) as u32
}

/// The commit bucket; None when the id has no known prefix.
pub fn bucket_of(key: &ConversationKey) -> Option<Bucket> {
    bucket_of_ids(&key.tenant, &key.conversation)
}

/// The same without a key of its own.
pub fn bucket_of_ids(tenant: &str, conversation: &str) -> Option<Bucket> {
    let kind = Kind::of_conversation(conversation)?;
    Some(hash32(&[kind.name(), tenant, conversation]) % BUCKETS)
}

pub fn user_shard(tenant: &str, user: &str) -> u32 {
    hash32(&["user", tenant, user]) % USER_SHARDS
}

/// The bucket of a client_mid's own hash, independent of the conversation's (R-SEQ-7).
pub fn mid_bucket(tenant: &str, sender: &str, client_mid: &str) -> Bucket {
    hash32(&["mid", tenant, sender, client_mid]) % BUCKETS
}

/// A (topic, partition): the unit of ownership, of views' positions and of leases.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId {
    pub topic: Arc<str>,
    pub partition: u32,
}

impl PartitionId {
    pub fn new(topic: impl Into<Arc<str>>, partition: u32) -> Self {
        Self { topic: topic.into(), partition }
    }

    /// Where a conversation's records stand, given the number of partitions of a topic (a power of two ≤ 256).
    pub fn of(key: &ConversationKey, partitions: u32) -> Option<Self> {
        let kind = Kind::of_conversation(&key.conversation)?;
        Some(Self::new(kind.topic(), partition_of(bucket_of(key)?, partitions)))
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

impl fmt::Debug for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<&PartitionId> for bus::PartitionId {
    fn from(id: &PartitionId) -> Self {
        Self { topic: id.topic.to_string(), partition: id.partition }
    }
}

impl From<&bus::PartitionId> for PartitionId {
    fn from(id: &bus::PartitionId) -> Self {
        Self::new(id.topic.as_str(), id.partition)
    }
}

/// Equal ranges of buckets: partition = bucket × partitions ÷ 256.
pub fn partition_of(bucket: Bucket, partitions: u32) -> u32 {
    bucket * partitions / BUCKETS
}

/// Rendezvous hashing: which of the candidates should own `what`. Every caller that sees the same set answers alike.
pub fn rendezvous<'a>(what: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates.into_iter().max_by_key(|name| (hash64(&["rendezvous", what, name]), *name))
}

/// An explicit map of ranges that covers 0..size without holes, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeMap<T> {
    size: u32,
    pieces: Vec<(u32, T)>, // first of the range → target
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("range map {text:?}: {problem}")]
pub struct BadRangeMap {
    text: String,
    problem: String,
}

impl<T: Clone> RangeMap<T> {
    pub fn single(size: u32, target: T) -> Self {
        Self { size, pieces: vec![(0, target)] }
    }

    pub fn get(&self, index: u32) -> &T {
        let after = self.pieces.partition_point(|(first, _)| *first <= index);
        &self.pieces[after - 1].1
    }

    pub fn try_map<U, E>(&self, target: impl Fn(&T) -> Result<U, E>) -> Result<RangeMap<U>, E> {
        let piece = |(first, of): &(u32, T)| target(of).map(|of| (*first, of));
        let pieces = self.pieces.iter().map(piece).collect::<Result<_, E>>()?;
        Ok(RangeMap { size: self.size, pieces })
    }

    /// (first, last, target) of each range.
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32, &T)> {
        self.pieces.iter().enumerate().map(|(i, (first, target))| {
            let last = self.pieces.get(i + 1).map_or(self.size, |next| next.0) - 1;
            (*first, last, target)
        })
    }
}

impl RangeMap<String> {
    /// From `0-127=one 128-255=two`.
    pub fn parse(text: &str, size: u32) -> Result<Self, BadRangeMap> {
        let bad = |problem: String| BadRangeMap { text: text.to_owned(), problem };
        let (mut pieces, mut next) = (Vec::new(), 0);
        for piece in text.split([' ', ',']).filter(|piece| !piece.is_empty()) {
            let (range, target) =
                piece.split_once('=').ok_or_else(|| bad(format!("{piece:?} is not FIRST-LAST=NAME")))?;
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number =
                |text: &str| text.parse::<u32>().map_err(|_| bad(format!("{text:?} is not a number")));
            let (first, last) = (number(first)?, number(last)?);
            if first != next || last < first || last >= size {
                return Err(bad(format!(
                    "{piece:?}: ranges must cover 0-{} in order, without holes",
                    size - 1
                )));
            }
            pieces.push((first, target.to_owned()));
            next = last + 1;
        }
        if next != size {
            return Err(bad(format!("ends at {next}, must cover 0-{}", size - 1)));
        }
        Ok(Self { size, pieces })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_spread_evenly_and_never_change() {
        // R-SEQ-2: frozen for the life of every cluster.
        assert_eq!(bucket_of(&ConversationKey::new("demo", "grp.lobby")), Some(156));
        assert_eq!(bucket_of(&ConversationKey::new("demo", "nothing")), None);
        let mut counts = [0u32; BUCKETS as usize];
        for i in 0..25_600 {
            let key = ConversationKey::new("t", format!("grp.g{i}"));
            counts[bucket_of(&key).unwrap() as usize] += 1;
        }
        assert!(counts.iter().all(|n| (50..160).contains(n)), "{counts:?}");
    }

    #[test]
    fn range_maps_cover_everything_or_are_refused() {
        let map = RangeMap::parse("0-127=a 128-255=b", 256).unwrap();
        assert_eq!((map.get(127).as_str(), map.get(128).as_str()), ("a", "b"));
        assert_eq!(map.ranges().map(|(a, b, _)| (a, b)).collect::<Vec<_>>(), [(0, 127), (128, 255)]);
        for bad in ["", "0-127=a", "0-127=a 127-255=b", "0-127=a 129-255=b", "0-256=a", "x=a"] {
            assert!(RangeMap::parse(bad, 256).is_err(), "{bad}");
        }
    }

    #[test]
    fn partitions_are_ranges_of_buckets() {
        assert_eq!([0, 31, 32, 255].map(|bucket| partition_of(bucket, 8)), [0, 0, 1, 7]);
    }

    #[test]
    fn rendezvous_moves_only_what_the_lost_one_had() {
        let three = ["r1", "r2", "r3"];
        for i in 0..100 {
            let what = i.to_string();
            let winner = rendezvous(&what, three).unwrap();
            if winner != "r3" {
                assert_eq!(rendezvous(&what, ["r1", "r2"]), Some(winner));
            }
        }
    }
}
