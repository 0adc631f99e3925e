//! The table of addresses.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use lapwing_servers::{State, http, state};

pub(crate) fn print(state: &State) {
    let endpoints = &state.endpoints;
    for (index, gateway) in endpoints.gateways.iter().enumerate() {
        if index == 0 {
            row("demo page", &format!("http://{}/", gateway.client_address));
        }
        row(&format!("clients, {}", gateway.node), &format!("{}/v1/ws", gateway.client_url));
        row(&format!("server API, {}", gateway.node), &format!("http://{}/v1", gateway.api_address));
    }
    let gateways = endpoints.gateways.iter().map(|gateway| (&gateway.node, &gateway.admin_address));
    let others =
        endpoints.routers.iter().chain(&endpoints.persisters).map(|node| (&node.node, &node.admin_address));
    for (node, address) in gateways.chain(others) {
        row(&format!("metrics, {node}"), &format!("http://{address}/metrics   (/livez /readyz /healthz)"));
    }
    for name in ["nats", "redis", "kafka", "mariadb"] {
        if let Ok(managed) = state.managed(name) {
            let pid = managed.pid().map_or_else(|| "not running".to_owned(), |pid| format!("process {pid}"));
            row(name, &format!("{}   {pid}", address_of(state, name)));
        }
    }
    row("operator key", &endpoints.operator_key_file.display().to_string());
    row("demo tenant's key", &crate::first_messages::key_file(&state.folder).display().to_string());
    row("data and logs", &state.folder.display().to_string());
    row("profile", &state.profile);
    println!("\nlogs: ./dev logs [name]    state: ./dev status    stop: ./dev down");
}

fn address_of(state: &State, name: &str) -> String {
    let url = match name {
        "nats" => &state.endpoints.nats_url,
        "redis" => &state.endpoints.redis_url,
        "kafka" => &state.endpoints.kafka_brokers,
        _ => &state.endpoints.mysql_url,
    };
    // The password stays in the state file.
    url.rsplit('@').next().unwrap_or_default().to_owned()
}

fn row(what: &str, value: &str) {
    println!("  {what:<18} {value}");
}

pub(crate) async fn status() -> Result<ExitCode> {
    let Some(state) = State::load(&state::default_path())? else {
        println!("nothing is running: `./dev up`");
        return Ok(ExitCode::FAILURE);
    };
    print(&state);
    println!();
    let mut good = true;
    for (name, health) in healths(&state).await? {
        good &= health == READY;
        println!("  {name:<18} {health}");
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const READY: &str = "ready";
/// For so long all have to be ready: partitions of a router that has ended find their next owner within the lease.
const SETTLED: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);

/// After something was started again: until nobody has anything left to take over.
pub(crate) async fn settled(state: &State) -> Result<()> {
    let (begin, mut since) = (Instant::now(), None);
    while begin.elapsed() < PATIENCE {
        let well = healths(state).await?.iter().all(|(_, health)| health == READY);
        since = since.filter(|_| well).or(well.then(Instant::now));
        if since.is_some_and(|since: Instant| since.elapsed() > SETTLED) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("not everything is ready after {} s: ./dev status says what", PATIENCE.as_secs())
}

async fn healths(state: &State) -> Result<Vec<(String, String)>> {
    let mut healths = Vec::new();
    for record in &state.processes {
        let managed = state.managed(&record.spec.name)?;
        let health = match &record.ready {
            _ if !managed.is_running() => "not running".to_owned(),
            lapwing_servers::managed::Ready::Http { address, path } => match http::get(address, path).await {
                Ok(answer) if answer.status == 200 => READY.to_owned(),
                Ok(answer) => format!("not ready ({}): {}", answer.status, answer.body.trim()),
                Err(error) => format!("no answer: {error:#}"),
            },
            ready if ready.holds().await => READY.to_owned(),
            _ => "no answer".to_owned(),
        };
        healths.push((record.spec.name.clone(), health));
    }
    Ok(healths)
}
