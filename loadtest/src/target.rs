//! What is loaded: given on the command line, or the running `./dev up`.
use std::path::PathBuf;

use anyhow::{Context, bail};
use lapwing_client::http::Api;
use lapwing_servers::{State, state};

use crate::options::Common;

pub(crate) struct Target {
    pub(crate) apis: Vec<String>,
    pub(crate) gateways: Vec<String>,
    pub(crate) operator_key: String,
    pub(crate) mysql: Option<String>,
    pub(crate) metrics: Vec<(String, String)>,
    pub(crate) profile: String,
    /// For faults and for the machine's figures.
    pub(crate) state: Option<(PathBuf, State)>,
}

impl Target {
    pub(crate) fn find(common: &Common) -> anyhow::Result<Self> {
        let path = common.state.clone().unwrap_or_else(state::default_path);
        let state = State::load(&path)?;
        let ends = state.as_ref().map(|state| &state.endpoints);
        let http = |address: &str| format!("http://{address}");
        let apis =
            given(&common.api_url, || Some(ends?.gateways.iter().map(|g| http(&g.api_address)).collect()));
        let gateways =
            given(&common.client_url, || Some(ends?.gateways.iter().map(|g| g.client_url.clone()).collect()));
        if apis.is_empty() || gateways.is_empty() {
            bail!("nothing to load: `./dev up` first, or give --api-url and --client-url");
        }
        let key_file = common.operator_key_file.clone().or_else(|| Some(ends?.operator_key_file.clone()));
        let key_file = key_file.context("no operator key: give --operator-key-file")?;
        let operator_key = std::fs::read_to_string(&key_file)
            .with_context(|| format!("cannot read the operator key {}", key_file.display()))?;
        let mysql = common.mysql_url.clone().or_else(|| Some(ends?.mysql_ro_url.clone()));
        let metrics = match (common.metrics_url.is_empty(), ends) {
            (false, _) => common.metrics_url.iter().map(|url| (url.clone(), url.clone())).collect(),
            (true, None) => Vec::new(),
            (true, Some(ends)) => {
                let gateways = ends.gateways.iter().map(|g| (&g.node, &g.admin_address));
                let others = ends.routers.iter().chain(&ends.persisters).map(|n| (&n.node, &n.admin_address));
                gateways.chain(others).map(|(node, address)| (node.clone(), http(address))).collect()
            }
        };
        let profile = common.profile.clone().or_else(|| state.as_ref().map(|s| s.profile.clone()));
        Ok(Self {
            apis,
            gateways,
            operator_key: operator_key.trim().to_owned(),
            mysql,
            metrics,
            profile: profile.unwrap_or_else(|| "unknown".to_owned()),
            state: state.map(|state| (path, state)),
        })
    }

    pub(crate) fn operator(&self) -> Api {
        Api::new(self.apis[0].clone(), Some(self.operator_key.clone()))
    }
}

fn given(values: &[String], otherwise: impl FnOnce() -> Option<Vec<String>>) -> Vec<String> {
    if values.is_empty() { otherwise().unwrap_or_default() } else { values.to_vec() }
}

/// Open files this process may have; each client takes one.
pub(crate) fn check_open_files(clients: usize) -> anyhow::Result<()> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits.lines().find_map(|line| {
        line.strip_prefix("Max open files")?.split_whitespace().next()?.parse::<usize>().ok()
    });
    match soft {
        Some(soft) if soft < clients + 200 => bail!(
            "{clients} clients need {} open files, this process may have {soft}: `ulimit -n {}` before the run",
            clients + 200,
            (clients + 200).next_power_of_two()
        ),
        _ => Ok(()),
    }
}
