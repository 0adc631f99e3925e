//! Knows whether the instance answers and is safe; tells health.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lapwing_runtime::metrics::{REDIS_FILLED, REDIS_MEMORY};
use lapwing_runtime::{Health, Tasks};

use super::{Redis, RedisError, probe};

const PING_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) async fn watch(redis: Redis, tasks: Tasks, health: Health) {
    let stop = tasks.stopping();
    let (mut safe, mut ever, mut silent) = (false, false, 0u32);
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = second.tick() => {}
        }
        let ping = redis.command("redis_ping", &["PING"], PING_TIMEOUT).await;
        silent = if matches!(ping, Err(RedisError::Timeout { .. })) { silent + 1 } else { 0 };
        // A connection that a firewall forgot answers nothing and breaks never; a new one shows whether the server is there.
        if silent >= 3 {
            redis.renew("silent");
        }
        // An instance that was away may have come back with other settings.
        let state = match ping {
            Ok(_) if safe => Ok(()),
            Ok(_) => tokio::select! {
                () = stop.cancelled() => return,
                state = redis.probe() => state,
            },
            Err(error) => Err(format!("{} at {}", error, redis.inner.shown)),
        };
        safe = state.is_ok();
        if safe {
            look_at_memory(&redis).await;
        }
        redis.inner.up.store(safe, Ordering::Relaxed);
        if ever {
            health.show(&redis.check(), state);
        } else {
            ever = safe;
            health.set(&redis.check(), state);
        }
    }
}

async fn look_at_memory(redis: &Redis) {
    let Ok(info) = redis.command("redis_info", &["INFO", "memory"], PING_TIMEOUT).await else { return };
    let info = probe::parse_info(&probe::text(info));
    let number = |name: &str| info.get(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let (used, most) = (number("used_memory"), number("maxmemory"));
    let filled = if most > 0.0 { used / most } else { 0.0 };
    redis.inner.filled.store((filled * 1000.0) as u32, Ordering::Relaxed);
    let instance = redis.inner.instance.clone();
    metrics::gauge!(REDIS_MEMORY, "instance" => instance.clone()).set(used);
    metrics::gauge!(REDIS_FILLED, "instance" => instance).set(filled);
}
