//! What every Lapwing service is built from: configuration, bounded queues, owned tasks, lifecycle, health, metrics, logs.
//!
//! A service's `main.rs` is `config::load` → `lifecycle::run(name, common, build)`; everything else hangs on the
//! [`lifecycle::Context`] that `build` is given.

pub mod admin;
pub mod config;
pub mod fail_point;
pub mod health;
pub mod lifecycle;
pub mod limits;
pub mod metrics;
pub mod queue;
pub mod tasks;
pub mod telemetry;
pub mod throttle;
pub mod time;

pub use config::{Common, Profile, Secret, SecretUrl};
pub use fail_point::fail_point;
pub use health::Health;
pub use lifecycle::Context;
pub use tasks::{OnError, Tasks};
