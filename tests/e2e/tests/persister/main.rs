//! Real persisters between real Kafka, MariaDB and NATS; the test writes the topics as owners would.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod bench;
mod faults;
mod feed;
mod history;
mod load;
mod moves;
mod placement;
mod rows;
mod start;
mod world;
