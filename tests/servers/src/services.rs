//! The product's own three services as processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::infra::Infra;
use crate::managed::{Managed, Ready};
use crate::paths;
use crate::ports::Port;
use crate::process::Spec;

const READY_LIMIT: Duration = Duration::from_secs(60);
const STOP_GRACE: Duration = Duration::from_secs(20);

/// What all services of a cluster share.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) folder: PathBuf,
    pub(crate) bin_dir: PathBuf,
    pub(crate) profile: String,
    pub(crate) log: String,
    pub(crate) jwt_secret_file: PathBuf,
    pub(crate) operator_key_file: PathBuf,
    pub(crate) demo_tenant: Option<String>,
    pub(crate) extra: Vec<(String, String)>,
    pub(crate) detached: bool,
}

/// One router or persister.
#[derive(Debug)]
pub struct Service {
    server: Managed,
    node: String,
    admin: Port,
}

#[derive(Debug)]
pub struct Gateway {
    service: Service,
    client: Port,
    api: Port,
}

impl Service {
    pub(crate) fn router(node: &str, common: &Common, infra: &Infra, admin: Port) -> Result<Self> {
        let env = vec![
            ("LAPWING_KAFKA_BROKERS".to_owned(), infra.kafka().brokers()),
            ("LAPWING_REDIS_URL".to_owned(), infra.redis().url()),
        ];
        Self::prepare("lapwing-router", node, common, infra, admin, env)
    }

    pub(crate) fn persister(node: &str, common: &Common, infra: &Infra, admin: Port) -> Result<Self> {
        let env = vec![
            ("LAPWING_KAFKA_BROKERS".to_owned(), infra.kafka().brokers()),
            ("LAPWING_MYSQL_URL".to_owned(), infra.mariadb().url()),
        ];
        Self::prepare("lapwing-persister", node, common, infra, admin, env)
    }

    fn prepare(
        binary: &str,
        node: &str,
        common: &Common,
        infra: &Infra,
        admin: Port,
        own: Vec<(String, String)>,
    ) -> Result<Self> {
        let program = binary_in(&common.bin_dir, binary)?;
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let mut env = vec![
            ("LAPWING_NODE".to_owned(), node.to_owned()),
            ("LAPWING_ADMIN_ADDR".to_owned(), admin.address()),
            ("LAPWING_NATS_URL".to_owned(), infra.nats().url()),
            ("LAPWING_LOG".to_owned(), common.log.clone()),
            ("LAPWING_PROFILE".to_owned(), common.profile.clone()),
            ("LAPWING_OPERATOR_KEY_FILE".to_owned(), path(&common.operator_key_file)),
            // A backtrace for each anyhow error costs more than the work that failed.
            ("RUST_BACKTRACE".to_owned(), "0".to_owned()),
        ];
        env.extend(own);
        env.extend(common.extra.iter().cloned());
        let folder = common.folder.join(node);
        let spec = Spec {
            name: node.to_owned(),
            program,
            args: Vec::new(),
            env,
            log: folder.join(format!("{node}.log")),
            folder,
            detached: common.detached,
        };
        let ready = Ready::Http { address: admin.address(), path: "/readyz".to_owned() };
        let server = Managed::new(spec, ready, READY_LIMIT, STOP_GRACE);
        Ok(Self { server, node: node.to_owned(), admin })
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    /// Health, metrics and the admin API.
    pub fn admin_address(&self) -> String {
        self.admin.address()
    }

    pub async fn metrics(&self) -> Result<String> {
        Ok(crate::http::get(&self.admin_address(), "/metrics").await?.body)
    }

    /// The status of one of `/livez`, `/readyz`, `/healthz`.
    pub async fn health(&self, path: &str) -> Result<u16> {
        Ok(crate::http::get(&self.admin_address(), path).await?.status)
    }
}

impl Gateway {
    pub(crate) fn prepare(
        node: &str,
        common: &Common,
        infra: &Infra,
        origins: &str,
        (client, api, admin): (Port, Port, Port),
    ) -> Result<Self> {
        let mut env = vec![
            ("LAPWING_CLIENT_ADDR".to_owned(), client.address()),
            ("LAPWING_API_ADDR".to_owned(), api.address()),
            ("LAPWING_ORIGINS".to_owned(), origins.to_owned()),
            ("LAPWING_PUBLIC_URL".to_owned(), format!("ws://{}", client.address())),
            ("LAPWING_REDIS_URL".to_owned(), infra.redis().url()),
            ("LAPWING_JWT_SECRET_FILE".to_owned(), common.jwt_secret_file.to_string_lossy().into_owned()),
        ];
        env.extend(
            common.demo_tenant.iter().map(|tenant| ("LAPWING_DEMO_TENANT".to_owned(), tenant.clone())),
        );
        let service = Service::prepare("lapwing-gateway", node, common, infra, admin, env)?;
        Ok(Self { service, client, api })
    }

    /// `ws://127.0.0.1:PORT`, what clients connect to.
    pub fn client_url(&self) -> String {
        format!("ws://{}", self.client.address())
    }

    pub fn client_address(&self) -> String {
        self.client.address()
    }

    /// `http://127.0.0.1:PORT` of the server API.
    pub fn api_url(&self) -> String {
        format!("http://{}", self.api.address())
    }

    pub fn api_address(&self) -> String {
        self.api.address()
    }
}

impl std::ops::Deref for Service {
    type Target = Managed;

    fn deref(&self) -> &Managed {
        &self.server
    }
}

impl std::ops::Deref for Gateway {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

/// The path of one of the workspace's programs; says how to build it when it is not there.
pub fn binary_path(name: &str) -> Result<PathBuf> {
    binary_in(&paths::bin_dir(), name)
}

fn binary_in(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    if !path.is_file() {
        bail!("{} is not built: `cargo build --bins`, or set LAPWING_BIN_DIR to its folder", path.display());
    }
    Ok(path)
}
