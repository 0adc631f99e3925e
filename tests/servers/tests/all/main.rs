//! The servers crate against the real servers. Each test starts its own, on free ports, and kills them on drop.

mod cluster;
mod fake;
mod infra;
mod machine;
mod raw;
