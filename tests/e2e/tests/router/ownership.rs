//! Owners come and go; what was accepted stays, and seqs go on.

use std::time::{Duration, Instant};

use lapwing_model::PartitionId;
use lapwing_proto::client::Outcome;

use crate::bench::{Bench, PARTITIONS};

// R-SEQ-6, R-SEQ-10
#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_another_router_goes_on_where_the_first_one_was() {
    let bench = Bench::start(2).await;
    let key = bench.p2p("t1", "alice", "bob").await;
    let id = PartitionId::of(&key, PARTITIONS).expect("a partition");
    for i in 0..20 {
        let published = bench.publish(&key, "alice", &format!("m{i}"), "x", 1).await.expect("accepted");
        assert_eq!(published.seq, i + 2);
    }
    let owner = bench.owner(&id, Duration::from_secs(5)).await.expect("an owner");
    let index = owner.trim_start_matches('r').parse::<usize>().expect("r<number>") - 1;
    bench.cluster.router(index).kill9().await;
    let killed = Instant::now();
    let published = bench.publish(&key, "alice", "m20", "x", 1).await.expect("accepted by the other");
    assert_eq!(published.seq, 22);
    assert!(killed.elapsed() < Duration::from_secs(6), "{:?}", killed.elapsed());
    let again = bench.publish(&key, "alice", "m7", "x", 2).await.expect("known to the new owner");
    assert_eq!((again.seq, again.outcome()), (9, Outcome::Duplicate));
}

// R-SEQ-9
#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_redis_is_filled_again_from_the_log() {
    let bench = Bench::start(1).await;
    let key = bench.p2p("t1", "alice", "bob").await;
    bench.publish(&key, "alice", "m1", "x", 1).await.expect("accepted");
    let client = redis::Client::open(bench.cluster.redis().url()).expect("url");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connection");
    redis::cmd("FLUSHALL").exec_async(&mut connection).await.expect("flush");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let keys: Vec<String> =
        redis::cmd("KEYS").arg("head:*").query_async(&mut connection).await.expect("keys");
    assert_eq!(keys.len(), 1, "{keys:?}");
    let head: u64 =
        redis::cmd("HGET").arg(&keys[0]).arg("h").query_async(&mut connection).await.expect("head");
    assert_eq!(head, 2);
    let next = bench.publish(&key, "alice", "m2", "x", 1).await.expect("accepted");
    assert_eq!(next.seq, 3);
}
