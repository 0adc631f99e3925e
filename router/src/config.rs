//! Every configuration key of the router with its default; `--print-config` prints them.

use clap::Parser;
use lapwing_runtime::Common;

/// The Lapwing router: owns the order of conversations and their fan-out.
#[derive(Debug, Clone, Parser)]
#[command(name = "lapwing-router", version)]
pub struct Config {
    #[command(flatten)]
    pub common: Common,

    /// Kafka bootstrap addresses: host:port,host:port
    #[arg(long, env = "LAPWING_KAFKA_BROKERS", default_value = "127.0.0.1:9092")]
    pub kafka_brokers: String,

    #[command(flatten)]
    pub redis: lapwing_views::Settings,

    /// Partitions of each log topic: a power of two, fixed for the life of a cluster
    #[arg(long, env = "LAPWING_PARTITIONS", default_value_t = 8)]
    pub partitions: u32,

    /// A router silent for so long has lost its partitions, milliseconds
    #[arg(long, env = "LAPWING_LEASE_MS", default_value_t = 3000)]
    pub lease_ms: u64,

    /// How often a router says that it lives, milliseconds
    #[arg(long, env = "LAPWING_ROUTER_BEAT_MS", default_value_t = 500)]
    pub beat_ms: u64,

    /// A gateway node silent for so long gets nothing more, milliseconds
    #[arg(long, env = "LAPWING_NODE_SILENT_MS", default_value_t = 5000)]
    pub node_silent_ms: u64,

    /// Requests waiting in one partition's queue
    #[arg(long, env = "LAPWING_PARTITION_QUEUE", default_value_t = 4096)]
    pub partition_queue: usize,

    /// Bytes waiting in all partitions' queues
    #[arg(long, env = "LAPWING_INBOUND_BYTES", default_value_t = 256 << 20)]
    pub inbound_bytes: usize,

    /// Conversations in memory, over all partitions: beyond it those that Redis has are loaded again when they are used
    #[arg(long, env = "LAPWING_CONVERSATION_BYTES", default_value_t = 256 << 20)]
    pub conversation_bytes: usize,

    /// Bytes on their way to Kafka
    #[arg(long, env = "LAPWING_KAFKA_IN_FLIGHT_BYTES", default_value_t = 32 << 20)]
    pub kafka_in_flight_bytes: usize,

    /// Longer than outages that are to be ridden out, milliseconds
    #[arg(long, env = "LAPWING_DELIVERY_TIMEOUT_MS", default_value_t = 60_000)]
    pub delivery_timeout_ms: u64,

    /// How long a client_mid is known, milliseconds
    #[arg(long, env = "LAPWING_DEDUPE_WINDOW_MS", default_value_t = 7_200_000)]
    pub dedupe_window_ms: u64,

    /// Largest body of a message
    #[arg(long, env = "LAPWING_MAX_BODY", default_value_t = 512 << 10)]
    pub max_body: usize,

    /// Percent of its maxmemory in use at which the views' Redis takes no new messages: 503 `overloaded`
    #[arg(long, env = "LAPWING_REDIS_RED_LINE", default_value_t = 90)]
    pub redis_red_line: u32,

    /// Events that a conversation's hot window keeps once they are in MySQL
    #[arg(long, env = "LAPWING_HOT_EVENTS", default_value_t = 200)]
    pub hot_events: u64,
}
