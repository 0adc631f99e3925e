//! Real persisters between real Kafka, MariaDB and NATS; the test writes the topics as owners would.

mod bench;
mod faults;
mod feed;
mod history;
mod rows;
mod start;
mod world;
