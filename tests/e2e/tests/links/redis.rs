use std::time::{Duration, Instant};

use lapwing_links::redis::{Redis, RedisError, Script, Value};

use crate::{infra, secret, service, within};

const SECOND: Duration = Duration::from_secs(1);
const ADD: &str = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('INCRBY', KEYS[2], 1)";
const NONE: &[&str] = &[];

async fn add(redis: &Redis, timeout: Duration) -> Result<Value, RedisError> {
    redis.eval(&Script::new("test_add", ADD), &["k", "n"], &["v"], timeout).await
}

async fn client_id(redis: &Redis) -> Value {
    redis.command("test_id", &["CLIENT", "ID"], SECOND).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_reloads_after_a_flush_and_after_a_restart() {
    let infra = infra().await;
    infra.redis().start().await.unwrap();
    let redis = Redis::open("r0", &secret(infra.redis().url())).unwrap();
    assert_eq!(add(&redis, SECOND).await, Ok(Value::Int(1)));
    assert_eq!(add(&redis, SECOND).await, Ok(Value::Int(2)));
    redis.command("test_flush", &["SCRIPT", "FLUSH"], SECOND).await.unwrap();
    assert_eq!(add(&redis, SECOND).await, Ok(Value::Int(3)));
    infra.redis().restart().await.unwrap();
    let back = within(5, "the script after a restart", async || add(&redis, SECOND).await.is_ok()).await;
    eprintln!("answers {back:?} after the restart");

    let wrong = redis.eval(&Script::new("test_wrong", "return redis.call('NOPE')"), NONE, NONE, SECOND).await;
    let wrong = wrong.unwrap_err();
    assert!(
        matches!(&wrong, RedisError::Script { name: "test_wrong", .. }) && !wrong.is_temporary(),
        "{wrong}"
    );

    let start = Instant::now();
    let script = Script::new("test_add", ADD);
    for _ in 0..10 {
        let calls = (0..2000).map(|_| redis.eval(&script, &["k", "n"], &["v"], SECOND));
        assert!(futures::future::join_all(calls).await.iter().all(Result::is_ok));
    }
    eprintln!("{:.0} scripts/s, pipelined", 20_000.0 / start.elapsed().as_secs_f64());
    let start = Instant::now();
    for _ in 0..500 {
        add(&redis, SECOND).await.unwrap();
    }
    let each = start.elapsed() / 500;
    assert!(each < Duration::from_millis(5), "one at a time: {each:?} each (Nagle would make it 40 ms)");
}

// R-SEQ-9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_instance_times_out_and_a_dead_one_is_down() {
    let infra = infra().await;
    infra.redis().start().await.unwrap();
    let redis = Redis::open("r0", &secret(infra.redis().url())).unwrap();
    assert_eq!(add(&redis, SECOND).await, Ok(Value::Int(1)));
    infra.redis().pause().unwrap();
    let start = Instant::now();
    let timeout = add(&redis, Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(timeout, RedisError::Timeout { instance: "r0".to_owned(), after_ms: 100 });
    assert!(start.elapsed() < Duration::from_millis(300));
    infra.redis().resume().unwrap();
    within(5, "answers after the pause", async || add(&redis, SECOND).await.is_ok()).await;
    let count = redis.command("test_get", &["GET", "n"], SECOND).await.unwrap();
    assert_eq!(count, Value::BulkString(b"3".to_vec()), "the one that timed out has run");

    infra.redis().kill9().await;
    let start = Instant::now();
    let down = add(&redis, SECOND).await.unwrap_err();
    assert!(matches!(&down, RedisError::Down { .. }) && down.is_temporary(), "{down}");
    assert!(!down.to_string().contains(infra.redis().password()));
    let second = add(&redis, SECOND).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(2), "{second}");
    infra.redis().start().await.unwrap();
    let back = within(5, "answers after the kill", async || add(&redis, SECOND).await.is_ok()).await;
    eprintln!("answers {back:?} after the start");
}

// pitfalls.md: READONLY after a demotion does not make ConnectionManager reconnect
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_instance_is_told_and_the_connection_renewed() {
    let infra = infra().await;
    infra.redis().start().await.unwrap();
    let redis = Redis::open("r0", &secret(infra.redis().url())).unwrap();
    add(&redis, SECOND).await.unwrap();
    let before = client_id(&redis).await;
    redis.command("test_demote", &["REPLICAOF", "127.0.0.1", "1"], SECOND).await.unwrap();
    let refused = add(&redis, SECOND).await.unwrap_err();
    assert_eq!(refused, RedisError::ReadOnly { instance: "r0".to_owned() });
    assert_ne!(client_id(&redis).await, before, "a new connection was made");
    assert!(redis.probe().await.unwrap_err().contains("role is slave"));
    redis.command("test_promote", &["REPLICAOF", "NO", "ONE"], SECOND).await.unwrap();
    assert!(add(&redis, SECOND).await.is_ok());
}

// R-SEQ-8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsafe_instance_keeps_the_process_from_being_ready_and_a_lost_one_does_not() {
    let infra = infra().await;
    infra.redis().start().await.unwrap();
    let tool = Redis::open("tool", &secret(infra.redis().url())).unwrap();
    for (setting, bad, good) in [
        ("maxmemory-policy", "allkeys-lru", "noeviction"),
        ("appendfsync", "no", "everysec"),
        ("appendonly", "no", "yes"),
    ] {
        tool.command("test_config", &["CONFIG", "SET", setting, bad], SECOND).await.unwrap();
        let text = tool.probe().await.unwrap_err();
        assert!(text.contains(bad) || text.contains("aof_enabled is 0"), "{text}");
        assert!(text.starts_with("tool at redis://:***@127.0.0.1"), "{text}");
        tool.command("test_config", &["CONFIG", "SET", setting, good], SECOND).await.unwrap();
    }
    tool.command("test_config", &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"], SECOND).await.unwrap();
    let service = service();
    let redis = Redis::connect("r7", &secret(infra.redis().url()), &service.tasks, &service.health).unwrap();
    assert!(service.health.ready().unwrap_err().contains("redis r7: not checked yet"));
    within(4, "the unsafe setting is named", async || {
        let reason = service.health.ready().unwrap_err();
        reason.contains("redis r7: r7 at redis://:***@") && reason.contains("maxmemory-policy is allkeys-lru")
    })
    .await;
    assert!(!redis.is_up());
    tool.command("test_config", &["CONFIG", "SET", "maxmemory-policy", "noeviction"], SECOND).await.unwrap();
    within(4, "ready", async || service.health.ready().is_ok() && redis.is_up()).await;

    infra.redis().kill9().await;
    within(4, "the loss is shown", async || !redis.is_up()).await;
    assert_eq!(service.health.ready(), Ok(()), "one lost instance never turns a gateway un-ready");
    assert!(!service.health.is_ok("redis r7"));
    infra.redis().start().await.unwrap();
    within(4, "back", async || redis.is_up() && service.health.is_ok("redis r7")).await;
    service.tasks.drain(SECOND).await.unwrap();
}
