//! Where the cluster is: given, from the environment, or from the state file of `./dev up`.
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use lapwing_client::http::Api;
use serde::Deserialize;

#[derive(clap::Args)]
pub(crate) struct Given {
    /// Server API of a gateway (http://host:port).
    #[arg(long, env = "LAPWING_GATEWAY_API", global = true)]
    gateway_api: Option<String>,
    /// Client addresses of gateways (ws://host:port); repeatable. For `probe`.
    #[arg(long, env = "LAPWING_CLIENT_URL", value_delimiter = ',', global = true)]
    client_url: Vec<String>,
    /// Admin address of a router (http://host:port); repeatable.
    #[arg(long, env = "LAPWING_ROUTER_ADMIN", value_delimiter = ',', global = true)]
    router_admin: Vec<String>,
    /// Admin address of a persister (http://host:port); repeatable.
    #[arg(long, env = "LAPWING_PERSISTER_ADMIN", value_delimiter = ',', global = true)]
    persister_admin: Vec<String>,
    /// File with the operator key.
    #[arg(long, env = "LAPWING_OPERATOR_KEY_FILE", global = true)]
    operator_key_file: Option<PathBuf>,
    /// State file of `./dev up`, for what is not given.
    #[arg(long, env = "LAPWING_STATE", global = true)]
    state: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
struct State {
    endpoints: Endpoints,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Endpoints {
    gateways: Vec<Gateway>,
    routers: Vec<Router>,
    persisters: Vec<Router>,
    operator_key_file: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Gateway {
    client_url: String,
    api_address: String,
}

#[derive(Deserialize)]
struct Router {
    admin_address: String,
}

pub(crate) struct Config {
    gateway_api: Option<String>,
    pub(crate) client_urls: Vec<String>,
    router_admins: Vec<String>,
    persister_admins: Vec<String>,
    operator_key: String,
}

impl Config {
    pub(crate) fn find(given: Given) -> anyhow::Result<Self> {
        let ends = match given.state.or_else(default_state) {
            Some(path) => load(&path)?.endpoints,
            None => Endpoints::default(),
        };
        let http = |address: &str| format!("http://{address}");
        let key_file = given
            .operator_key_file
            .or(ends.operator_key_file)
            .context("no operator key: give --operator-key-file, or run where `./dev up` runs")?;
        let key = std::fs::read_to_string(&key_file)
            .with_context(|| format!("cannot read the operator key {}", key_file.display()))?;
        let or =
            |given: Vec<String>, otherwise: Vec<String>| if given.is_empty() { otherwise } else { given };
        Ok(Self {
            gateway_api: given.gateway_api.or_else(|| ends.gateways.first().map(|g| http(&g.api_address))),
            client_urls: or(given.client_url, ends.gateways.iter().map(|g| g.client_url.clone()).collect()),
            router_admins: or(
                given.router_admin,
                ends.routers.iter().map(|r| http(&r.admin_address)).collect(),
            ),
            persister_admins: or(
                given.persister_admin,
                ends.persisters.iter().map(|p| http(&p.admin_address)).collect(),
            ),
            operator_key: key.trim().to_owned(),
        })
    }

    /// The server API with the operator key.
    pub(crate) fn operator(&self) -> anyhow::Result<Api> {
        let base = self.gateway_api.clone().context("no gateway: give --gateway-api")?;
        Ok(Api::new(base, Some(self.operator_key.clone())))
    }

    /// The admin API of each router.
    pub(crate) fn routers(&self) -> anyhow::Result<Vec<Api>> {
        ensure!(!self.router_admins.is_empty(), "no router: give --router-admin");
        Ok(self.apis(&self.router_admins, Duration::from_secs(5)))
    }

    /// The admin API of each persister; what it does may take half a minute.
    pub(crate) fn persisters(&self) -> anyhow::Result<Vec<Api>> {
        ensure!(!self.persister_admins.is_empty(), "no persister: give --persister-admin");
        Ok(self.apis(&self.persister_admins, Duration::from_secs(35)))
    }

    fn apis(&self, bases: &[String], timeout: Duration) -> Vec<Api> {
        let api = |base: &String| {
            let mut api = Api::new(base.clone(), Some(self.operator_key.clone()));
            api.timeout = timeout;
            api
        };
        bases.iter().map(api).collect()
    }
}

/// `target/up/state.json` of this folder or of one above it.
fn default_state() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("LAPWING_UP_DIR") {
        return Some(PathBuf::from(folder).join("state.json"));
    }
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join("target/up/state.json")).find(|path| path.is_file())
}

fn load(path: &Path) -> anyhow::Result<State> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a state file", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> Given {
        Given {
            gateway_api: None,
            client_url: vec![],
            router_admin: vec![],
            persister_admin: vec![],
            operator_key_file: None,
            state: None,
        }
    }

    #[test]
    fn what_is_given_goes_before_the_state_file() {
        let folder = std::env::temp_dir().join(format!("lapwing-ctl-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (key, state) = (folder.join("key"), folder.join("state.json"));
        std::fs::write(&key, "secret\n").unwrap();
        let text = serde_json::json!({ "profile": "default", "endpoints": {
            "gateways": [{ "node": "g1", "client_url": "ws://g:1", "api_address": "g:2" }],
            "routers": [{ "node": "r1", "admin_address": "r:3" }],
            "persisters": [{ "node": "p1", "admin_address": "p:4" }],
            "operator_key_file": key,
        }});
        std::fs::write(&state, text.to_string()).unwrap();
        let mut options = given();
        options.state = Some(state);
        options.router_admin = vec!["http://other:9".into()];
        let config = Config::find(options).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(config.operator().unwrap().base(), "http://g:2");
        assert_eq!(config.routers().unwrap()[0].base(), "http://other:9");
        assert_eq!(config.persisters().unwrap()[0].base(), "http://p:4");
        assert_eq!((config.client_urls[0].as_str(), config.operator_key.as_str()), ("ws://g:1", "secret"));
    }

    #[test]
    fn a_missing_state_file_is_named() {
        let mut options = given();
        options.state = Some("no/such/state.json".into());
        assert!(Config::find(options).err().unwrap().to_string().contains("no/such/state.json"));
    }
}
