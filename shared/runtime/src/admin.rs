//! The admin address: probes, metrics and the operators' API, answered by a thread and runtime of their own, so that they
//! answer while the data plane is busy (R-GW-6).

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::Health;
use crate::config::Secret;

mod serve;
mod watch;

pub(crate) use serve::{Running, start};

/// What an admin handler gets.
#[derive(Debug, Clone)]
pub struct AdminRequest {
    pub method: String,
    pub path: String,
    /// Decoded query parameters.
    pub query: HashMap<String, String>,
    pub body: Bytes,
}

impl AdminRequest {
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// A parameter that must be there.
    pub fn wanted(&self, name: &str) -> Result<&str, AdminError> {
        self.query(name).ok_or_else(|| AdminError::invalid(format!("parameter `{name}` is missing")))
    }

    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, AdminError> {
        serde_json::from_slice(&self.body).map_err(|error| AdminError::invalid(format!("body: {error}")))
    }
}

/// An error of the admin API: `{"error": {"name", "message", "trace_id"}}` with this status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct AdminError {
    pub status: u16,
    pub name: &'static str,
    pub message: String,
}

impl AdminError {
    pub fn new(status: u16, name: &'static str, message: impl Into<String>) -> Self {
        Self { status, name, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid", message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "not_found", message)
    }
}

impl From<anyhow::Error> for AdminError {
    fn from(error: anyhow::Error) -> Self {
        Self::new(500, "internal", format!("{error:#}"))
    }
}

pub type AdminResult = Result<Value, AdminError>;
type Handler = Arc<dyn Fn(AdminRequest) -> Pin<Box<dyn Future<Output = AdminResult> + Send>> + Send + Sync>;

#[derive(Clone)]
struct Route {
    handler: Handler,
}

/// The routes of this process. Handlers run on the service's runtime, with up to 30 s; one that takes longer goes on unheard.
#[derive(Clone)]
pub struct Admin {
    inner: Arc<Inner>,
}

struct Inner {
    service: &'static str,
    node: String,
    addr: SocketAddr,
    operator_key: Option<Secret>,
    health: Health,
    routes: RwLock<HashMap<(String, String), Route>>,
    handlers: tokio::runtime::Handle,
}

const HANDLER_TIMEOUT: Duration = Duration::from_secs(30);

impl Admin {
    /// Adds `method path`, guarded by the operator key (`Authorization: Bearer <key>`), answering JSON.
    pub fn route<F, Fut>(&self, method: &str, path: &str, handler: F)
    where
        F: Fn(AdminRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = AdminResult> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |request| Box::pin(handler(request)));
        self.inner.routes.write().insert((method.to_owned(), path.to_owned()), Route { handler });
    }

    /// Where this process listens; the real port when `:0` was asked for.
    pub fn addr(&self) -> SocketAddr {
        self.inner.addr
    }

    pub(crate) fn health(&self) -> Health {
        self.inner.health.clone()
    }

    fn healthz(&self) -> Value {
        let report = self.inner.health.report();
        let status = if report.checks.values().all(|check| check.ok) { "ok" } else { "degraded" };
        json!({
            "service": self.inner.service,
            "node": self.inner.node,
            "version": env!("CARGO_PKG_VERSION"),
            "status": status,
            "ready": report.ready,
            "draining": report.draining,
            "checks": report.checks,
            "queues": crate::queue::report(),
        })
    }
}
