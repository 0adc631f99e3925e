//! Safeguards that can be taken away, to see that the check would notice.

use lapwing_router_core::{Safeguard, safeguard::SAFEGUARDS};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// One of the owner's own.
    Core(Safeguard),
    /// A replay counts void records.
    Voids,
    /// A view takes batches that do not start at its position.
    Position,
    /// Cold loads are served by a view that moved back.
    Lowest,
    /// An owner folds from the log's end instead of the view's position.
    Start,
    /// A router has one nonce for all its tenures.
    Nonce,
    /// Retries are not marked as such, and nothing tells them apart.
    Retries,
    /// A deposed router claims again at once.
    Waits,
    /// An outcome without content counts as a refusal.
    Silence,
}

pub(crate) const AROUND: [Break; 7] = [
    Break::Voids,
    Break::Position,
    Break::Lowest,
    Break::Start,
    Break::Nonce,
    Break::Retries,
    Break::Silence,
];

/// Only one of them, for a closer look: `LAPWING_SIM_BREAK=Isolated`.
fn left_out(broken: &Break) -> bool {
    std::env::var("LAPWING_SIM_BREAK").is_ok_and(|name| !format!("{broken:?}").contains(&name))
}

pub(crate) fn all() -> impl Iterator<Item = Break> {
    SAFEGUARDS.into_iter().map(Break::Core).chain(AROUND).filter(|broken| !left_out(broken))
}

/// The owner's own safeguard that is missing.
pub(crate) fn of_core(broken: Option<Break>) -> Option<Safeguard> {
    match broken {
        Some(Break::Core(safeguard)) => Some(safeguard),
        _ => None,
    }
}
