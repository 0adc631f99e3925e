//! Lapwing's load test: plays a scenario against a running system and checks every message (R-LT).
// A command speaks on the terminal; that is its interface.
#![allow(clippy::print_stdout)]
pub mod drive;
mod fault;
mod fleet;
mod gates;
mod group;
mod history;
mod html;
mod ledger;
mod machine;
mod metrics;
mod options;
mod p2p;
mod percentile;
mod plot;
mod progress;
mod receipts;
mod receive;
mod replay;
mod report;
mod run;
mod send;
mod settle;
mod setup;
mod target;
mod timeline;
mod transcript;
mod verify;

use std::process::ExitCode;

use clap::Parser;
use options::{Options, Scenario};
use target::Target;

/// The program `lapwing-loadtest`.
pub fn main() -> ExitCode {
    let options = Options::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return ended(&anyhow::anyhow!("no runtime: {error}")),
    };
    match runtime.block_on(until_interrupted(options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => ended(&error),
    }
}

async fn until_interrupted(options: Options) -> anyhow::Result<bool> {
    tokio::select! {
        done = scenario(&options) => done,
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
    }
}

async fn scenario(options: &Options) -> anyhow::Result<bool> {
    let target = Target::find(&options.common)?;
    match &options.scenario {
        Scenario::P2p(p2p) => p2p::run(&options.common, p2p, &target).await,
        Scenario::Group(group) => group::run(&options.common, group, &target).await,
        Scenario::Replay(replay) => replay::run(&options.common, replay, &target).await,
    }
}

/// A run that could not be finished has failed, and says so in the same last line.
fn ended(error: &anyhow::Error) -> ExitCode {
    println!("verdict: fail · {error:#}");
    ExitCode::from(2)
}
