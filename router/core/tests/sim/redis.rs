//! The Redis instances: each partition has in each of them a piece of both families, with a position of its own.

use lapwing_contracts::{Owners, Piece};
use lapwing_model::{
    Family, Op, Position, bucket,
    view::{Applied, Expect, FAMILIES, Owned},
};
use lapwing_router_core::{Load, Lookup, LookupAnswer, Own, Safeguard, view::Batch};
use rand::Rng as _;

use crate::{
    faults::Break,
    plan::{Plan, TENANT},
    view,
    world::{Event, World},
};

/// A piece of the views that can be rolled back.
#[derive(Default, Clone)]
pub(crate) struct Kept {
    pub(crate) view: Piece,
    /// All that changed it, from empty on: a rollback runs a part of it again.
    applied: Vec<(Position, Vec<Op>)>,
}

impl Kept {
    fn roll_back(&mut self, applies: usize) {
        self.applied.truncate(self.applied.len().saturating_sub(applies));
        self.view = Piece::default();
        for (new, ops) in &self.applied {
            self.view.force(*new, ops);
        }
    }
}

#[derive(Default)]
pub(crate) struct Instance {
    pub(crate) down_until: u64,
    owners: Owners,
}

pub(crate) fn piece(instance: usize, family: Family) -> usize {
    2 * instance + FAMILIES.iter().position(|of| *of == family).unwrap_or_default()
}

pub(crate) fn family_of(piece: usize) -> Family {
    FAMILIES[piece % 2]
}

impl Plan {
    /// What of a batch goes to this piece.
    pub(crate) fn keep(&self, piece: usize, ops: &mut Vec<Op>) {
        if self.instances.len() > 1 {
            ops.retain(|op| self.instance_of(op) == piece / 2);
        }
    }

    fn instance_of(&self, op: &Op) -> usize {
        match op {
            Op::Head { bucket, .. }
            | Op::Hot { bucket, .. }
            | Op::Mid { bucket, .. }
            | Op::Joined { bucket, .. }
            | Op::Left { bucket, .. }
            | Op::Reset { bucket, .. }
            | Op::Persisted { bucket, .. } => self.instance_of_bucket(*bucket),
            Op::UserJoined { user, .. }
            | Op::UserPeer { user, .. }
            | Op::UserLeft { user, .. }
            | Op::Sent { user, .. }
            | Op::Cursor { user, .. } => self.instance_of_user(user),
            // The shell's own; the core makes none.
            Op::Told { .. } => 0,
        }
    }
}

impl World {
    fn up(&self, instance: usize) -> bool {
        self.instances[instance].down_until <= self.clock
    }

    pub(crate) fn redis_up(&self) -> bool {
        (0..self.instances.len()).all(|instance| self.up(instance))
    }

    /// A cold load and the client_mid's key, both at their instances.
    pub(crate) fn look(&mut self, slot: usize, tenure: u64, lookup: &Lookup) {
        let instance = self.plan.instance_of_bucket(lookup.bucket);
        let load = match &lookup.load {
            None => Load::NotAsked,
            Some(ask) if !self.up(instance) => self.load_persisted(self.slots[slot].part, &lookup.key, ask),
            Some(_) if self.fault(self.plan.faults.no_load) => Load::Unavailable,
            Some(ask) => {
                let mut ask = ask.clone();
                if self.broken == Some(Break::Lowest) {
                    ask.lowest = 0;
                }
                let part = self.slots[slot].part;
                let of = &self.parts[part].pieces[piece(instance, Family::Commit)].view;
                let wall = self.now(self.slots[slot].router).wall;
                view::load(of, &lookup.key, lookup.bucket, &ask, wall)
            }
        };
        let own = match &lookup.own {
            None => Own::NotAsked,
            Some(ask) => self.own(&ask.sender, &ask.client_mid, ask.content_hash),
        };
        let answer = LookupAnswer { ticket: lookup.ticket, load, own };
        self.later(slot, Event::LookedUp(tenure, answer));
    }

    fn own(&mut self, sender: &str, client_mid: &str, hash: [u8; 16]) -> Own {
        let instance = self.plan.instance_of_bucket(bucket::mid_bucket(TENANT, sender, client_mid));
        if self.broken == Some(Break::Retries) {
            return Own::New;
        }
        if !self.up(instance) || self.fault(self.plan.faults.skipped_key) {
            self.counts.add("a skipped client_mid check");
            return Own::Skipped;
        }
        match self.instances[instance].owners.own(TENANT, sender, client_mid, hash) {
            Owned::New => Own::New,
            Owned::SameContent => Own::SameContent,
            Owned::OtherContent => Own::OtherContent,
        }
    }

    pub(crate) fn take_batch(&mut self, slot: usize, tenure: u64, piece: usize, batch: &Batch) {
        let result = if self.up(piece / 2) {
            let result = self.apply(slot, piece, batch.expected, batch.new, batch.ops.clone());
            if self.fault(self.plan.faults.lost_apply) { None } else { Some(result) }
        } else {
            None
        };
        self.within(10, slot, Event::Applied(tenure, piece, result, batch.new));
    }

    /// Err: where the view stands instead.
    pub(crate) fn apply(
        &mut self,
        slot: usize,
        piece: usize,
        expected: Position,
        new: Position,
        mut ops: Vec<Op>,
    ) -> Result<(), Position> {
        self.plan.keep(piece, &mut ops);
        let of = &mut self.parts[self.slots[slot].part].pieces[piece];
        let before = of.view.stands();
        let result = if self.broken == Some(Break::Position) {
            of.view.force(new, &ops);
            Ok(())
        } else {
            match of.view.apply(&Expect::Move(expected, new), &ops) {
                Applied::Ok => Ok(()),
                // What a rebuild from MySQL would fill, the log fills here.
                Applied::At(at) => Err(at.unwrap_or_default()),
                Applied::Moved(to) => unreachable!("nothing is moved here, least of all to {to}"),
            }
        };
        if of.view.stands() != before {
            of.applied.push((new, ops));
        }
        result
    }

    /// An instance loses its newest changes, or all of them.
    pub(crate) fn roll_back(&mut self, instance: usize, all: bool) {
        for part in 0..self.parts.len() {
            for family in FAMILIES {
                let applies = if all { usize::MAX } else { self.random.random_range(0..6) };
                self.parts[part].pieces[piece(instance, family)].roll_back(applies);
            }
        }
        let of = &mut self.instances[instance].owners;
        let kept = if all { 0 } else { of.len().saturating_sub(self.random.random_range(0..4)) };
        while of.len() > kept {
            of.forget_last();
        }
        self.counts.add(if all { "a Redis lost" } else { "a view moved back" });
    }

    pub(crate) fn redis_down(&mut self, instance: usize) {
        self.instances[instance].down_until = self.clock + self.random.random_range(20..300);
        self.counts.add("a Redis down");
    }

    /// Commit pieces told the owner how far they are; what all have is behind it.
    pub(crate) fn piece_acked(&mut self, slot: usize, piece: usize, at: u64) {
        let back = self.broken == Some(Break::Core(Safeguard::AckedForward));
        let of = &mut self.slots[slot];
        if family_of(piece) == Family::Commit {
            let acked = &mut of.pieces_acked[piece / 2];
            *acked = if back { at } else { (*acked).max(at) };
            if let Some(least) = of.pieces_acked.iter().min() {
                of.core.view_at(*least);
            }
        }
    }
}
