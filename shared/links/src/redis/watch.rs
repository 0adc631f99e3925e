//! Knows whether the instance answers and is safe; tells health.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lapwing_runtime::{Health, Tasks};

use super::{Redis, RedisError};

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
        redis.inner.up.store(safe, Ordering::Relaxed);
        if ever {
            health.show(&redis.check(), state);
        } else {
            ever = safe;
            health.set(&redis.check(), state);
        }
    }
}
