//! Models in memory of what stands behind the cores, and the contracts that they share with the real thing: each contract is
//! written once and run on both (`tests/`). The simulation plays with these models and adds nothing but faults.

mod owners;
mod piece;

pub use owners::Owners;
pub use piece::{Cursor, Load, OfUser, Piece};
