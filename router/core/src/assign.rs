//! Who should own which partition: heartbeats and rendezvous hashing. It only decides who tries; safety is the log's.

use std::collections::{BTreeSet, HashMap, VecDeque};

use lapwing_model::{PartitionId, bucket::rendezvous};
use lapwing_proto::bus::RouterHeartbeat;

#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// A router silent for this long has lost its partitions.
    pub lease_ms: u64,
    /// After the start, or after it was cut off, others are listened for before anything is claimed.
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

/// A partition that another one's claim took from this router.
struct Lost {
    at: u64,
    times: u32,
    until: u64,
    /// A live router listed it since: when that one falls silent, its silence means something.
    listed: bool,
}

/// Longest wait after being deposed again and again: lease × 2^5.
const MOST_WAITS: u32 = 5;

pub struct Assignment {
    me: String,
    incarnation: u64,
    times: Times,
    started: u64,
    /// When the newest of the own heartbeats that came back was sent.
    heard_myself: Option<u64>,
    /// Since when they come back.
    connected: u64,
    sent: VecDeque<(u64, u64)>,
    lost: HashMap<PartitionId, Lost>,
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
            connected: now,
            sent: VecDeque::new(),
            lost: HashMap::new(),
            draining: false,
            peers: HashMap::new(),
        }
    }

    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// A heartbeat goes out now: when it comes back late, it tells about then.
    pub fn sent(&mut self, counter: u64, now: u64) {
        self.sent.push_back((counter, now));
        while self.sent.len() > 256 {
            self.sent.pop_front();
        }
    }

    /// Another one's claim deposed this router: it waits before it tries again, so that two who do not hear each other
    /// do not take a partition from each other for ever.
    pub fn deposed(&mut self, id: &PartitionId, now: u64) {
        let lease = self.times.lease_ms;
        let again = |lost: &&Lost| now.saturating_sub(lost.at) < lease << (lost.times + 2);
        let times = self.lost.get(id).filter(again).map_or(0, |lost| (lost.times + 1).min(MOST_WAITS));
        let until = now + (lease << times);
        self.lost.insert(id.clone(), Lost { at: now, times, until, listed: false });
    }

    fn may_claim(&self, id: &PartitionId, now: u64) -> bool {
        self.lost.get(id).is_none_or(|lost| lost.listed || lost.until <= now)
    }

    fn heard_own(&mut self, counter: u64, now: u64) {
        let sent = self.sent.iter().find(|(of, _)| *of == counter).map_or(now, |(_, at)| *at);
        let isolated = self.isolated(now);
        self.heard_myself = self.heard_myself.max(Some(sent));
        if isolated && !self.isolated(now) {
            self.connected = now;
        }
    }

    pub fn heard(&mut self, beat: &RouterHeartbeat, now: u64) {
        if beat.router == self.me {
            if beat.incarnation == self.incarnation {
                self.heard_own(beat.counter, now);
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
        let owned: BTreeSet<PartitionId> =
            beat.owned.iter().map(|owned| PartitionId::new(owned.topic.as_str(), owned.partition)).collect();
        for id in &owned {
            if let Some(lost) = self.lost.get_mut(id) {
                lost.listed = true;
            }
        }
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
        let heard_for = now.saturating_sub(self.connected.max(self.started));
        if self.isolated(now) || heard_for < self.times.listen_ms {
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
            if owner == self.me && !mine.contains(id) && !listed.contains(id) && self.may_claim(id, now) {
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
            .map(|id| Owned {
                topic: id.topic.to_string(),
                partition: id.partition,
                epoch: 1,
                serving: true,
                ..Owned::default()
            })
            .collect();
        RouterHeartbeat { router: router.into(), incarnation: 1, counter, owned, ..Default::default() }
    }

    /// r1 hears itself each 500 ms up to then.
    fn hear_myself(assignment: &mut Assignment, counter: &mut u64, until: u64) {
        while *counter * 500 <= until {
            assignment.heard(&beat("r1", *counter, &[]), *counter * 500);
            *counter += 1;
        }
    }

    #[test]
    fn a_silent_routers_partitions_are_claimed_after_the_lease_and_not_before() {
        let all: Vec<_> = (0..8).map(|i| PartitionId::new("lapwing.p2p", i)).collect();
        let all_refs: Vec<_> = all.iter().collect();
        let mut assignment = Assignment::new("r1", 1, Times::default(), 0);
        let mut counter = 0;
        hear_myself(&mut assignment, &mut counter, 2000);
        assignment.heard(&beat("r2", 1, &all_refs), 2000);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 2000), [], "listed by a live router");
        hear_myself(&mut assignment, &mut counter, 5000);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 4900), [], "within the lease");
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 5000).len(), 8);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 7000), [], "isolated: claims nothing");
    }

    // R-SEQ-10: after an outage of the bus the others are heard before they count as dead.
    #[test]
    fn who_was_cut_off_listens_before_it_claims() {
        let all = [PartitionId::new("lapwing.p2p", 0)];
        let mut assignment = Assignment::new("r1", 1, Times::default(), 0);
        let mut counter = 0;
        hear_myself(&mut assignment, &mut counter, 2000);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 2000).len(), 1);
        assignment.heard(&beat("r1", 99, &[]), 20_000);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 20_000), []);
        assignment.heard(&beat("r1", 100, &[]), 21_000);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), 21_300).len(), 1);
    }

    // R-PERM-1: what lay in a buffer while the process was stopped is no sign of life.
    #[test]
    fn an_own_heartbeat_that_comes_back_late_tells_about_the_time_when_it_was_sent() {
        let mut assignment = Assignment::new("r1", 1, Times::default(), 0);
        assignment.sent(7, 1000);
        assignment.heard(&beat("r1", 7, &[]), 1001);
        assert!(!assignment.isolated(2000));
        assignment.sent(8, 2000);
        assignment.heard(&beat("r1", 8, &[]), 12_000);
        assert!(assignment.isolated(12_000));
    }

    // R-SEQ-10: no ping-pong.
    #[test]
    fn a_deposed_router_waits_longer_each_time_unless_the_next_owner_fell_silent() {
        let all = [PartitionId::new("lapwing.p2p", 0)];
        let mut assignment = Assignment::new("r1", 1, Times::default(), 0);
        let mut counter = 0;
        let mut claimed = Vec::new();
        let mut now = 2000;
        for _ in 0..4 {
            assignment.deposed(&all[0], now);
            let lost = now;
            while assignment.decide(&all, &BTreeSet::new(), now).is_empty() {
                now += 500;
                hear_myself(&mut assignment, &mut counter, now);
            }
            claimed.push(now - lost);
        }
        assert_eq!(claimed, [3000, 6000, 12_000, 24_000]);
        assignment.deposed(&all[0], now);
        assignment.heard(&beat("r2", 1, &[&all[0]]), now);
        hear_myself(&mut assignment, &mut counter, now + 3000);
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), now + 2500), [], "it is listed");
        assert_eq!(assignment.decide(&all, &BTreeSet::new(), now + 3000).len(), 1, "it was, and is silent");
    }

    #[test]
    fn a_new_router_is_given_its_share_once_it_has_settled() {
        let all: Vec<_> = (0..64).map(|i| PartitionId::new("lapwing.p2p", i)).collect();
        let mine: BTreeSet<_> = all.iter().cloned().collect();
        let mut assignment = Assignment::new("r1", 1, Times::default(), 0);
        let mut counter = 0;
        hear_myself(&mut assignment, &mut counter, 5000);
        assignment.heard(&beat("r2", 1, &[]), 5000);
        assert_eq!(assignment.decide(&all, &mine, 5000), []);
        assignment.heard(&beat("r2", 2, &[]), 7000);
        hear_myself(&mut assignment, &mut counter, 7000);
        let released = assignment.decide(&all, &mine, 7000);
        assert!((20..45).contains(&released.len()), "{}", released.len());
    }
}
