//! Making the connection, and what is known about it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Event;
use lapwing_runtime::metrics::LINK_EVENTS_TOTAL;
use lapwing_runtime::throttle::Throttle;
use lapwing_runtime::{Health, SecretUrl};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::Nats;

const PING_INTERVAL: Duration = Duration::from_secs(2);
const RECONNECT_CAP_MS: u64 = 500;

/// What the client tells by its event callback.
#[derive(Default)]
pub(super) struct Events {
    pub(super) connects: watch::Sender<u64>,
    /// The last complaint, for health: without it a wrong password looks like a server that is away.
    pub(super) trouble: Mutex<String>,
}

/// 20 ms, 40, 80 … 500 ms, each with jitter so that a fleet does not come back in step.
fn reconnect_delay(attempt: usize) -> Duration {
    let base = 20u64.saturating_mul(1 << attempt.min(10)).min(RECONNECT_CAP_MS);
    Duration::from_millis(rand::random_range(base / 2..=base))
}

pub(super) async fn dial(
    url: &SecretUrl,
    name: &str,
    events: &Arc<Events>,
) -> anyhow::Result<async_nats::Client> {
    // The client ignores credentials in an address, and logs the address.
    let mut options = async_nats::ConnectOptions::new();
    let mut addresses = Vec::new();
    for one in url.expose().split(',') {
        let (address, credentials) = SecretUrl::new(one.trim()).split();
        addresses.push(
            address
                .parse::<async_nats::ServerAddr>()
                .map_err(|error| anyhow::anyhow!("NATS at {url}: {error}"))?,
        );
        if let Some((user, password)) = credentials {
            options = options.user_and_password(user, password.expose().to_owned());
        }
    }
    let events = events.clone();
    options
        .name(name)
        .ping_interval(PING_INTERVAL)
        .connection_timeout(Duration::from_secs(2))
        .reconnect_delay_callback(reconnect_delay)
        .retry_on_initial_connect()
        .event_callback(move |event| {
            note(&event, &events);
            std::future::ready(())
        })
        .connect(addresses)
        .await
        .map_err(|error| anyhow::anyhow!("NATS at {url}: {error}"))
}

fn note(event: &Event, events: &Events) {
    static TROUBLE: Throttle = Throttle::every_ms(1000);
    let name = match event {
        Event::Connected => "connected",
        Event::Disconnected => "disconnected",
        Event::SlowConsumer(_) => "slow_consumer",
        Event::ServerError(_) => "server_error",
        Event::ClientError(_) => "client_error",
        Event::LameDuckMode => "lame_duck",
        Event::Draining | Event::Closed => "closing",
    };
    metrics::counter!(LINK_EVENTS_TOTAL, "link" => "nats", "event" => name).increment(1);
    match event {
        Event::Connected => {
            events.connects.send_modify(|count| *count += 1);
            events.trouble.lock().clear();
            tracing::info!("NATS connected");
        }
        other => {
            *events.trouble.lock() = format!("({other})");
            if let Some(suppressed) = TROUBLE.pass() {
                tracing::warn!(suppressed, "NATS: {other}");
            }
        }
    }
}

/// The state says `Connected` for seconds after a server has stopped answering, so readiness goes by round trips.
pub(super) async fn watch_health(nats: Nats, health: Health, url: String, events: Arc<Events>) {
    let stop = nats.inner.tasks.stopping();
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = second.tick() => {}
        }
        let made = nats.inner.client.statistics().connects.load(Ordering::Relaxed);
        // An event can be lost when the client's event queue is full; its counter cannot.
        events.connects.send_if_modified(|count| std::mem::replace(count, made.max(*count)) < made);
        let state = tokio::select! {
            () = stop.cancelled() => return,
            state = nats.round_trip() => state,
        };
        let told = |error| format!("{url}: {error} {}", events.trouble.lock()).trim_end().to_owned();
        health.set("nats", state.map_err(told));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnects_are_quick_capped_and_spread() {
        let delays: Vec<u64> = (0..60).map(|n| reconnect_delay(n).as_millis() as u64).collect();
        assert!(delays[0] <= 20 && delays.iter().all(|ms| *ms <= 500), "{delays:?}");
        assert!(delays[20..].iter().any(|ms| *ms != delays[20]), "no jitter: {delays:?}");
    }
}
