//! A real router between real NATS, Kafka and Redis; the test speaks as a gateway would.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod bench;
mod cold;
mod nodes;
mod ownership;
mod path;
mod rebuild;
mod red_line;
