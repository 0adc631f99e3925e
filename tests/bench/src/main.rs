//! `lapwing-bench`: what `./dev bench` calls. Each benchmark starts its own servers, prints one line a figure, and a verdict.
#![allow(clippy::print_stdout)] // a command speaks to its user

mod apply;
mod commit;
mod feed;
mod kafka;
mod machine;
mod memory;
mod persist;
mod records;
mod report;
mod sample;
mod servers;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "./dev bench", about = "Lapwing's benchmarks", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Also write the results into docs/performance.md
    #[arg(long, global = true)]
    markdown: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Records applied to one Redis: batched, one call a record, and step by step
    Apply(apply::Arguments),
    /// Messages accepted a second by a router, in process and through a gateway
    Commit(commit::Arguments),
    /// rdkafka and rskafka as producers and as readers
    Kafka(kafka::Arguments),
    /// Bytes of a conversation in a router's memory, idle and active
    Memory(memory::Arguments),
    /// Rows a second from a full topic into MySQL, against a plain loop of inserts
    Persist(persist::Arguments),
    /// A router with its feeder, as `commit` starts it
    #[command(hide = true)]
    Feed,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            println!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Command::Feed = arguments.command {
        return feed::run();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        match arguments.command {
            Command::Apply(arguments) => apply::run(arguments).await,
            Command::Commit(arguments) => commit::run(arguments).await,
            Command::Kafka(arguments) => kafka::run(arguments).await,
            Command::Memory(arguments) => memory::run(arguments).await,
            Command::Persist(arguments) => persist::run(arguments).await,
            Command::Feed => unreachable!("it has a runtime of its own"),
        }
    });
    // A tool that is still being installed must not hold back the end.
    runtime.shutdown_background();
    let report = report?;
    if arguments.markdown {
        report.write_down()?;
    }
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
