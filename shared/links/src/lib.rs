//! The links to NATS, Redis and Kafka, each with its traps closed. The raw clients stay inside.
//!
//! Every call has its own timeout, every error says whether the other side may have acted.

pub mod kafka;
pub mod nats;
pub mod redis;
