//! Safeguards around the owner that can be taken away, to see that the check would notice.

/// What the surroundings do wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
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
    /// An outcome without content counts as a refusal.
    Silence,
}

pub(crate) const ALL: [Break; 7] = [
    Break::Voids,
    Break::Position,
    Break::Lowest,
    Break::Start,
    Break::Nonce,
    Break::Retries,
    Break::Silence,
];
