//! Who should own which partition: heartbeats and rendezvous hashing. It only decides who tries; safety is the log's.

use std::collections::{BTreeSet, HashMap};

use lapwing_model::{PartitionId, bucket::rendezvous};
use lapwing_proto::bus::RouterHeartbeat;

#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// A router silent for this long has lost its partitions.
    pub lease_ms: u64,
    /// After the start, others are listened for before anything is claimed.
    pub listen_ms: u64,
    /// A new router gets partitions handed over only after it was heard for so long.
    pub settle_ms: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { lease_ms: 3000, listen_ms: 1200, settle_ms: 2000 }
    }
}

struct Peer {
    incarnation: u64,
    counter: u64,
    first_heard: u64,
    heard: u64,
    draining: bool,
    owned: BTreeSet<PartitionId>,
}

pub struct Assignment {
    me: String,
    incarnation: u64,
    times: Times,
    started: u64,
    heard_myself: Option<u64>,
    draining: bool,
    peers: HashMap<String, Peer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    Claim(PartitionId),
    Release(PartitionId),
}

impl Assignment {
    pub fn new(me: impl Into<String>, incarnation: u64, times: Times, now: u64) -> Self {
        Self {
            me: me.into(),
            incarnation,
            times,
            started: now,
            heard_myself: None,
            draining: false,
            peers: HashMap::new(),
        }
    }

    pub fn drain(&mut self) {
        self.draining = true;
    }

    pub fn heard(&mut self, beat: &RouterHeartbeat, now: u64) {
        if beat.router == self.me {
            if beat.incarnation == self.incarnation {
                self.heard_myself = Some(now);
            }
            return;
        }
        let known = self.peers.get(&beat.router);
        if known.is_some_and(|peer| (peer.incarnation, peer.counter) >= (beat.incarnation, beat.counter)) {
            return;
        }
        let first_heard = known
            .filter(|peer| peer.incarnation == beat.incarnation && now - peer.heard < self.times.lease_ms)
            .map_or(now, |peer| peer.first_heard);
        let owned =
            beat.owned.iter().map(|owned| PartitionId::new(owned.topic.as_str(), owned.partition)).collect();
        self.peers.insert(
            beat.router.clone(),
            Peer {
                incarnation: beat.incarnation,
                counter: beat.counter,
                first_heard,
                heard: now,
                draining: beat.draining,
                owned,
            },
        );
    }

    /// Without its own heartbeat back this router is cut off: it claims nothing and refuses nothing.
    pub fn isolated(&self, now: u64) -> bool {
        self.heard_myself.is_none_or(|heard| now.saturating_sub(heard) > self.times.lease_ms / 2)
    }

    fn live(&self, now: u64) -> impl Iterator<Item = (&String, &Peer)> {
        self.peers.iter().filter(move |(_, peer)| now.saturating_sub(peer.heard) < self.times.lease_ms)
    }

    pub fn live_routers(&self, now: u64) -> Vec<String> {
        let mut names: Vec<_> = self.live(now).map(|(name, _)| name.clone()).collect();
        names.push(self.me.clone());
        names.sort_unstable();
        names
    }

    /// The router that writes the tenants' topic.
    pub fn owner_of_tenants(&self, now: u64) -> String {
        let names = self.live_routers(now);
        rendezvous("lapwing.tenants", names.iter().map(String::as_str)).unwrap_or(&self.me).to_owned()
    }

    pub fn decide(&self, all: &[PartitionId], mine: &BTreeSet<PartitionId>, now: u64) -> Vec<Order> {
        if self.isolated(now) || now.saturating_sub(self.started) < self.times.listen_ms {
            return Vec::new();
        }
        let mut candidates: Vec<(&str, u64)> = self
            .live(now)
            .filter(|(_, peer)| !peer.draining)
            .map(|(name, peer)| (name.as_str(), peer.first_heard))
            .collect();
        if !self.draining {
            candidates.push((&self.me, 0));
        }
        let listed: BTreeSet<&PartitionId> = self.live(now).flat_map(|(_, peer)| &peer.owned).collect();
        let mut orders = Vec::new();
        for id in all {
            let what = id.to_string();
            let Some(owner) = rendezvous(&what, candidates.iter().map(|(name, _)| *name)) else { continue };
            let since = candidates.iter().find(|(name, _)| *name == owner).map_or(now, |(_, since)| *since);
            if owner == self.me && !mine.contains(id) && !listed.contains(id) {
                orders.push(Order::Claim(id.clone()));
            }
            let settled = now.saturating_sub(since) >= self.times.settle_ms || self.draining;
            if owner != self.me && mine.contains(id) && settled {
                orders.push(Order::Release(id.clone()));
            }
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use lapwing_proto::bus::Owned;

    use super::*;

    fn beat(router: &str, counter: u64, owned: &[&PartitionId]) -> RouterHeartbeat {
        let owned = owned
            .iter()
            .map(|id| Owned { topic: id.topic.to_string(), partition: id.partition, epoch: 1, serving: true })
            .collect();
        RouterHeartbeat { router: router.into(), incarnation: 1, counter, owned, ..Default::default() }
    }

    #[test]
    fn a_silent_routers_partitions_are_claimed_after_the_lease_and_not_before() {
        let all: Vec<_> = (0..8).map(|i| PartitionId::new("lapwing.p2p", i)).collect();
        let all_refs: Vec<_> = all.iter().collect();
        let mut assignment = Assignment::new("r1", 1, Times::default(), 0);
        assignment.heard(&beat("r1", 1, &[]), 2000);
        assignment.heard(&beat("r2", 1, &all_refs), 2000);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 2000), [], "listed by a live router");
        assignment.heard(&beat("r1", 2, &[]), 4900);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 4900), [], "within the lease");
        assignment.heard(&beat("r1", 3, &[]), 5000);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 5000).len(), 8);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 7000), [], "isolated: claims nothing");
    }

    #[test]
    fn a_new_router_is_given_its_share_once_it_has_settled() {
        let all: Vec<_> = (0..64).map(|i| PartitionId::new("lapwing.p2p", i)).collect();
        let mine: BTreeSet<_> = all.iter().cloned().collect();
        let mut assignment = Assignment::new("r1", 1, Times::default(), 0);
        assignment.heard(&beat("r2", 1, &[]), 5000);
        assignment.heard(&beat("r1", 1, &[]), 5000);
        assert_eq!(assignment.decide(&all, &mine, 5000), []);
        assignment.heard(&beat("r2", 2, &[]), 7000);
        assignment.heard(&beat("r1", 2, &[]), 7000);
        let released = assignment.decide(&all, &mine, 7000);
        assert!((20..45).contains(&released.len()), "{}", released.len());
    }
}
