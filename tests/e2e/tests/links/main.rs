//! Contracts of `lapwing-links` against real servers: what its errors promise must hold while the servers are killed and paused.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod kafka;
mod nats;
mod redis;

use lapwing_runtime::{Common, Health, SecretUrl, Tasks, telemetry};
use lapwing_servers::{Infra, InfraOptions};

/// Ports and folders of all four servers; each test starts what it needs.
async fn infra() -> Infra {
    // Seen with --nocapture; LAPWING_LOG_FILTER=debug shows more. Only the first test of the process sets it up.
    let _ = telemetry::init("links", &Common::for_node("test"));
    Infra::prepare(InfraOptions::default()).await.unwrap()
}

struct Service {
    tasks: Tasks,
    health: Health,
}

fn service() -> Service {
    Service { tasks: Tasks::new(), health: Health::new() }
}

fn secret(url: String) -> SecretUrl {
    SecretUrl::new(url)
}

/// Polls until a condition holds, at most this many seconds; answers how long it took.
async fn within(seconds: u64, what: &str, mut holds: impl AsyncFnMut() -> bool) -> std::time::Duration {
    let start = std::time::Instant::now();
    while !holds().await {
        assert!(start.elapsed().as_secs() < seconds, "not within {seconds} s: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    start.elapsed()
}
