//! The table of addresses.

use std::process::ExitCode;

use anyhow::Result;
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
    for record in &state.processes {
        let managed = state.managed(&record.spec.name)?;
        let health = match &record.ready {
            _ if !managed.is_running() => "not running".to_owned(),
            lapwing_servers::managed::Ready::Http { address, path } => match http::get(address, path).await {
                Ok(answer) if answer.status == 200 => "ready".to_owned(),
                Ok(answer) => format!("not ready ({}): {}", answer.status, answer.body.trim()),
                Err(error) => format!("no answer: {error:#}"),
            },
            ready if ready.holds().await => "ready".to_owned(),
            _ => "no answer".to_owned(),
        };
        good &= health == "ready";
        println!("  {:<18} {health}", record.spec.name);
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
