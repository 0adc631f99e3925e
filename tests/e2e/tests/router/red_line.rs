//! Redis at its limits.

use std::time::Duration;

use crate::bench::Bench;

// R-SEQ-8: beyond the red line new messages are refused before they could not be applied; it heals by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_nearly_full_takes_nothing_new() {
    let bench = Bench::start(1).await;
    let key = bench.p2p("t1", "alice", "bob").await;
    bench.publish(&key, "alice", "m1", "x", 1).await.expect("accepted");
    let client = redis::Client::open(bench.cluster.redis().url()).expect("url");
    let mut redis = client.get_multiplexed_async_connection().await.expect("connection");
    let limit = async |redis: &mut redis::aio::MultiplexedConnection, bytes: u64| {
        redis::cmd("CONFIG")
            .arg("SET")
            .arg("maxmemory")
            .arg(bytes)
            .exec_async(redis)
            .await
            .expect("CONFIG SET");
        // The router looks each second.
        tokio::time::sleep(Duration::from_millis(2500)).await;
    };
    let info: String = redis::cmd("INFO").arg("memory").query_async(&mut redis).await.expect("INFO");
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("used_memory");
    limit(&mut redis, used.trim().parse::<u64>().expect("a number") * 105 / 100).await;
    let refused = bench.publish(&key, "alice", "m2", "x", 1).await.expect_err("refused");
    assert_eq!((refused.code, refused.name.as_str()), (503, "overloaded"), "{refused:?}");
    assert_eq!((refused.cause.as_str(), refused.temporary), ("redis_memory", true), "{refused:?}");
    // A retry may be one of something that stands.
    let known = bench.publish(&key, "alice", "m1", "x", 2).await.expect("known");
    assert_eq!(known.seq, 2);
    limit(&mut redis, 0).await;
    assert_eq!(bench.publish(&key, "alice", "m2", "x", 1).await.expect("accepted").seq, 3);
}
