//! The servers crate against the real servers. Each test starts its own, on free ports, and kills them on drop.
#![allow(clippy::unwrap_used)] // the lint's exception covers test functions, not their helpers

mod cluster;
mod fake;
mod infra;
mod machine;
mod proxy;
mod raw;
