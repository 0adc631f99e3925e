//! All conversations with local sessions, in shards with a lock each; nothing waits under a lock.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_gateway_core::{
    Room,
    linger::Linger,
    ring::{RingBudget, RingLimit},
    room::Effect,
};
use lapwing_model::{ConversationKey, PartitionId};
use parking_lot::Mutex;

use crate::session::Seat;

const SHARDS: usize = 64;
/// The newest events that a conversation keeps by reference for sessions that fall behind.
const RING: RingLimit = RingLimit { events: 512, bytes: 512 << 10 };

/// Of all conversations together.
const RINGS: usize = 64 << 20;

type Shard = HashMap<ConversationKey, Room<Seat>>;

pub struct Hub {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    linger: Mutex<Linger<ConversationKey>>,
    partitions: u32,
    rings: Arc<RingBudget>,
}

impl Hub {
    pub fn new(partitions: u32, linger: Duration) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            linger: Mutex::new(Linger::new(linger)),
            partitions,
            rings: RingBudget::new(RINGS),
        }
    }

    fn shard(&self, key: &ConversationKey) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Works on a conversation's room, if there is one. The effects are for the caller to run, after the lock.
    pub fn with<R>(
        &self,
        key: &ConversationKey,
        work: impl FnOnce(&mut Room<Seat>, &mut Vec<Effect>) -> R,
    ) -> Option<(R, Vec<Effect>)> {
        let mut effects = Vec::new();
        let mut shard = self.shard(key).lock();
        let room = shard.get_mut(key)?;
        let was_empty = room.is_empty();
        let result = work(room, &mut effects);
        let emptied = !was_empty && room.is_empty();
        drop(shard);
        if emptied {
            self.linger.lock().push(key.clone(), Instant::now());
        }
        Some((result, effects))
    }

    /// Makes sure that the room is there and stays until `leave`: before the owner is asked to attach.
    pub fn enter(&self, key: &ConversationKey) {
        let mut shard = self.shard(key).lock();
        shard.entry(key.clone()).or_insert_with(|| Room::new(RING, self.rings.clone())).entering += 1;
    }

    pub fn leave(&self, key: &ConversationKey) {
        self.with(key, |room, _| room.entering = room.entering.saturating_sub(1));
    }

    /// Forgets the next room that has been without sessions long enough. `withdraw` numbers the change under the same lock,
    /// so that a later attach has a later number.
    pub fn expire(
        &self,
        now: Instant,
        withdraw: impl FnOnce() -> u64,
    ) -> Option<Option<(ConversationKey, u64)>> {
        let key = self.linger.lock().pop_due(now)?;
        let mut shard = self.shard(&key).lock();
        if !shard.get(&key).is_some_and(Room::is_empty) {
            return Some(None);
        }
        shard.remove(&key);
        let counter = withdraw();
        Some(Some((key, counter)))
    }

    /// All conversations of a partition that this node is interested in.
    pub fn of_partition(&self, partition: &PartitionId) -> Vec<ConversationKey> {
        let mut keys = Vec::new();
        for shard in &self.shards {
            keys.extend(
                shard.lock().keys().filter(|key| self.partition(key).as_ref() == Some(partition)).cloned(),
            );
        }
        keys
    }

    pub fn partition(&self, key: &ConversationKey) -> Option<PartitionId> {
        PartitionId::of(key, self.partitions)
    }

    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// The highest seq that this node has heard of.
    pub fn known(&self, key: &ConversationKey) -> u64 {
        self.with(key, |room, _| room.known()).map_or(0, |(known, _)| known)
    }
}
