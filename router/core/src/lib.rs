//! The router without IO: one state machine a partition. Inputs carry the time; what is to be done comes out as effects.
//!
//! The way of a publish: `admission` (dedupe, permission, seq) → effect `Produce` → `commit` (read back, judged, released)
//! → effects `Reply` and `Released`, from which the shell dispatches and applies.

mod admission;
pub mod aside;
mod commit;
mod conversation;
mod decide;
mod memory;
mod reads;

pub mod assign;
pub mod interest;
pub mod io;
pub mod lane;
pub mod partition;
pub mod recent;
pub mod requests;
pub mod safeguard;
pub mod view;

pub use assign::Assignment;
pub use io::{Effect, FanOut, Load, Loaded, Lookup, LookupAnswer, Now, Own, Released, RequestId};
pub use partition::{Options, Partition, State};
pub use safeguard::Safeguard;
