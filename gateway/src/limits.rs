//! The one file of limits: their defaults, what the bench profile raises, and the keys that set them.

use std::time::Duration;

use clap::Args;
use lapwing_gateway_core::rate::Rate;
use lapwing_runtime::Profile;

#[derive(Debug, Clone, Args)]
pub struct LimitKeys {
    /// Requests a second of one user [default: 50; bench: no limit]
    #[arg(long, env = "LAPWING_USER_RATE")]
    pub user_rate: Option<f64>,

    /// Requests that one user may send at once [default: 100; bench: no limit]
    #[arg(long, env = "LAPWING_USER_BURST")]
    pub user_burst: Option<f64>,

    /// Publishes a second of the whole cluster, shared by the live gateways [default: 8000; bench: no limit]
    #[arg(long, env = "LAPWING_CLUSTER_RATE")]
    pub cluster_rate: Option<f64>,

    /// Publishes that the whole cluster takes at once [default: 15000; bench: no limit]
    #[arg(long, env = "LAPWING_CLUSTER_BURST")]
    pub cluster_burst: Option<f64>,

    /// Connections of one user on this node [default: 10; bench: no limit]
    #[arg(long, env = "LAPWING_USER_CONNECTIONS")]
    pub user_connections: Option<usize>,

    /// Connections from one address on this node [default: 1000; bench: no limit]
    #[arg(long, env = "LAPWING_IP_CONNECTIONS")]
    pub ip_connections: Option<usize>,

    /// Bytes of a message's body
    #[arg(long, env = "LAPWING_MAX_BODY", default_value_t = 512 << 10)]
    pub max_body: usize,

    /// Bytes of a client's frame, all fragments together
    #[arg(long, env = "LAPWING_MAX_FRAME", default_value_t = 576 << 10)]
    pub max_frame: usize,

    /// Bytes that wait to be written to one session
    #[arg(long, env = "LAPWING_WRITE_WATERMARK", default_value_t = 512 << 10)]
    pub write_watermark: usize,

    /// Bytes of a connection's read buffer (a larger frame grows it up to its own size)
    #[arg(long, env = "LAPWING_READ_BUFFER", default_value_t = 64 << 10)]
    pub read_buffer: usize,

    /// Milliseconds that one write may take before the reader counts as too slow
    #[arg(long, env = "LAPWING_SLOW_READER_MS", default_value_t = 10_000)]
    pub slow_reader_ms: u64,

    /// Milliseconds between a client's signs of life; dead after two missed
    #[arg(long, env = "LAPWING_HEARTBEAT_MS", default_value_t = 25_000)]
    pub heartbeat_ms: u64,

    /// Milliseconds for the handshake and the first frame
    #[arg(long, env = "LAPWING_HANDSHAKE_MS", default_value_t = 10_000)]
    pub handshake_ms: u64,

    /// Events of a history page at most
    #[arg(long, env = "LAPWING_MAX_HISTORY_PAGE", default_value_t = 500)]
    pub max_history_page: u32,

    /// Events that a resuming session gets pushed per conversation; older ones it pulls by history
    #[arg(long, env = "LAPWING_RESUME_EVENTS", default_value_t = 10_000)]
    pub resume_events: u64,

    /// Milliseconds in which a client_mid is known (the routers keep it)
    #[arg(long, env = "LAPWING_DEDUPE_WINDOW_MS", default_value_t = 7_200_000)]
    pub dedupe_window_ms: u64,

    /// Milliseconds for which a tenant's state is taken from the cache
    #[arg(long, env = "LAPWING_TENANT_CACHE_MS", default_value_t = 60_000)]
    pub tenant_cache_ms: u64,

    /// Milliseconds for which a conversation without local sessions stays announced
    #[arg(long, env = "LAPWING_LINGER_MS", default_value_t = 30_000)]
    pub linger_ms: u64,

    /// Milliseconds over which a graceful stop spreads the moves of its sessions
    #[arg(long, env = "LAPWING_DRAIN_SPREAD_MS", default_value_t = 4_000)]
    pub drain_spread_ms: u64,
}

#[derive(Debug, Clone)]
pub struct Limits {
    pub user: Option<Rate>,
    pub cluster: Option<Rate>,
    pub user_connections: usize,
    pub ip_connections: usize,
    pub max_body: usize,
    pub max_frame: usize,
    pub write_watermark: usize,
    pub read_buffer: usize,
    pub slow_reader: Duration,
    pub heartbeat: Duration,
    pub handshake: Duration,
    pub max_history_page: u32,
    pub resume_events: u64,
    pub dedupe_window_ms: u64,
    pub tenant_cache: Duration,
    pub linger: Duration,
    pub drain_spread: Duration,
}

/// Members of a list part at connect.
pub const LIST_PART: usize = 500;
/// Conversations of one user that a session lists and attaches.
pub const LIST_MAX: usize = 5_000;
/// Cursors that a `connect` may carry.
pub const CURSORS_MAX: usize = 5_000;
/// One frame of events takes at most so many bytes (at least one event).
pub const DELIVERY_BYTES: usize = 256 << 10;

impl LimitKeys {
    pub fn of_profile(&self, profile: Profile) -> Limits {
        let bench = profile == Profile::Bench;
        let rate = |per_second: Option<f64>, burst: Option<f64>, default: Rate| {
            let unlimited = bench && per_second.is_none() && burst.is_none();
            (!unlimited).then(|| Rate {
                per_second: per_second.unwrap_or(default.per_second).max(0.001),
                burst: burst.unwrap_or(default.burst).max(1.0),
            })
        };
        let count = |key: Option<usize>, default| key.unwrap_or(if bench { usize::MAX } else { default });
        let ms = Duration::from_millis;
        Limits {
            user: rate(self.user_rate, self.user_burst, Rate { per_second: 50.0, burst: 100.0 }),
            cluster: rate(
                self.cluster_rate,
                self.cluster_burst,
                Rate { per_second: 8000.0, burst: 15_000.0 },
            ),
            user_connections: count(self.user_connections, 10),
            ip_connections: count(self.ip_connections, 1000),
            max_body: self.max_body,
            max_frame: self.max_frame,
            write_watermark: self.write_watermark,
            read_buffer: self.read_buffer,
            slow_reader: ms(self.slow_reader_ms),
            heartbeat: ms(self.heartbeat_ms),
            handshake: ms(self.handshake_ms),
            max_history_page: self.max_history_page,
            resume_events: self.resume_events,
            dedupe_window_ms: self.dedupe_window_ms,
            tenant_cache: ms(self.tenant_cache_ms),
            linger: ms(self.linger_ms),
            drain_spread: ms(self.drain_spread_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::config::Config;

    fn limits(args: &[&str], profile: Profile) -> Limits {
        let args = ["gateway", "--node", "g1", "--jwt-secret", "s"].iter().chain(args);
        Config::parse_from(args).limits.of_profile(profile)
    }

    // The defaults' table of the requirements.
    #[test]
    fn bench_lifts_rates_and_connections_only_and_a_key_wins() {
        let normal = limits(&[], Profile::Default);
        assert_eq!(normal.user, Some(Rate { per_second: 50.0, burst: 100.0 }));
        assert_eq!((normal.user_connections, normal.ip_connections), (10, 1000));
        assert_eq!((normal.max_body, normal.max_frame, normal.write_watermark), (524_288, 589_824, 524_288));
        let bench = limits(&[], Profile::Bench);
        assert_eq!((bench.user, bench.cluster, bench.ip_connections), (None, None, usize::MAX));
        assert_eq!(bench.max_body, normal.max_body);
        let both = limits(&["--user-rate", "7"], Profile::Bench);
        assert_eq!(both.user, Some(Rate { per_second: 7.0, burst: 100.0 }));
    }
}
