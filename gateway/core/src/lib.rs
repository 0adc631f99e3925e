//! What a gateway decides, free of IO: who owns what, in which order a session's publishes go out, and which events a
//! session gets. Time comes in as an argument.

pub mod batches;
pub mod cursors;
pub mod encode;
pub mod lane;
pub mod linger;
pub mod ownership;
pub mod page;
pub mod rate;
pub mod ring;
pub mod room;
pub mod stall;
pub mod wire;

pub use encode::{Encoding, EventFrame};
pub use lane::Lane;
pub use ownership::{Owner, Owners};
pub use room::{Room, Sink};
