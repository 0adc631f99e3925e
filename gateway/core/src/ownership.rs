//! Who owns which partition, as told by the routers' heartbeats.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_model::PartitionId;
use lapwing_proto::bus::RouterHeartbeat;

/// A router that was silent for this long owns nothing any more (the lease).
pub const SILENT: Duration = Duration::from_secs(3);
/// A partition that has been without an owner for so long, behind the silence, is not just changing hands.
pub const ALONE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub router: Arc<str>,
    pub epoch: u64,
}

struct Router {
    incarnation: u64,
    counter: u64,
    heard: Instant,
    serving: Vec<(PartitionId, u64)>,
    tenants_generation: u64,
    draining: bool,
}

#[derive(Default)]
pub struct Owners {
    routers: HashMap<Arc<str>, Router>,
    table: HashMap<PartitionId, Owner>,
    /// Since when a wanted partition has no owner.
    since: HashMap<PartitionId, Instant>,
}

impl Owners {
    /// Takes a heartbeat in; returns the partitions that have another owner or epoch than before.
    pub fn handle_heartbeat(&mut self, beat: &RouterHeartbeat, now: Instant) -> Vec<PartitionId> {
        let newest = (beat.incarnation, beat.counter);
        let known = self.routers.get_key_value(beat.router.as_str());
        if known.is_some_and(|(_, router)| newest <= (router.incarnation, router.counter)) {
            return Vec::new();
        }
        let name = known.map_or_else(|| Arc::from(beat.router.as_str()), |(name, _)| name.clone());
        let serving = beat.owned.iter().filter(|owned| owned.serving);
        let router = Router {
            incarnation: beat.incarnation,
            counter: beat.counter,
            heard: now,
            serving: serving
                .map(|owned| (PartitionId::new(owned.topic.as_str(), owned.partition), owned.epoch))
                .collect(),
            tenants_generation: beat.tenants_generation,
            draining: beat.draining,
        };
        self.routers.insert(name, router);
        self.rebuild()
    }

    /// Forgets silent routers; returns the partitions that changed.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<PartitionId> {
        let before = self.routers.len();
        self.routers.retain(|_, router| now.saturating_duration_since(router.heard) <= SILENT);
        if self.routers.len() == before { Vec::new() } else { self.rebuild() }
    }

    fn rebuild(&mut self) -> Vec<PartitionId> {
        let mut table: HashMap<PartitionId, Owner> = HashMap::with_capacity(self.table.len());
        for (name, router) in &self.routers {
            for (partition, epoch) in &router.serving {
                let newer = table.get(partition).is_none_or(|owner| owner.epoch < *epoch);
                if newer {
                    table.insert(partition.clone(), Owner { router: name.clone(), epoch: *epoch });
                }
            }
        }
        let changed = table
            .iter()
            .filter(|(partition, owner)| self.table.get(*partition) != Some(owner))
            .map(|(partition, _)| partition.clone())
            .chain(self.table.keys().filter(|partition| !table.contains_key(*partition)).cloned())
            .collect();
        self.table = table;
        changed
    }

    pub fn owner(&self, partition: &PartitionId) -> Option<&Owner> {
        self.table.get(partition)
    }

    pub fn partitions(&self) -> impl Iterator<Item = (&PartitionId, &Owner)> {
        self.table.iter()
    }

    /// Those of the wanted partitions that nobody serves.
    pub fn unowned<'a>(&self, wanted: &'a HashSet<PartitionId>) -> Vec<&'a PartitionId> {
        wanted.iter().filter(|partition| !self.table.contains_key(*partition)).collect()
    }

    /// How many of the wanted partitions nobody has served for longer than a change of owners takes; to be called often.
    pub fn left_alone(&mut self, wanted: &HashSet<PartitionId>, now: Instant) -> usize {
        self.since.retain(|partition, _| !self.table.contains_key(partition));
        let unowned = wanted.iter().filter(|partition| !self.table.contains_key(*partition));
        unowned
            .filter(|partition| {
                let since = *self.since.entry((*partition).clone()).or_insert(now);
                now.saturating_duration_since(since) >= ALONE
            })
            .count()
    }

    /// Routers for requests that any of them can answer: those with the newest tenants first, draining ones last.
    pub fn any(&self) -> Vec<Arc<str>> {
        let mut routers: Vec<_> = self.routers.iter().collect();
        routers.sort_by_key(|(name, router)| {
            (router.draining, std::cmp::Reverse(router.tenants_generation), (*name).clone())
        });
        routers.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// The newest generation of the tenants that any router has heard of.
    pub fn tenants_generation(&self) -> u64 {
        self.routers.values().map(|router| router.tenants_generation).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use lapwing_proto::bus::Owned;

    use super::*;

    fn beat(router: &str, incarnation: u64, counter: u64, owned: &[(u32, u64, bool)]) -> RouterHeartbeat {
        RouterHeartbeat {
            router: router.into(),
            incarnation,
            counter,
            owned: owned
                .iter()
                .map(|(partition, epoch, serving)| Owned {
                    topic: "lapwing.p2p".into(),
                    partition: *partition,
                    epoch: *epoch,
                    serving: *serving,
                    ..Owned::default()
                })
                .collect(),
            ..Default::default()
        }
    }

    fn p(partition: u32) -> PartitionId {
        PartitionId::new("lapwing.p2p", partition)
    }

    // R-SEQ-10: the newest claim owns, whoever else still lists the partition.
    #[test]
    fn the_highest_serving_epoch_owns() {
        let (mut owners, now) = (Owners::default(), Instant::now());
        assert_eq!(owners.handle_heartbeat(&beat("a", 1, 1, &[(0, 5, true), (1, 6, false)]), now), [p(0)]);
        assert_eq!(owners.owner(&p(1)), None, "claimed but not serving");
        assert_eq!(owners.handle_heartbeat(&beat("b", 1, 1, &[(0, 9, true)]), now), [p(0)]);
        assert_eq!(owners.owner(&p(0)).map(|owner| (&*owner.router, owner.epoch)), Some(("b", 9)));
        assert!(owners.handle_heartbeat(&beat("a", 1, 2, &[(0, 5, true)]), now).is_empty(), "a zombie's");
        assert_eq!(owners.owner(&p(0)).map(|owner| &*owner.router), Some("b"));
    }

    #[test]
    fn an_older_heartbeat_changes_nothing_and_a_silent_router_drops_out() {
        let (mut owners, start) = (Owners::default(), Instant::now());
        owners.handle_heartbeat(&beat("a", 2, 7, &[(0, 5, true)]), start);
        assert!(owners.handle_heartbeat(&beat("a", 2, 6, &[]), start).is_empty());
        assert!(owners.handle_heartbeat(&beat("a", 1, 9, &[]), start).is_empty());
        assert!(owners.handle_timeout(start + SILENT).is_empty());
        assert_eq!(owners.handle_timeout(start + SILENT + Duration::from_millis(1)), [p(0)]);
        assert_eq!(owners.owner(&p(0)), None);
        assert_eq!(owners.handle_heartbeat(&beat("a", 3, 1, &[(0, 8, true)]), start), [p(0)]);
        let wanted = HashSet::from([p(0), p(1)]);
        assert_eq!(owners.unowned(&wanted), [&p(1)]);
    }

    // R-SEQ-10: a change of owners is no alarm, a partition that stays without one is.
    #[test]
    fn a_partition_without_an_owner_is_counted_after_a_second() {
        let (mut owners, start) = (Owners::default(), Instant::now());
        let wanted = HashSet::from([p(0), p(1)]);
        let later = |ms| start + Duration::from_millis(ms);
        owners.handle_heartbeat(&beat("a", 1, 1, &[(0, 5, true), (1, 6, true)]), start);
        assert_eq!(owners.left_alone(&wanted, start), 0);
        owners.handle_heartbeat(&beat("a", 1, 2, &[(0, 5, true)]), later(100));
        assert_eq!(owners.left_alone(&wanted, later(200)), 0);
        assert_eq!(owners.left_alone(&wanted, later(1199)), 0);
        assert_eq!(owners.left_alone(&wanted, later(1200)), 1);
        owners.handle_heartbeat(&beat("b", 1, 1, &[(1, 9, true)]), later(1300));
        assert_eq!(owners.left_alone(&wanted, later(1300)), 0);
        owners.handle_heartbeat(&beat("b", 1, 2, &[]), later(1400));
        assert_eq!(owners.left_alone(&wanted, later(1500)), 0, "it counts anew");
    }
}
