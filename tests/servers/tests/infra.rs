//! The four real servers: start, kill, pause, restart, on the same port with the same data.

use std::time::{Duration, Instant};

use lapwing_servers::{Infra, InfraOptions};

#[tokio::test(flavor = "multi_thread")]
async fn all_four_start_in_parallel() {
    lapwing_servers::install::ensure().await.unwrap();
    let begin = Instant::now();
    let infra = Infra::start(InfraOptions::default()).await.unwrap();
    let took = begin.elapsed();
    eprintln!("infrastructure ready after {took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(infra.nats().is_running() && infra.redis().is_running());
    assert!(infra.kafka().is_running() && infra.mariadb().is_running());
}
