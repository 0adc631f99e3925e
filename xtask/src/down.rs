//! `./dev down`: stops what `up` started and nothing else, in the order of the data flow.

use std::fs::File;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use lapwing_servers::{State, state};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also delete the data: messages, logs, passwords
    #[arg(long)]
    delete_data: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let folder = state::up_folder();
    if !folder.is_dir() {
        println!("nothing was started from here");
        return Ok(ExitCode::SUCCESS);
    }
    let lock = File::create(folder.join("lock"))?;
    if lock.try_lock().is_err() {
        bail!("another `./dev up` or `./dev down` is at work; wait for it");
    }
    let path = folder.join("state.json");
    match State::load(&path)? {
        Some(state) => {
            stop(&state).await?;
            std::fs::remove_file(&path)?;
        }
        None => println!("nothing is running"),
    }
    if arguments.delete_data {
        std::fs::remove_dir_all(&folder)?;
        println!("data in {} deleted", folder.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// As the state file has it now: what was restarted meanwhile has another process number.
pub(crate) async fn stop(state: &State) -> Result<()> {
    for record in &state.processes {
        let managed = state.managed(&record.spec.name)?;
        if !managed.is_running() {
            println!("  {}: was not running", managed.name());
            continue;
        }
        let begin = Instant::now();
        let how = if managed.stop().await { "stopped" } else { "killed, it did not stop in time" };
        println!("  {}: {how} ({:.1} s)", managed.name(), begin.elapsed().as_secs_f64());
    }
    Ok(())
}
