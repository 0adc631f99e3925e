//! One process of a running cluster: kill it, stop it, pause it, start it again; follow the logs.

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use lapwing_servers::{Managed, State, state};

#[derive(clap::Subcommand)]
pub(crate) enum Action {
    /// kill -9
    Kill { name: String },
    /// SIGTERM, and wait
    Stop { name: String },
    /// Start it again on its port with its data
    Start { name: String },
    /// Stop and start
    Restart { name: String },
    /// SIGSTOP: it keeps its connections and answers nothing
    Pause { name: String },
    /// SIGCONT
    Resume { name: String },
}

pub(crate) async fn run(action: Action) -> Result<ExitCode> {
    let path = state::default_path();
    // `up`, `down` and others of these write the same file.
    let lock =
        std::fs::File::create(path.with_file_name("lock")).context("nothing is running: `./dev up`")?;
    lock.lock()?;
    let mut state = State::load(&path)?.context("nothing is running: `./dev up`")?;
    let (Action::Kill { name }
    | Action::Stop { name }
    | Action::Start { name }
    | Action::Restart { name }
    | Action::Pause { name }
    | Action::Resume { name }) = &action;
    let managed = state.managed(name)?;
    match &action {
        Action::Kill { .. } => managed.kill9().await,
        Action::Stop { .. } => drop(managed.stop().await),
        Action::Start { .. } => start(&managed).await?,
        Action::Restart { .. } => {
            managed.stop().await;
            start(&managed).await?;
        }
        Action::Pause { .. } => managed.pause()?,
        Action::Resume { .. } => managed.resume()?,
    }
    state.update(&managed);
    state.save(&path)?;
    match managed.pid() {
        Some(pid) => println!("{name}: process {pid}"),
        None if matches!(action, Action::Kill { .. }) => println!("{name}: killed"),
        None => println!("{name}: stopped"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn start(managed: &Managed) -> Result<()> {
    managed.start().await?;
    managed.release();
    Ok(())
}

pub(crate) fn logs(names: &[String]) -> Result<ExitCode> {
    let state = State::load(&state::default_path())?.context("nothing is running: `./dev up`")?;
    for name in names {
        state.managed(name)?;
    }
    let mut tail = std::process::Command::new("tail");
    tail.args(["-n", "50", "-F"]);
    for record in &state.processes {
        if names.is_empty() || names.contains(&record.spec.name) {
            tail.arg(&record.spec.log);
        }
    }
    let error = tail.exec();
    bail!("cannot run tail: {error}")
}
