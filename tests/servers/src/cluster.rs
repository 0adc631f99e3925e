//! A whole Lapwing: the four foreign servers and N of each service.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;

use crate::infra::{Infra, InfraOptions};
use crate::kafka::Kafka;
use crate::mariadb::MariaDb;
use crate::nats::Nats;
use crate::ports::{self, Port};
use crate::redis::Redis;
use crate::services::{Common, Gateway, Service};
use crate::state::{Endpoints, GatewayEndpoint, NodeEndpoint, State};
use crate::{http, paths, secrets};

#[derive(Clone, Debug)]
pub struct Options {
    pub gateways: usize,
    pub routers: usize,
    pub persisters: usize,
    /// `default` or `bench`: the services' limits.
    pub profile: String,
    /// `human` or `json`.
    pub log: String,
    /// Environment for all services, after and above the contract's.
    pub env: Vec<(String, String)>,
    /// The tenant for whose users the demo page hands out tokens; None: for nobody.
    pub demo_tenant: Option<String>,
    /// Where the services' programs are. None: `LAPWING_BIN_DIR`, or beside the running program.
    pub bin_dir: Option<PathBuf>,
    /// None: a folder of its own, removed at the end.
    pub folder: Option<PathBuf>,
    /// The ports of `./dev up` (7100 …, the next free one if taken) instead of any free ones.
    pub usual_ports: bool,
    pub detached: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            gateways: 2,
            routers: 2,
            persisters: 2,
            profile: "default".to_owned(),
            log: "human".to_owned(),
            env: Vec::new(),
            demo_tenant: None,
            bin_dir: None,
            folder: None,
            usual_ports: false,
            detached: false,
        }
    }
}

#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order: the services before what they lean on.
    gateways: Vec<Gateway>,
    routers: Vec<Service>,
    persisters: Vec<Service>,
    infra: Infra,
    profile: String,
    operator_key: String,
    operator_key_file: PathBuf,
    jwt_secret_file: PathBuf,
}

/// The usual ports; the table stands in the requirements.
const CLIENT: u16 = 7100;
const API: u16 = 7110;
const GATEWAY_ADMIN: u16 = 7120;
const ROUTER_ADMIN: u16 = 7130;
const PERSISTER_ADMIN: u16 = 7140;
const INFRA: u16 = 7150;

impl Cluster {
    /// Everything up and `/readyz` of each service at 200.
    pub async fn start(options: Options) -> Result<Self> {
        let infra = Infra::start(Self::infra_options(&options)).await?;
        let cluster = Self::with_infra(infra, &options)?;
        cluster.start_services().await?;
        Ok(cluster)
    }

    pub fn infra_options(options: &Options) -> InfraOptions {
        InfraOptions {
            folder: options.folder.clone(),
            first_port: options.usual_ports.then_some(INFRA),
            detached: options.detached,
            ..InfraOptions::default()
        }
    }

    /// Prepares the services beside servers that exist already; starts nothing.
    pub fn with_infra(infra: Infra, options: &Options) -> Result<Self> {
        let secret_folder = infra.folder().join("secrets");
        let (jwt_secret_file, _) = secrets::kept(&secret_folder, "jwt_secret")?;
        let (operator_key_file, operator_key) = secrets::kept(&secret_folder, "operator_key")?;
        let common = Common {
            folder: infra.folder().to_path_buf(),
            bin_dir: options.bin_dir.clone().unwrap_or_else(paths::bin_dir),
            profile: options.profile.clone(),
            log: options.log.clone(),
            jwt_secret_file: jwt_secret_file.clone(),
            operator_key_file: operator_key_file.clone(),
            demo_tenant: options.demo_tenant.clone(),
            extra: options.env.clone(),
            detached: options.detached,
        };
        let port = |usual: u16| if options.usual_ports { ports::at_or_after(usual) } else { ports::any() };
        let mut gateways: Vec<Gateway> = Vec::new();
        let mut ports_of_gateways: Vec<(Port, Port, Port)> = Vec::new();
        for _ in 0..options.gateways {
            ports_of_gateways.push((port(CLIENT)?, port(API)?, port(GATEWAY_ADMIN)?));
        }
        // A page from one gateway may be moved to another.
        let origins: Vec<_> =
            ports_of_gateways.iter().map(|(client, ..)| format!("http://{}", client.address())).collect();
        let origins = origins.join(",");
        for (index, ports) in ports_of_gateways.into_iter().enumerate() {
            gateways.push(Gateway::prepare(&format!("g{}", index + 1), &common, &infra, &origins, ports)?);
        }
        let routers = (1..=options.routers)
            .map(|number| Service::router(&format!("r{number}"), &common, &infra, port(ROUTER_ADMIN)?))
            .collect::<Result<_>>()?;
        let persisters = (1..=options.persisters)
            .map(|number| Service::persister(&format!("p{number}"), &common, &infra, port(PERSISTER_ADMIN)?))
            .collect::<Result<_>>()?;
        let profile = options.profile.clone();
        Ok(Self {
            gateways,
            routers,
            persisters,
            infra,
            profile,
            operator_key,
            operator_key_file,
            jwt_secret_file,
        })
    }

    /// Starts all services at once and waits until each is ready.
    pub async fn start_services(&self) -> Result<()> {
        for service in self.services() {
            service.spawn()?;
        }
        for service in self.services() {
            service.wait_ready().await.with_context(|| format!("service {}", service.node()))?;
        }
        Ok(())
    }

    /// Graceful stop in the order of the data flow, then the servers.
    pub async fn stop(&self) {
        for service in self.services() {
            service.stop().await;
        }
        self.infra.stop().await;
    }

    /// Everything lives on after this value is gone.
    pub fn release(&self) {
        self.services().for_each(|service| service.release());
        self.infra.release();
    }

    /// Gateways, routers, persisters.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.gateways.iter().map(|gateway| &**gateway).chain(&self.routers).chain(&self.persisters)
    }

    pub fn gateway(&self, index: usize) -> &Gateway {
        &self.gateways[index]
    }

    pub fn router(&self, index: usize) -> &Service {
        &self.routers[index]
    }

    pub fn persister(&self, index: usize) -> &Service {
        &self.persisters[index]
    }

    pub fn infra(&self) -> &Infra {
        &self.infra
    }

    pub fn infra_mut(&mut self) -> &mut Infra {
        &mut self.infra
    }

    pub fn nats(&self) -> &Nats {
        self.infra.nats()
    }

    pub fn redis(&self) -> &Redis {
        self.infra.redis()
    }

    pub fn kafka(&self) -> &Kafka {
        self.infra.kafka()
    }

    pub fn mariadb(&self) -> &MariaDb {
        self.infra.mariadb()
    }

    pub fn mysql_ro_url(&self) -> String {
        self.infra.mariadb().reader_url()
    }

    pub fn operator_key(&self) -> &str {
        &self.operator_key
    }

    /// The server API of gateway 0 with the operator key.
    pub async fn operator_post(&self, path: &str, body: serde_json::Value) -> Result<serde_json::Value> {
        http::post(&self.gateway(0).api_address(), path, &self.operator_key, &body).await
    }

    /// The server API of gateway 0 with a tenant's key.
    pub async fn api_post(
        &self,
        key: &str,
        path: &str,
        body: serde_json::Value,
    ) -> Result<serde_json::Value> {
        http::post(&self.gateway(0).api_address(), path, key, &body).await
    }

    /// Makes a tenant and gives its server API key.
    pub async fn tenant(&self, tenant: &str) -> Result<String> {
        self.operator_post("/v1/tenants", json!({ "tenant": tenant })).await?;
        let answer =
            self.operator_post(&format!("/v1/tenants/{tenant}/keys"), json!({ "name": "dev" })).await?;
        Ok(answer["key"].as_str().context("the answer holds no key")?.to_owned())
    }

    /// A client token for a user, good for a day.
    pub async fn token(&self, key: &str, user: &str) -> Result<String> {
        let answer = self.api_post(key, "/v1/tokens", json!({ "user": user, "ttl_s": 86_400 })).await?;
        Ok(answer["token"].as_str().context("the answer holds no token")?.to_owned())
    }

    /// All that another program needs to use, stop or restart this cluster.
    pub fn state(&self) -> State {
        let node = |service: &Service| NodeEndpoint {
            node: service.node().to_owned(),
            admin_address: service.admin_address(),
        };
        let endpoints = Endpoints {
            gateways: self
                .gateways
                .iter()
                .map(|gateway| GatewayEndpoint {
                    node: gateway.node().to_owned(),
                    client_url: gateway.client_url(),
                    client_address: gateway.client_address(),
                    api_address: gateway.api_address(),
                    admin_address: gateway.admin_address(),
                })
                .collect(),
            routers: self.routers.iter().map(node).collect(),
            persisters: self.persisters.iter().map(node).collect(),
            nats_url: self.nats().url(),
            redis_url: self.redis().url(),
            kafka_brokers: self.kafka().brokers(),
            mysql_url: self.mariadb().url(),
            mysql_ro_url: self.mysql_ro_url(),
            operator_key_file: self.operator_key_file.clone(),
            jwt_secret_file: self.jwt_secret_file.clone(),
        };
        let servers = [&**self.kafka(), &**self.nats(), &**self.redis(), &**self.mariadb()];
        let processes = self.services().map(|s| s.record()).chain(servers.map(|s| s.record())).collect();
        State {
            profile: self.profile.clone(),
            folder: self.infra.folder().to_path_buf(),
            endpoints,
            processes,
        }
    }
}
