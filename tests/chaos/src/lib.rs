//! The fault runner: faults in a real stack of its own under load, told as they happen, judged by the load test's ledger.
// A command speaks on the terminal; that is its interface.
#![allow(clippy::print_stdout)]

mod feed;
mod journal;
mod outcome;
mod play;
mod population;
mod scenarios;
mod stack;
mod watch;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use outcome::Outcome;
pub use play::play;
pub use scenarios::{Scenario, all, find};

#[derive(Parser)]
#[command(
    name = "./dev chaos",
    about = "Faults under load, judged by the ledger",
    disable_version_flag = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The scenarios, each with what it shows
    List,
    /// One scenario on a private stack
    Run {
        name: String,
        /// A short variant: fewer rounds, shorter outages
        #[arg(long)]
        quick: bool,
    },
    /// All scenarios but the long ones, one after the other
    All {
        /// Leave out what has a result already
        #[arg(long)]
        resume: bool,
        #[arg(long)]
        quick: bool,
    },
}

/// The program `lapwing-chaos`.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            println!("verdict: fail · no runtime: {error}");
            return ExitCode::from(2);
        }
    };
    let done = runtime.block_on(async {
        tokio::select! {
            done = run(arguments.command) => done,
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted; `./dev chaos all --resume` goes on")),
        }
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            println!("verdict: fail · {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::List => {
            for scenario in all() {
                let alone = if scenario.long { " (only by its name)" } else { "" };
                println!("{:<24} {}{alone}", scenario.name, scenario.shows);
            }
            Ok(true)
        }
        Command::Run { name, quick } => {
            let scenario = find(&name)?;
            let outcome = play(scenario, quick).await?;
            outcome.save()?;
            println!("{}", outcome.verdict());
            Ok(outcome.passed())
        }
        Command::All { resume, quick } => every(resume, quick).await,
    }
}

/// What `all` plays.
fn usual() -> impl Iterator<Item = &'static Scenario> {
    all().into_iter().filter(|scenario| !scenario.long)
}

async fn every(resume: bool, quick: bool) -> anyhow::Result<bool> {
    if !resume {
        usual().try_for_each(|scenario| outcome::forget(scenario.name))?;
    }
    let mut outcomes = Vec::new();
    for scenario in usual() {
        if let Some(there) = outcome::load(scenario.name)?.filter(|there| there.quick == quick) {
            outcomes.push(there);
            continue;
        }
        println!("\n━━ {} ━━", scenario.name);
        let outcome = match play(scenario, quick).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::broken(scenario, quick, &error),
        };
        outcome.save()?;
        println!("{}", outcome.verdict());
        outcomes.push(outcome);
    }
    println!();
    outcomes.iter().for_each(|outcome| println!("{}", outcome.row()));
    let failed: Vec<&str> =
        outcomes.iter().filter(|outcome| !outcome.passed()).map(|outcome| outcome.name.as_str()).collect();
    let why = if failed.is_empty() { String::new() } else { format!(" · failed: {}", failed.join(", ")) };
    let word = if failed.is_empty() { "pass" } else { "fail" };
    println!("verdict: {word} {} of {} scenarios{why}", outcomes.len() - failed.len(), outcomes.len());
    Ok(failed.is_empty())
}
