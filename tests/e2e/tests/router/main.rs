//! A real router between real NATS, Kafka and Redis; the test speaks as a gateway would.

mod bench;
mod ownership;
mod path;
mod rebuild;
mod red_line;
