//! `./dev load`: the load test against what `up` started, or a private cluster with the `bench` profile.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use lapwing_servers::{Cluster, Options, State, services, state};

use crate::step::{interrupted, step};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Passed through to `lapwing-loadtest`, for instance: p2p --pairs 200 --messages 20 --rate 5
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let words = &arguments.arguments;
    let only_help = words.is_empty() || words.iter().any(|word| word == "--help" || word == "-h");
    let path = state::default_path();
    let running = State::load(&path)?.filter(|state| state.running().iter().all(|(_, runs)| *runs));
    if only_help || running.is_some() {
        if let Some(state) = running.filter(|_| !only_help) {
            println!("using what `./dev up` started (profile {})", state.profile);
        }
        return load_test(words, &path).await;
    }
    println!("nothing is up: a private cluster for this run");
    let options = Options { profile: "bench".to_owned(), ..Options::default() };
    let work = async {
        let cluster = step("private cluster (profile bench)", Cluster::start(options)).await?;
        let path = cluster.infra().folder().join("state.json");
        cluster.state().save(&path)?;
        let code = load_test(words, &path).await;
        step("stopping the private cluster", async {
            cluster.stop().await;
            Ok(())
        })
        .await?;
        code
    };
    tokio::select! {
        code = work => code,
        signal = interrupted() => {
            println!("\n{signal}: the load test and its cluster are stopped");
            Ok(ExitCode::from(130))
        }
    }
}

async fn load_test(words: &[String], state: &Path) -> Result<ExitCode> {
    let program = services::binary_path("lapwing-loadtest")?;
    let mut command = tokio::process::Command::new(program);
    if words.is_empty() {
        command.arg("--help");
    }
    let status = command
        .args(words)
        .env("LAPWING_STATE", state)
        .env("RUST_BACKTRACE", "0")
        .kill_on_drop(true)
        .status()
        .await
        .context("cannot run lapwing-loadtest")?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
