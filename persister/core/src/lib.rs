//! The persister's decisions, free of IO: what a batch writes, which lease to take, which error ends what, how fast to go,
//! what a user may see, what the schema must be.

pub mod batch;
pub mod budget;
pub mod class;
pub mod contract;
pub mod indexes;
pub mod lease;
pub mod pace;
pub mod plan;
pub mod replay;
pub mod retention;
pub mod shard;
pub mod side;
pub mod topic;
pub mod window;

pub use batch::{LogReader, Row, Stop, Unreadable};
pub use class::Class;
pub use plan::Plan;
pub use topic::{Item, Step, TopicReader};
