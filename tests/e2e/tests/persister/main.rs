//! Real persisters between real Kafka, MariaDB and NATS; the test writes the topics as owners would.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod bench;
mod budget;
mod dead;
mod faults;
mod feed;
mod history;
mod load;
mod retention;
mod rows;
mod schema;
mod start;
mod world;
