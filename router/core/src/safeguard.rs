//! The rules that keep the protocol safe, by name. The simulation takes one away at a time and has to notice; no service can:
//! `Options::new` leaves none out, and no configuration reaches `Options::without` (a test looks at the router's source).

use lapwing_model::Rule;

use crate::Partition;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safeguard {
    /// A record is void unless its epoch is the newest claim before it.
    Void,
    /// A record is void unless its index is the next one.
    Hole,
    /// Seqs are given only when the log is folded up to the own claim.
    Fold,
    /// An answer rests on a valid record read from the log.
    Readback,
    /// An answer rests on an own acknowledged produce at or behind the record.
    Acknowledged,
    /// A client_mid that is pending joins, one that is stored gets its seq again.
    Dedupe,
    /// A first attempt that may have been overtaken by its own retry counts as one.
    Overtaken,
    /// A cold load needs a view at or past the newest position that was acknowledged.
    ColdCheck,
    /// A cold load counts only if the conversation was not evicted since it was asked.
    ColdSince,
    /// The acknowledged position never moves back: cold loads wait for the end of a replay.
    AckedForward,
    /// A load from MySQL needs a position at or past where memory begins.
    Behind,
    /// A load from MySQL says nothing of the dedupe window.
    NoWindow,
    /// Only what the view has, without anything pending, is evicted.
    Evict,
    /// A claim is adopted only in the tenure that sent it, not by the router's name.
    Nonce,
    /// What a session sent behind a refused publish does not overtake it.
    Order,
    /// A refusal that rests on a pending event waits for its read-back.
    Pending,
}

pub const SAFEGUARDS: [Safeguard; 16] = [
    Safeguard::Void,
    Safeguard::Hole,
    Safeguard::Fold,
    Safeguard::Readback,
    Safeguard::Acknowledged,
    Safeguard::Dedupe,
    Safeguard::Overtaken,
    Safeguard::ColdCheck,
    Safeguard::ColdSince,
    Safeguard::AckedForward,
    Safeguard::Behind,
    Safeguard::NoWindow,
    Safeguard::Evict,
    Safeguard::Nonce,
    Safeguard::Order,
    Safeguard::Pending,
];

impl Safeguard {
    /// The rule of validity without this part of it.
    pub fn rule(without: Option<Self>) -> Rule {
        Rule { epoch: without != Some(Safeguard::Void), order: without != Some(Safeguard::Hole) }
    }
}

impl Partition {
    pub(crate) fn lacks(&self, safeguard: Safeguard) -> bool {
        self.options.without == Some(safeguard)
    }
}
