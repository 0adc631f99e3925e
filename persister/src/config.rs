//! All keys of the persister.

use std::time::Duration;

use lapwing_persister_core::placement::Configured;
use lapwing_runtime::{
    Common, SecretUrl,
    config::{BadConfig, Profile},
};

#[derive(Debug, Clone, clap::Parser)]
#[command(name = "lapwing-persister", version, about = "Writes the log to MySQL and answers history")]
pub(crate) struct Config {
    #[command(flatten)]
    pub(crate) common: Common,

    /// MySQL or MariaDB: mysql://user:password@host:port/database; several: one=mysql://… two=mysql://…, the first has the leases
    #[arg(long, env = "LAPWING_MYSQL_URL", hide_env_values = true)]
    pub(crate) mysql_url: SecretUrl,

    /// Which instance has which commit buckets at first: 0-127=one 128-255=two; whole partitions. Afterwards `lapwing move-range`
    #[arg(long, env = "LAPWING_MYSQL_BUCKETS", default_value = "")]
    pub(crate) mysql_buckets: String,

    /// Tenants with an instance or a table of their own: acme=two big=one/big
    #[arg(long, env = "LAPWING_MYSQL_TENANTS", default_value = "")]
    pub(crate) mysql_tenants: String,

    /// Kafka bootstrap servers, host:port with commas between
    #[arg(long, env = "LAPWING_KAFKA_BROKERS", default_value = "127.0.0.1:9092")]
    pub(crate) kafka_brokers: String,

    /// Connections that write, to each instance
    #[arg(long, env = "LAPWING_WRITE_POOL", default_value_t = 8)]
    pub(crate) write_pool: u32,

    /// Connections that answer history, to each instance; also how many requests are read at a time
    #[arg(long, env = "LAPWING_READ_POOL", default_value_t = 8)]
    pub(crate) read_pool: u32,

    /// A lease on a partition that is not renewed for this long may be taken, by the database's clock
    #[arg(long, env = "LAPWING_LEASE_MS", default_value_t = 3000)]
    pub(crate) lease_ms: u64,

    /// How often leases are renewed and looked at
    #[arg(long, env = "LAPWING_LEASE_BEAT_MS", default_value_t = 500)]
    pub(crate) lease_beat_ms: u64,

    /// A transaction's most rows
    #[arg(long, env = "LAPWING_BATCH_ROWS", default_value_t = 500)]
    pub(crate) batch_rows: usize,

    /// A transaction's most bytes; below MySQL's max_allowed_packet
    #[arg(long, env = "LAPWING_BATCH_BYTES", default_value_t = 4 << 20)]
    pub(crate) batch_bytes: usize,

    /// How long a batch waits for more rows
    #[arg(long, env = "LAPWING_BATCH_MS", default_value_t = 20)]
    pub(crate) batch_ms: u64,

    /// Rows waiting for all writers together
    #[arg(long, env = "LAPWING_QUEUE_ROWS", default_value_t = 100_000)]
    pub(crate) queue_rows: usize,

    /// Bytes waiting for all writers together
    #[arg(long, env = "LAPWING_QUEUE_BYTES", default_value_t = 64 << 20)]
    pub(crate) queue_bytes: usize,

    /// A position that moved without rows (claims, beats) is stored at most this often
    #[arg(long, env = "LAPWING_IDLE_FLUSH_MS", default_value_t = 5000)]
    pub(crate) idle_flush_ms: u64,

    /// Rows a second at the start; off in the bench profile
    #[arg(long, env = "LAPWING_PACE_ROWS", default_value_t = 5000.0)]
    pub(crate) pace_rows: f64,

    /// A transaction that takes longer slows the pace down
    #[arg(long, env = "LAPWING_PACE_SLOW_MS", default_value_t = 500)]
    pub(crate) pace_slow_ms: u64,

    /// A database request that takes longer is given up, its connection closed, its outcome read anew
    #[arg(long, env = "LAPWING_MYSQL_TIMEOUT_MS", default_value_t = 15_000)]
    pub(crate) mysql_timeout_ms: u64,

    /// History requests that may wait for a read connection; beyond it the answer is `busy`
    #[arg(long, env = "LAPWING_HISTORY_WAITING", default_value_t = 64)]
    pub(crate) history_waiting: usize,

    /// A history request that takes longer is answered `busy`
    #[arg(long, env = "LAPWING_HISTORY_TIMEOUT_MS", default_value_t = 3000)]
    pub(crate) history_timeout_ms: u64,
}

impl Config {
    /// All connections of this process to one instance: writers, readers, and two for leases and administration.
    pub(crate) fn connections(&self) -> u32 {
        self.write_pool + self.read_pool + CONTROL_POOL
    }

    pub(crate) fn placement(&self) -> anyhow::Result<Configured> {
        let names = self.mysql_url.named(ONE).into_iter().map(|(name, _)| name).collect();
        let configured = Configured::parse(names, &self.mysql_buckets, &self.mysql_tenants);
        configured.map_err(|bad| BadConfig(bad.to_string()).into())
    }

    pub(crate) fn paced(&self) -> bool {
        self.common.profile != Profile::Bench
    }

    pub(crate) fn mysql_timeout(&self) -> Duration {
        Duration::from_millis(self.mysql_timeout_ms)
    }
}

/// The name of the only instance.
pub(crate) const ONE: &str = "mysql";

/// Leases and administration never wait behind writers or readers.
pub(crate) const CONTROL_POOL: u32 = 2;
