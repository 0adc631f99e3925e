//! `./dev up`: the four servers, two of each service as six processes, first messages, a table of addresses.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use lapwing_servers::{Cluster, Infra, Options, State, install, paths, state};

use crate::step::{interrupted, step};
use crate::{first_messages, table};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Limits of the services: `default`, or `bench` for load tests [default: default]
    #[arg(long)]
    profile: Option<String>,
    #[arg(long, default_value_t = 2)]
    gateways: usize,
    #[arg(long, default_value_t = 2)]
    routers: usize,
    #[arg(long, default_value_t = 2)]
    persisters: usize,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let folder = state::up_folder();
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = File::create(folder.join("lock"))?;
    if lock.try_lock().is_err() {
        bail!("another `./dev up` or `./dev down` is at work; wait for it");
    }
    let path = folder.join("state.json");
    let begin = Instant::now();
    let found = State::load(&path)?;
    let some_run = found.as_ref().is_some_and(|state| state.running().iter().any(|(_, runs)| *runs));
    if let Some(state) = found.filter(|_| some_run) {
        return resume(&arguments, state, &path).await;
    }
    // Whatever is dropped here kills what it started.
    let work = start_all(&arguments, &folder, &path);
    let state = tokio::select! {
        state = work => state.inspect_err(|_| forget(&path))?,
        signal = interrupted() => {
            forget(&path);
            install::clear_leftovers()?;
            println!("\n{signal}: everything that this run had started is stopped");
            return Ok(ExitCode::from(130));
        }
    };
    println!("\nup after {:.1} s\n", begin.elapsed().as_secs_f64());
    table::print(&state);
    Ok(ExitCode::SUCCESS)
}

async fn start_all(arguments: &Arguments, folder: &Path, path: &Path) -> Result<State> {
    check_limits();
    let options = Options {
        gateways: arguments.gateways,
        routers: arguments.routers,
        persisters: arguments.persisters,
        profile: arguments.profile.clone().unwrap_or_else(|| "default".to_owned()),
        folder: Some(folder.to_path_buf()),
        demo_tenant: Some(first_messages::TENANT.to_owned()),
        usual_ports: true,
        detached: true,
        ..Options::default()
    };
    step("tools (NATS, Redis, MariaDB, Kafka)", install::ensure()).await?;
    let infra = step("NATS, Redis, Kafka, MariaDB", Infra::start(Cluster::infra_options(&options))).await?;
    let cluster = Cluster::with_infra(infra, &options)?;
    // Should this program be killed, the next `down` or `up` still finds the servers.
    cluster.state().save(path)?;
    let services = format!(
        "{} gateways, {} routers, {} persisters",
        arguments.gateways, arguments.routers, arguments.persisters
    );
    step(&services, cluster.start_services()).await?;
    step("tenant demo and first messages", first_messages::send(&cluster)).await?;
    let state = cluster.state();
    state.save(path)?;
    cluster.release();
    Ok(state)
}

fn forget(state: &Path) {
    let _ = std::fs::remove_file(state);
}

/// A second `up`: what still runs is left alone, what died is started again in its place.
async fn resume(arguments: &Arguments, mut state: State, path: &Path) -> Result<ExitCode> {
    let down: Vec<String> =
        state.running().into_iter().filter(|(_, runs)| !runs).map(|(name, _)| name.to_owned()).collect();
    if down.is_empty() {
        println!("already running\n");
        if let Some(wanted) = arguments.profile.as_ref().filter(|wanted| **wanted != state.profile) {
            bail!("it runs with profile {}, not {wanted}: ./dev down, then up again", state.profile);
        }
    }
    // Servers stand last in the list, and the services lean on them.
    for name in down.iter().rev() {
        let managed = state.managed(name)?;
        step(&format!("{name} had ended: starting it again"), managed.start()).await?;
        managed.release();
        state.update(&managed);
        state.save(path)?;
    }
    if !down.is_empty() {
        step("all ready", table::settled(&state)).await?;
    }
    table::print(&state);
    Ok(ExitCode::SUCCESS)
}

/// R-DEV-2: limits that would make a later failure hard to read are named now.
fn check_limits() {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft =
        files.and_then(|line| line.split_whitespace().nth(3)).and_then(|word| word.parse::<u64>().ok());
    if let Some(soft) = soft.filter(|soft| *soft < 4096) {
        println!("! only {soft} open files are allowed; many connections need more: `ulimit -n 65536`");
    }
    let backlog = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    if let Some(backlog) = backlog.trim().parse::<u64>().ok().filter(|backlog| *backlog < 1024) {
        println!(
            "! the listen backlog is {backlog}; a reconnect wave needs 1024: `sysctl net.core.somaxconn=4096`"
        );
    }
    if paths::uid() != 0 && install::find("nats-server").is_none() {
        println!("! not root: missing packages cannot be installed by apt");
    }
}
