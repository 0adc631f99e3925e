//! The persister's decisions, free of IO: what a batch writes, which lease to take, which error ends what, how fast to go,
//! what a user may see, what the schema must be.

pub mod batch;
pub mod class;
pub mod contract;
pub mod lease;
pub mod pace;
pub mod placement;
pub mod plan;
pub mod shard;
pub mod side;
pub mod topic;
pub mod window;

pub use batch::{LogReader, Row, Stop, Unreadable};
pub use class::Class;
pub use placement::{Placed, Placement};
pub use plan::Plan;
pub use topic::{Item, Step, TopicReader};
