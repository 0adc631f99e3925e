//! `./dev bench`: the benchmarks, which start servers of their own beside whatever is up.

use std::process::ExitCode;

use anyhow::{Context, Result};
use lapwing_servers::services;

use crate::step::interrupted;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Passed through to `lapwing-bench`, for instance: commit --seconds 20 --markdown
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let program = services::binary_path("lapwing-bench")?;
    let mut command = tokio::process::Command::new(program);
    if arguments.arguments.is_empty() {
        command.arg("--help");
    }
    let mut child = command
        .args(&arguments.arguments)
        .env("RUST_BACKTRACE", "0")
        .kill_on_drop(true)
        .spawn()
        .context("cannot run lapwing-bench")?;
    tokio::select! {
        status = child.wait() => {
            let code = status.context("lapwing-bench did not end")?.code();
            Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
        }
        signal = interrupted() => {
            println!("\n{signal}: the benchmark and its servers are stopped");
            Ok(ExitCode::from(130))
        }
    }
}
