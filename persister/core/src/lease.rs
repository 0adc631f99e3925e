//! Which partitions this persister should hold: rendezvous over the live persisters, decided from one reading of the
//! lease rows. The database's clock alone says what is expired and who lives.

use std::collections::HashMap;

use lapwing_model::{PartitionId, bucket};

/// A row of `partition_offsets`, as far as leases go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub partition: PartitionId,
    pub owner: String,
    pub epoch: i64,
    pub expired: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Take it if its epoch is still the one seen.
    pub acquire: Vec<(PartitionId, i64)>,
    /// Finish the transaction in hand, then let it go: it belongs to another one now.
    pub release: Vec<PartitionId>,
    /// Gone: somebody else has taken it. Stop at once; the fence refuses what is under way.
    pub lost: Vec<PartitionId>,
}

/// `held`: partition → the epoch under which this process holds it.
pub fn decide(me: &str, live: &[String], leases: &[Lease], held: &HashMap<PartitionId, i64>) -> Decision {
    let mut decision = Decision::default();
    for lease in leases {
        let target = bucket::rendezvous(&lease.partition.to_string(), live.iter().map(String::as_str));
        match held.get(&lease.partition) {
            Some(epoch) if lease.owner != me || lease.epoch != *epoch => {
                decision.lost.push(lease.partition.clone());
            }
            // Nobody listed as live: this process just has not been seen yet, which is no reason to let go.
            Some(_) if target.is_some_and(|target| target != me) => {
                decision.release.push(lease.partition.clone());
            }
            Some(_) => {}
            // A lease under the own name that is not held is of a process before this one: the epoch fences it off.
            None if target == Some(me) && (lease.expired || lease.owner.is_empty() || lease.owner == me) => {
                decision.acquire.push((lease.partition.clone(), lease.epoch));
            }
            None => {}
        }
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions() -> Vec<PartitionId> {
        (0..24).map(|p| PartitionId::new("lapwing.p2p", p)).collect()
    }

    fn leases(owner: impl Fn(&PartitionId) -> (String, bool)) -> Vec<Lease> {
        let of = |partition: PartitionId| {
            let (owner, expired) = owner(&partition);
            Lease { partition, owner, epoch: 1, expired }
        };
        partitions().into_iter().map(of).collect()
    }

    #[test]
    fn free_partitions_are_shared_out_and_all_taken() {
        let live = ["p1".to_owned(), "p2".to_owned()];
        let free = leases(|_| (String::new(), true));
        let one = decide("p1", &live, &free, &HashMap::new()).acquire;
        let two = decide("p2", &live, &free, &HashMap::new()).acquire;
        assert_eq!(one.len() + two.len(), 24);
        assert!(one.len() >= 6 && two.len() >= 6, "{} {}", one.len(), two.len());
        assert!(one.iter().all(|a| !two.contains(a)));
    }

    #[test]
    fn only_expired_leases_of_a_dead_one_are_taken() {
        let live = ["p1".to_owned()];
        let held = leases(|_| ("p2".to_owned(), false));
        assert_eq!(decide("p1", &live, &held, &HashMap::new()), Decision::default());
        let expired = leases(|_| ("p2".to_owned(), true));
        assert_eq!(decide("p1", &live, &expired, &HashMap::new()).acquire.len(), 24);
    }

    #[test]
    fn what_belongs_to_a_new_one_is_released_and_what_was_taken_is_lost() {
        let mine = leases(|_| ("p1".to_owned(), false));
        let held: HashMap<_, _> = partitions().into_iter().map(|p| (p, 1)).collect();
        let both = ["p1".to_owned(), "p2".to_owned()];
        let decision = decide("p1", &both, &mine, &held);
        assert!(decision.lost.is_empty() && (6..=18).contains(&decision.release.len()));
        assert_eq!(decide("p1", &[], &mine, &held), Decision::default());

        let taken = leases(|p| (if p.partition == 3 { "p2" } else { "p1" }.to_owned(), false));
        let decision = decide("p1", &["p1".to_owned()], &taken, &held);
        assert_eq!(decision.lost, [PartitionId::new("lapwing.p2p", 3)]);
    }

    // R-PST-2: a restart under the same name does not wait for its own old lease, and never goes on under its epoch.
    #[test]
    fn a_restarted_process_takes_its_old_leases_anew() {
        let mine = leases(|_| ("p1".to_owned(), false));
        assert_eq!(decide("p1", &["p1".to_owned()], &mine, &HashMap::new()).acquire.len(), 24);
        let older: HashMap<_, _> = partitions().into_iter().map(|p| (p, 0)).collect();
        assert_eq!(decide("p1", &["p1".to_owned()], &mine, &older).lost.len(), 24);
    }
}
