//! The state file of a running cluster (`target/up/state.json`): addresses, and what is needed to stop or restart each
//! process from another program. It holds passwords, so only its owner reads it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::managed::{Managed, Record};
use crate::process::Identity;
use crate::{paths, secrets};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GatewayEndpoint {
    pub node: String,
    /// `ws://127.0.0.1:PORT`
    pub client_url: String,
    pub client_address: String,
    pub api_address: String,
    pub admin_address: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeEndpoint {
    pub node: String,
    pub admin_address: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Endpoints {
    pub gateways: Vec<GatewayEndpoint>,
    pub routers: Vec<NodeEndpoint>,
    pub persisters: Vec<NodeEndpoint>,
    pub nats_url: String,
    pub redis_url: String,
    pub kafka_brokers: String,
    pub mysql_url: String,
    /// May only SELECT.
    pub mysql_ro_url: String,
    pub operator_key_file: PathBuf,
    pub jwt_secret_file: PathBuf,
}

impl Endpoints {
    pub fn operator_key(&self) -> Result<String> {
        let path = &self.operator_key_file;
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.trim().to_owned())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub profile: String,
    pub folder: PathBuf,
    pub endpoints: Endpoints,
    /// In the order in which they are stopped: gateways, routers, persisters, then the servers.
    pub processes: Vec<Record>,
}

/// Where `./dev up` keeps its data, logs and state: `LAPWING_UP_DIR` (tests of `up` itself), or `target/up`.
pub fn up_folder() -> PathBuf {
    std::env::var_os("LAPWING_UP_DIR").map_or_else(|| paths::target_dir().join("up"), PathBuf::from)
}

/// `LAPWING_STATE`, or the state file of `./dev up`.
pub fn default_path() -> PathBuf {
    std::env::var_os("LAPWING_STATE").map_or_else(|| up_folder().join("state.json"), PathBuf::from)
}

impl State {
    pub fn save(&self, path: &Path) -> Result<()> {
        secrets::write_private(path, &serde_json::to_string_pretty(self)?)
    }

    /// None if there is no such file.
    pub fn load(path: &Path) -> Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let state = serde_json::from_str(&text)
            .with_context(|| format!(
                "{} is not a state file of this version; end what still runs from this folder, then delete the file",
                path.display()
            ))?;
        Ok(Some(state))
    }

    /// The process of this name (`g1`, `r2`, `p1`, `nats`, `redis`, `kafka`, `mariadb`), to be killed, paused or
    /// restarted. A restart changes its identity, so call `update` and `save` after it.
    pub fn managed(&self, name: &str) -> Result<Managed> {
        let record = self.processes.iter().find(|record| record.spec.name == name);
        let record = record.with_context(|| format!("no process {name} in the state file"))?;
        Ok(Managed::adopt(record.clone()))
    }

    pub fn update(&mut self, managed: &Managed) {
        if let Some(record) = self.processes.iter_mut().find(|record| record.spec.name == managed.name()) {
            *record = managed.record();
        }
    }

    /// Name and whether it runs.
    pub fn running(&self) -> Vec<(&str, bool)> {
        self.processes
            .iter()
            .map(|record| {
                (record.spec.name.as_str(), record.identity.as_ref().is_some_and(Identity::is_running))
            })
            .collect()
    }
}
