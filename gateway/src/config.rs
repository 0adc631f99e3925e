//! All keys of the gateway and their defaults.

use std::net::SocketAddr;

use clap::Parser;
use lapwing_runtime::{Common, Secret};

use crate::limits::LimitKeys;

/// Lapwing's gateway: holds the clients' connections and serves the server API.
#[derive(Debug, Clone, Parser)]
#[command(name = "lapwing-gateway", version)]
pub struct Config {
    #[command(flatten)]
    pub common: Common,

    /// Where clients connect: WebSocket, /v1/nodes, the demo page
    #[arg(long, env = "LAPWING_CLIENT_ADDR", default_value = "127.0.0.1:7100")]
    pub client_addr: SocketAddr,

    /// Where the server API listens
    #[arg(long, env = "LAPWING_API_ADDR", default_value = "127.0.0.1:7110")]
    pub api_addr: SocketAddr,

    /// This node's own address as clients reach it; ws:// + the client address by default
    #[arg(long, env = "LAPWING_PUBLIC_URL")]
    pub public_url: Option<String>,

    #[command(flatten)]
    pub redis: lapwing_views::Settings,

    /// Secret of the clients' tokens (give LAPWING_JWT_SECRET_FILE rather than the secret itself)
    #[arg(long, env = "LAPWING_JWT_SECRET", hide_env_values = true)]
    pub jwt_secret: Secret,

    /// Tenant for which the demo page hands out tokens; none: it does not
    #[arg(long, env = "LAPWING_DEMO_TENANT")]
    pub demo_tenant: Option<String>,

    /// Origins of web pages that may connect beside this host's own, e.g. https://chat.example.com
    #[arg(long, env = "LAPWING_ORIGINS", value_delimiter = ',')]
    pub origins: Vec<String>,

    /// Partitions of each topic: fixed for the life of a cluster
    #[arg(long, env = "LAPWING_PARTITIONS", default_value_t = 8)]
    pub partitions: u32,

    #[command(flatten)]
    pub limits: LimitKeys,
}

impl Config {
    pub fn public_url(&self) -> String {
        self.public_url.clone().unwrap_or_else(|| format!("ws://{}", self.client_addr))
    }
}
