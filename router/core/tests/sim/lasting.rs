//! Partitions of the bus that last: some do not hear some, in one direction or both, and nothing else fails.

use rand::Rng as _;

use crate::{
    faults::Break,
    plan::{GATEWAYS, ROUTERS},
    world::World,
};

/// 200 s, or 66 leases.
const STEPS: u64 = 4000;
/// Routers that own by turns wait 1, 2, 4, 8 … leases between: three that are deaf to each other come to this in that time.
const MOST_CHANGES: usize = 24;
/// And to this in its second half.
const MOST_LATE: usize = 6;

impl World {
    /// What is wrong while they last: a partition that goes to and fro, or that nobody takes (R-SEQ-10).
    pub(crate) fn lasting_cuts(seed: u64, broken: Option<Break>) -> Vec<String> {
        let mut world = (seed << 32..)
            .map(|seed| Self::new(seed, broken))
            .find(|world| world.plan.wide)
            .unwrap_or_else(|| unreachable!());
        world.faulty = false;
        for from in 0..ROUTERS {
            for to in 0..ROUTERS + GATEWAYS {
                // To itself seldom: who does not hear itself is out of the game.
                let probability = if from == to { 0.1 } else { 0.4 };
                if world.random.random_bool(probability) {
                    world.cuts.insert((from, to), u64::MAX);
                }
            }
        }
        for _ in 0..STEPS {
            world.go_on();
        }
        let alone = (0..ROUTERS).all(|router| world.cut(router, router));
        let mut wrong = Vec::new();
        for (number, part) in world.parts.iter().enumerate() {
            let owners = world.slots.iter().filter(|slot| slot.part == number && slot.serves());
            let owned = owners.filter(|slot| !world.cut(slot.router, slot.router)).count();
            let late = part.changes.iter().filter(|at| **at > STEPS / 2).count();
            if part.changes.len() > MOST_CHANGES || late > MOST_LATE || (owned != 1 && !alone) {
                wrong.push(format!(
                    "{}: {owned} owners, changes at {:?}, cuts {:?}",
                    part.id, part.changes, world.cuts
                ));
            }
        }
        wrong
    }
}
