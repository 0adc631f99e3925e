//! Which Redis instance has which view (R-SEQ-3): explicit ranges from the configuration, and what owners have moved since.
//!
//! A partition's commit view is on one instance as a whole, so ranges of buckets are whole partitions (ADR 6). Its user view
//! is cut by the ranges of user shards, each piece with a position of its own.

use std::{collections::HashMap, sync::Arc};

use lapwing_links::redis::Redis;
use lapwing_model::{
    Bucket, Family, Op, PartitionId,
    bucket::{self, BUCKETS, RangeMap, USER_SHARDS, partition_of},
};
use lapwing_runtime::{Health, SecretUrl, Tasks, config::BadConfig};
use parking_lot::RwLock;

/// The keys of a service that reads or writes the views.
#[derive(Debug, Clone, clap::Args)]
pub struct Settings {
    /// Redis with the views, password included; several: one=redis://… two=redis://…
    #[arg(
        long,
        env = "LAPWING_REDIS_URL",
        default_value = "redis://127.0.0.1:6379/0",
        hide_env_values = true
    )]
    pub redis_url: SecretUrl,

    /// Which instance has which commit buckets: 0-127=one 128-255=two; whole partitions, the same in all services
    #[arg(long, env = "LAPWING_REDIS_BUCKETS")]
    pub redis_buckets: Option<String>,

    /// Which instance has which of the 64 user shards: 0-31=one 32-63=two; the same in all services
    #[arg(long, env = "LAPWING_REDIS_USERS")]
    pub redis_users: Option<String>,
}

/// A part of one partition's views that stands on one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Piece {
    pub family: Family,
    /// Of buckets or of user shards.
    pub first: u32,
    pub last: u32,
    pub instance: usize,
}

impl Piece {
    pub fn commit(instance: usize) -> Self {
        Self { family: Family::Commit, first: 0, last: BUCKETS - 1, instance }
    }

    /// Whether an operation of its family belongs here.
    pub fn holds(&self, op: &Op) -> bool {
        match op {
            Op::UserJoined { tenant, user, .. }
            | Op::UserPeer { tenant, user, .. }
            | Op::UserLeft { tenant, user, .. }
            | Op::Sent { tenant, user, .. }
            | Op::Cursor { tenant, user, .. } => {
                (self.first..=self.last).contains(&bucket::user_shard(tenant, user))
            }
            _ => true,
        }
    }
}

#[derive(Clone)]
pub struct Places {
    inner: Arc<Inner>,
}

struct Inner {
    instances: Vec<Redis>,
    buckets: RangeMap<usize>,
    users: RangeMap<usize>,
    partitions: u32,
    /// Moved away from where the configuration has them.
    moved: RwLock<HashMap<PartitionId, usize>>,
    /// Up to where owners have said that the commit and the user views are right.
    right: RwLock<HashMap<PartitionId, [u64; 2]>>,
}

impl Places {
    pub fn single(redis: Redis, partitions: u32) -> Self {
        let (buckets, users) = (RangeMap::single(BUCKETS, 0), RangeMap::single(USER_SHARDS, 0));
        Self::of(vec![redis], buckets, users, partitions)
    }

    fn of(instances: Vec<Redis>, buckets: RangeMap<usize>, users: RangeMap<usize>, partitions: u32) -> Self {
        let inner = Inner {
            instances,
            buckets,
            users,
            partitions,
            moved: RwLock::default(),
            right: RwLock::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    pub fn connect(
        settings: &Settings,
        partitions: u32,
        tasks: &Tasks,
        health: &Health,
    ) -> anyhow::Result<Self> {
        let named = settings.redis_url.named("redis");
        let ranges = |key: &str, text: &Option<String>, size: u32| -> anyhow::Result<RangeMap<usize>> {
            let Some(text) = text.as_deref().filter(|text| !text.is_empty()) else {
                if named.len() != 1 {
                    return bad(format!("{key} must say which of the Redis instances has what"));
                }
                return Ok(RangeMap::single(size, 0));
            };
            let index = |name: &String| named.iter().position(|(known, _)| known == name);
            let map = RangeMap::parse(text, size).or_else(|error| bad(format!("{key}: {error}")))?;
            map.try_map(|name| match index(name) {
                Some(index) => Ok(index),
                None => bad(format!("{key}: LAPWING_REDIS_URL has no instance {name}")),
            })
        };
        let buckets = ranges("LAPWING_REDIS_BUCKETS", &settings.redis_buckets, BUCKETS)?;
        let users = ranges("LAPWING_REDIS_USERS", &settings.redis_users, USER_SHARDS)?;
        let size = BUCKETS / partitions.max(1);
        if let Some((first, ..)) = buckets.ranges().find(|(first, ..)| first % size != 0) {
            return bad(format!(
                "LAPWING_REDIS_BUCKETS: a range begins at {first}; ranges are whole partitions, so multiples of {size}"
            ));
        }
        let connect = |(name, url): &(String, SecretUrl)| Redis::connect(name, url, tasks, health);
        let instances = named.iter().map(connect).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self::of(instances, buckets, users, partitions))
    }

    pub fn instances(&self) -> &[Redis] {
        &self.inner.instances
    }

    pub fn instance_named(&self, name: &str) -> Option<usize> {
        self.inner.instances.iter().position(|redis| redis.instance() == name)
    }

    pub fn redis(&self, instance: usize) -> &Redis {
        &self.inner.instances[instance]
    }

    pub fn partitions(&self) -> u32 {
        self.inner.partitions
    }

    /// Where the configuration has a partition's commit view.
    pub fn configured(&self, id: &PartitionId) -> usize {
        let first = id.partition * BUCKETS / self.inner.partitions;
        *self.inner.buckets.get(first.min(BUCKETS - 1))
    }

    /// Where it is now, as far as known here.
    pub fn commit(&self, id: &PartitionId) -> usize {
        self.inner.moved.read().get(id).copied().unwrap_or_else(|| self.configured(id))
    }

    /// What an owner said, or a marker on the instance where it was.
    pub fn moved(&self, id: &PartitionId, instance: usize) {
        if instance == self.configured(id) {
            self.inner.moved.write().remove(id);
        } else {
            self.inner.moved.write().insert(id.clone(), instance);
        }
    }

    /// An owner has said that its views are right up to there; they never are less.
    pub fn right_up_to(&self, id: &PartitionId, commit: u64, user: u64) {
        let mut right = self.inner.right.write();
        let known = right.entry(id.clone()).or_default();
        *known = [known[0].max(commit), known[1].max(user)];
    }

    /// The offset below which a view of this family says nothing (I9).
    pub fn lowest(&self, id: &PartitionId, family: Family) -> u64 {
        let known = self.inner.right.read().get(id).copied().unwrap_or_default();
        known[usize::from(family == Family::User)]
    }

    /// Where the keys over all conversations are (`cmidown`): by the client_mid's own bucket, never moved.
    pub fn mid(&self, bucket: Bucket) -> usize {
        *self.inner.buckets.get(bucket)
    }

    /// The piece of the user views that has a user.
    pub fn user(&self, tenant: &str, user: &str) -> Piece {
        let shard = bucket::user_shard(tenant, user);
        let pieces = self.users();
        let holds = |piece: &Piece| (piece.first..=piece.last).contains(&shard);
        pieces.into_iter().find(holds).unwrap_or(Piece {
            family: Family::User,
            first: 0,
            last: USER_SHARDS - 1,
            instance: 0,
        })
    }

    fn users(&self) -> Vec<Piece> {
        let piece = |(first, last, instance): (u32, u32, &usize)| Piece {
            family: Family::User,
            first,
            last,
            instance: *instance,
        };
        self.inner.users.ranges().map(piece).collect()
    }

    /// All pieces of a partition's views; the commit view first.
    pub fn pieces(&self, id: &PartitionId) -> Vec<Piece> {
        std::iter::once(Piece::commit(self.commit(id))).chain(self.users()).collect()
    }

    /// The partitions that lie wholly in a range of buckets.
    pub fn partitions_in(&self, first: Bucket, last: Bucket) -> std::ops::Range<u32> {
        let from = partition_of(first + BUCKETS / self.inner.partitions - 1, self.inner.partitions);
        from..partition_of(last + 1, self.inner.partitions).max(from)
    }
}

fn bad<T>(text: String) -> anyhow::Result<T> {
    Err(BadConfig(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(urls: &str, buckets: &str, users: &str) -> anyhow::Result<Places> {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let settings = Settings {
            redis_url: SecretUrl::new(urls),
            redis_buckets: text(buckets),
            redis_users: text(users),
        };
        Places::connect(&settings, 8, &Tasks::new(), &Health::new())
    }

    const TWO: &str = "one=redis://127.0.0.1:1/0 two=redis://:secret@127.0.0.1:2/0";

    // R-SEQ-3
    #[tokio::test]
    async fn ranges_say_where_things_are_and_a_move_changes_one_partition() {
        let places = places(TWO, "0-127=one 128-255=two", "0-15=two 16-63=one").unwrap();
        let at = |partition| places.commit(&PartitionId::new("lapwing.p2p", partition));
        assert_eq!([0, 3, 4, 7].map(at), [0, 0, 1, 1]);
        places.moved(&PartitionId::new("lapwing.p2p", 3), 1);
        assert_eq!([2, 3].map(at), [0, 1]);
        assert_eq!(places.commit(&PartitionId::new("lapwing.group", 3)), 0, "each topic for itself");
        places.moved(&PartitionId::new("lapwing.p2p", 3), 0);
        assert_eq!(at(3), 0);
        assert_eq!((places.partitions_in(0, 63), places.partitions_in(1, 63)), (0..2, 1..2));
        assert_eq!(places.partitions_in(0, 62), 0..1);
        let pieces = places.pieces(&PartitionId::new("lapwing.p2p", 0));
        assert_eq!(pieces.iter().map(|piece| piece.instance).collect::<Vec<_>>(), [0, 1, 0]);
    }

    #[tokio::test]
    async fn what_does_not_fit_is_refused_with_a_clear_word() {
        let error = |urls: &str, buckets: &str, users: &str| match places(urls, buckets, users) {
            Ok(_) => panic!("{buckets} {users}"),
            Err(error) => error.to_string(),
        };
        assert!(error(TWO, "", "").contains("LAPWING_REDIS_BUCKETS must say"));
        assert!(error(TWO, "0-127=one 128-255=three", "0-63=one").contains("no instance three"));
        assert!(error(TWO, "0-99=one 100-255=two", "0-63=one").contains("multiples of 32"));
        assert!(error(TWO, "0-127=one 128-255=two", "0-31=one").contains("must cover 0-63"));
        assert!(places("redis://127.0.0.1:1/0", "", "").is_ok());
    }
}
