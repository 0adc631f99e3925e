//! `lapwing`: the operators' one command.
// A command speaks on the terminal; that is its interface.
#![allow(clippy::print_stdout)]
mod config;
mod move_range;
mod partitions;
mod placement;
mod probe;
mod table;
mod tenants;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use config::{Config, Given};

/// Looks into and administers a Lapwing cluster.
#[derive(Parser)]
#[command(name = "lapwing", version)]
struct Options {
    #[command(flatten)]
    given: Given,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Each partition with its owner, epoch, positions of its views, and how fast they move.
    Partitions,
    /// Sends one message and shows each state that it passes: accepted, dispatched, delivered, row, history.
    Probe,
    /// Brings the Redis views, or the MySQL rows, of a range of buckets to another instance while messages flow.
    MoveRange(move_range::Range),
    /// Where each partition's rows are in MySQL, how far a move has come, and which tenants have a place of their own.
    Placement,
    /// Tenants, their keys, and switching them off and on.
    Tenants {
        #[command(subcommand)]
        action: tenants::Action,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    quiet_on_broken_pipe();
    let options = Options::parse();
    match run(options).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("lapwing: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// False: the command ran and its finding is bad.
async fn run(options: Options) -> anyhow::Result<bool> {
    let config = Config::find(options.given)?;
    match options.command {
        Command::Partitions => partitions::show(&config).await,
        Command::MoveRange(range) => move_range::run(&config, range).await,
        Command::Placement => placement::show(&config).await,
        Command::Probe => probe::run(&config).await,
        Command::Tenants { action } => tenants::run(&config, action).await.map(|()| true),
    }
}

/// `lapwing partitions | head` ends the output, not with a panic's text.
fn quiet_on_broken_pipe() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or_default();
        if !(message.contains("failed printing to stdout") && message.contains("Broken pipe")) {
            usual(info);
        }
    }));
}
