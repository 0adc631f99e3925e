//! `./dev sim`: the simulation of the owners, searched for longer than the tests do.

use std::process::ExitCode;

use anyhow::{Context, Result};
use lapwing_servers::paths;
use tokio::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long to search
    #[arg(long, default_value_t = 1)]
    minutes: u64,
    /// At most so many runs
    #[arg(long)]
    runs: Option<u64>,
    /// The first seed; the following ones count up. Default: a random one
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; default: one a core
    #[arg(long)]
    jobs: Option<u64>,
}

/// The search is a test of the release profile: it prints how far it is, and a failure's seed with the command that
/// replays it; the seed goes to `router/core/tests/sim/seeds`, which the tests replay.
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let mut command = Command::new("cargo");
    command
        .args(["test", "--release", "--quiet", "-p", "lapwing-router-core", "--test", "sim", "--"])
        .args(["--ignored", "--exact", "search", "--nocapture"])
        .current_dir(paths::workspace_dir())
        .env("LAPWING_SIM_MINUTES", arguments.minutes.to_string())
        .env("RUST_BACKTRACE", "0");
    let settings = [("RUNS", arguments.runs), ("SEED", arguments.seed), ("JOBS", arguments.jobs)];
    for (name, value) in settings {
        if let Some(value) = value {
            command.env(format!("LAPWING_SIM_{name}"), value.to_string());
        }
    }
    let status = command.status().await.context("cannot run cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
