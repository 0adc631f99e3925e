//! What `./dev` calls: the development commands.
#![allow(clippy::print_stdout)] // a command speaks to its user

mod bench;
mod control;
mod down;
mod first_messages;
mod load;
mod sim;
mod step;
mod table;
mod test;
mod up;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "./dev", about = "Lapwing's development commands", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the servers and two of each service, and send first messages
    Up(up::Arguments),
    /// Stop what `up` started
    Down(down::Arguments),
    /// Show the addresses and what runs
    Status,
    /// Follow the logs: all, or those of some processes (g1, r1, p1, nats, redis, kafka, mariadb)
    Logs { names: Vec<String> },
    /// Do something to one process of `up` (g1, r1, p1, nats, redis, kafka, mariadb)
    #[command(subcommand)]
    Process(control::Action),
    /// Everything that CI runs
    Test(test::Arguments),
    /// Run the load test against what `up` started, or a private cluster
    Load(load::Arguments),
    /// Run a benchmark on servers of its own
    Bench(bench::Arguments),
    /// Search random schedules of the owners, views, persister and clients for a violation
    Sim(sim::Arguments),
}

fn main() -> ExitCode {
    quiet_on_broken_pipe();
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(run(arguments.command));
    // A tool that is still being installed must not hold back the end.
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `./dev up | head` ends the output, not with a panic's text; unwinding still stops what was started.
fn quiet_on_broken_pipe() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or_default();
        if !(message.contains("failed printing to stdout") && message.contains("Broken pipe")) {
            usual(info);
        }
    }));
}

async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Up(arguments) => up::run(arguments).await,
        Command::Down(arguments) => down::run(arguments).await,
        Command::Status => table::status().await,
        Command::Logs { names } => control::logs(&names),
        Command::Process(action) => control::run(action).await,
        Command::Test(arguments) => test::run(arguments).await,
        Command::Load(arguments) => load::run(arguments).await,
        Command::Bench(arguments) => bench::run(arguments).await,
        Command::Sim(arguments) => sim::run(arguments).await,
    }
}
