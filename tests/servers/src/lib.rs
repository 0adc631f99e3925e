//! Starts, stops, kills and pauses the real servers: NATS, Redis, Kafka, MariaDB and the three services.
//!
//! `./dev`, the tests and the load test all use this one crate. Everything listens on loopback only, with generated
//! passwords; a value that is dropped kills what it started, unless it was released (`./dev up`).

pub mod cluster;
pub mod http;
pub mod infra;
pub mod install;
pub mod kafka;
mod kafka_wire;
pub mod managed;
pub mod mariadb;
pub mod nats;
pub mod paths;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod redis;
mod redis_wire;
pub mod secrets;
pub mod services;
pub mod small_disk;
pub mod state;

pub use cluster::{Cluster, Options};
pub use infra::{Infra, InfraOptions};
pub use managed::Managed;
pub use state::State;
