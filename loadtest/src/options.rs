//! The command line and its environment, in one place.
use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use lapwing_client::Encoding;

/// Loads a running Lapwing and checks every message: acknowledged, delivered, in MySQL, in history.
#[derive(Debug, Parser)]
#[command(name = "lapwing-loadtest", version)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) scenario: Scenario,
}

#[derive(Debug, Args, Clone)]
pub(crate) struct Common {
    /// Server API of a gateway; repeatable. Default: the running `./dev up`.
    #[arg(long, env = "LAPWING_LOAD_API_URL", value_delimiter = ',', global = true)]
    pub(crate) api_url: Vec<String>,
    /// Client address of a gateway (ws://host:port); repeatable.
    #[arg(long, env = "LAPWING_LOAD_CLIENT_URL", value_delimiter = ',', global = true)]
    pub(crate) client_url: Vec<String>,
    /// File with the operator key.
    #[arg(long, env = "LAPWING_LOAD_OPERATOR_KEY_FILE", global = true)]
    pub(crate) operator_key_file: Option<PathBuf>,
    /// Read-only MySQL address for the exact check.
    #[arg(long, env = "LAPWING_LOAD_MYSQL_URL", hide_env_values = true, global = true)]
    pub(crate) mysql_url: Option<String>,
    /// Admin address of a service (http://host:port) for its metrics; repeatable.
    #[arg(long, env = "LAPWING_LOAD_METRICS_URL", value_delimiter = ',', global = true)]
    pub(crate) metrics_url: Vec<String>,
    /// State file of `./dev up`, which fills in what is not given above.
    #[arg(long, env = "LAPWING_STATE", global = true)]
    pub(crate) state: Option<PathBuf>,
    /// Profile of the services' limits, for the report.
    #[arg(long, env = "LAPWING_PROFILE", global = true)]
    pub(crate) profile: Option<String>,
    /// Folder for the report; default target/load/<run>.
    #[arg(long, env = "LAPWING_LOAD_OUT", global = true)]
    pub(crate) out: Option<PathBuf>,
    /// Encoding of the clients' wire: proto or json.
    #[arg(long, env = "LAPWING_LOAD_ENCODING", default_value = "proto", global = true)]
    pub(crate) encoding: Encoding,
    /// kill -9 this process in the middle of the run and start it again: gateway, router, persister, or a name such as r2.
    #[arg(long, env = "LAPWING_LOAD_KILL", global = true)]
    pub(crate) kill: Option<String>,
    /// Share of the plan that is accepted when the fault comes.
    #[arg(long, default_value_t = 0.4, global = true)]
    pub(crate) kill_at: f64,
    /// Seconds between the kill and the restart.
    #[arg(long, default_value_t = 3.0, global = true)]
    pub(crate) restart_after: f64,
    /// Longest wait, in seconds, for all accepted messages to be in MySQL.
    #[arg(long, env = "LAPWING_LOAD_SETTLE", default_value_t = 300, global = true)]
    pub(crate) settle: u64,
    /// How long one publish is retried before it is reported, in seconds.
    #[arg(long, default_value_t = 60, global = true)]
    pub(crate) retry: u64,
    /// Workers of the history check.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=16), global = true)]
    pub(crate) history_workers: u16,
    /// No cumulative delivery acknowledgements from the clients.
    #[arg(long, global = true)]
    pub(crate) no_acks: bool,
    /// Seconds between two of them from one client, at least 1. Default 1; 10 in a replay at full speed, where a second
    /// holds an hour of talk.
    #[arg(long, global = true)]
    pub(crate) ack_every: Option<f64>,
}

impl Common {
    pub(crate) fn settle(&self) -> Duration {
        Duration::from_secs(self.settle)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    /// Pairs of users, both taking turns.
    P2p(P2p),
    /// Groups in which some members send.
    Group(Group),
    /// A transcript, in its order.
    Replay(Replay),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Users start spread over the ramp, then send evenly.
    Ramp,
    /// All users send their k-th message in the same instant.
    Burst,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Ramp => "ramp",
            Mode::Burst => "burst",
        }
    }
}

#[derive(Debug, Args, Clone)]
pub(crate) struct Pace {
    #[arg(long, value_enum, default_value_t = Mode::Ramp)]
    pub(crate) mode: Mode,
    /// Seconds over which users start in ramp mode.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) ramp: f64,
    /// Bytes of text a message.
    #[arg(long, default_value_t = 120)]
    pub(crate) bytes: usize,
    /// Warm-up messages a user, before the clock.
    #[arg(long, default_value_t = 1)]
    pub(crate) warmup: u32,
}

#[derive(Debug, Args, Clone)]
pub(crate) struct P2p {
    #[arg(long, default_value_t = 200)]
    pub(crate) pairs: u32,
    /// Messages a user.
    #[arg(long, default_value_t = 20)]
    pub(crate) messages: u32,
    /// Messages a second and pair, both users taking turns; in burst mode a second and user.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) rate: f64,
    #[command(flatten)]
    pub(crate) pace: Pace,
}

#[derive(Debug, Args, Clone)]
pub(crate) struct Group {
    #[arg(long, default_value_t = 100)]
    pub(crate) members: u32,
    /// Members who send.
    #[arg(long, default_value_t = 10)]
    pub(crate) senders: u32,
    /// Messages a sender.
    #[arg(long, default_value_t = 20)]
    pub(crate) messages: u32,
    /// Messages a second and sender.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) rate: f64,
    #[arg(long, default_value_t = 1)]
    pub(crate) groups: u32,
    #[command(flatten)]
    pub(crate) pace: Pace,
}

#[derive(Debug, Args, Clone)]
pub(crate) struct Replay {
    /// A header line starting with #, then conversation, second, sender, text, tab-separated.
    pub(crate) file: PathBuf,
    /// Speed of the transcript's own clock; default: as fast as each line before is accepted.
    #[arg(long)]
    pub(crate) speed: Option<f64>,
    /// Only the first so many conversations.
    #[arg(long)]
    pub(crate) conversations: Option<usize>,
}
