//! Redis: idempotent scripts with a timeout per call over one pipelined connection.
//!
//! Traps closed here: a timeout is told apart (the script may have run); NOSCRIPT reloads; READONLY (a demoted primary) makes a
//! new connection, which the library would not; small writes are not delayed by Nagle; an instance with unsafe settings is named.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::io::tcp::TcpSettings;
use ::redis::{Client, Cmd, ErrorKind, IntoConnectionInfo, ServerErrorKind};
use anyhow::Context;
use lapwing_runtime::metrics::{LINK_EVENTS_TOTAL, rpc};
use lapwing_runtime::throttle::Throttle;
use lapwing_runtime::{Health, OnError, SecretUrl, Tasks};
use parking_lot::RwLock;
use tokio::sync::Semaphore;

mod error;
mod probe;
mod script;
mod watch;

pub use ::redis::{FromRedisValue, Value, from_redis_value};
pub use error::RedisError;
pub use script::Script;

use error::Failed;
use watch::watch;

/// Commands in flight on one instance; more wait for their turn within their timeout.
const IN_FLIGHT: usize = 4096;

/// One instance. Clones are the same connection.
#[derive(Clone)]
pub struct Redis {
    inner: Arc<Inner>,
}

struct Inner {
    instance: String,
    shown: String,
    client: Client,
    connection: RwLock<ConnectionManager>,
    slots: Semaphore,
    up: AtomicBool,
    /// Thousandths of its maxmemory in use, as last heard; 0 when it has no limit.
    filled: AtomicU32,
    renewed: Throttle,
}

impl Redis {
    /// Does not wait for the instance: until it has passed its safety probe the check `redis <instance>` of `health` keeps the
    /// process from being ready; lost later it is only shown there (R-SEQ-8). Call it inside the tokio runtime.
    pub fn connect(instance: &str, url: &SecretUrl, tasks: &Tasks, health: &Health) -> anyhow::Result<Self> {
        let redis = Self::open(instance, url)?;
        health.require(&redis.check());
        tasks.spawn(
            format!("redis {instance} health"),
            OnError::Log,
            watch(redis.clone(), tasks.clone(), health.clone()),
        );
        Ok(redis)
    }

    /// Without a health task, for tools.
    pub fn open(instance: &str, url: &SecretUrl) -> anyhow::Result<Self> {
        let info = url
            .expose()
            .into_connection_info()
            .with_context(|| format!("redis {instance}: {url} is not a redis address"))?
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(info).with_context(|| format!("redis {instance}: {url}"))?;
        let connection = ConnectionManager::new_lazy_with_config(client.clone(), settings())
            .with_context(|| format!("redis {instance}: {url}"))?;
        Ok(Self {
            inner: Arc::new(Inner {
                instance: instance.to_owned(),
                shown: url.to_string(),
                client,
                connection: RwLock::new(connection),
                slots: Semaphore::new(IN_FLIGHT),
                up: AtomicBool::new(false),
                filled: AtomicU32::new(0),
                renewed: Throttle::every_ms(200),
            }),
        })
    }

    pub fn instance(&self) -> &str {
        &self.inner.instance
    }

    /// As far as the last PING told: answering, and with safe settings.
    pub fn is_up(&self) -> bool {
        self.inner.up.load(Ordering::Relaxed)
    }

    /// Which part of its maxmemory is in use, as last heard; 0 when it has no limit.
    pub fn filled(&self) -> f64 {
        f64::from(self.inner.filled.load(Ordering::Relaxed)) / 1000.0
    }

    /// Runs a script. `timeout` counts from the call, waiting for a place included.
    pub async fn eval<K: AsRef<[u8]>, A: AsRef<[u8]>>(
        &self,
        script: &Script,
        keys: &[K],
        args: &[A],
        timeout: Duration,
    ) -> Result<Value, RedisError> {
        let deadline = tokio::time::Instant::now() + timeout;
        match self.run(script.name(), script.by_hash(keys, args), deadline, timeout).await {
            Err(Failed::NoScript) => {
                // A restart or SCRIPT FLUSH emptied the cache; the full text runs it and fills the cache again.
                metrics::counter!(LINK_EVENTS_TOTAL, "link" => "redis", "event" => "script_loaded")
                    .increment(1);
                self.run(script.name(), script.in_full(keys, args), deadline, timeout).await
            }
            other => other,
        }
        .map_err(|failed| failed.into_error(self, script.name()))
    }

    /// Runs one plain command, given as its words: `command("get", &["GET", "key"], timeout)`.
    pub async fn command<W: AsRef<[u8]>>(
        &self,
        name: &'static str,
        words: &[W],
        timeout: Duration,
    ) -> Result<Value, RedisError> {
        let deadline = tokio::time::Instant::now() + timeout;
        let mut command = Cmd::new();
        for word in words {
            command.arg(word.as_ref());
        }
        self.run(name, command, deadline, timeout).await.map_err(|failed| failed.into_error(self, name))
    }

    /// The safety probe of R-SEQ-8; `Err` names the instance and every setting that is wrong.
    pub async fn probe(&self) -> Result<(), String> {
        probe::run(self).await
    }

    async fn run(
        &self,
        name: &'static str,
        command: Cmd,
        deadline: tokio::time::Instant,
        timeout: Duration,
    ) -> Result<Value, Failed> {
        let timer = rpc(name);
        let inner = &self.inner;
        let after_ms = timeout.as_millis() as u64;
        let Ok(Ok(_slot)) = tokio::time::timeout_at(deadline, inner.slots.acquire()).await else {
            timer.done("busy");
            let text = format!("{IN_FLIGHT} commands are in flight, not sent within {after_ms} ms");
            return Err(RedisError::Busy { instance: inner.instance.clone(), text }.into());
        };
        let mut connection = inner.connection.read().clone();
        let result = match tokio::time::timeout_at(deadline, connection.send_packed_command(&command)).await {
            Ok(Ok(Value::ServerError(error))) => Err(self.failed(&error.into(), name)),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.failed(&error, name)),
            Err(_) => Err(RedisError::Timeout { instance: inner.instance.clone(), after_ms }.into()),
        };
        timer.done(result.as_ref().map_or_else(Failed::result, |_| "ok"));
        result
    }

    fn failed(&self, error: &::redis::RedisError, name: &'static str) -> Failed {
        let instance = self.inner.instance.clone();
        let text = error.to_string();
        let busy =
            matches!(error.code(), Some("OOM" | "LOADING" | "BUSY" | "MASTERDOWN" | "MISCONF" | "TRYAGAIN"));
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoScript) => Failed::NoScript,
            ErrorKind::Server(ServerErrorKind::ReadOnly) => {
                self.renew("read_only");
                RedisError::ReadOnly { instance }.into()
            }
            // Inside a script the code is not the first word of the error.
            _ if text.contains("READONLY") => {
                self.renew("read_only");
                RedisError::ReadOnly { instance }.into()
            }
            _ if error.is_timeout() => RedisError::Down { instance, text }.into(),
            ErrorKind::Io | ErrorKind::AuthenticationFailed => RedisError::Down { instance, text }.into(),
            _ if busy || text.contains("OOM command not allowed") => {
                RedisError::Busy { instance, text }.into()
            }
            _ => RedisError::Script { instance, name, text }.into(),
        }
    }

    /// Leaves the connection to whoever still waits on it and makes a new one, at most five times a second.
    fn renew(&self, why: &'static str) {
        if self.inner.renewed.pass().is_none() {
            return;
        }
        metrics::counter!(LINK_EVENTS_TOTAL, "link" => "redis", "event" => why).increment(1);
        match ConnectionManager::new_lazy_with_config(self.inner.client.clone(), settings()) {
            Ok(fresh) => *self.inner.connection.write() = fresh,
            Err(error) => {
                tracing::error!(instance = self.inner.instance, "cannot make a new connection: {error}")
            }
        }
    }

    fn check(&self) -> String {
        format!("redis {}", self.inner.instance)
    }
}

/// Reconnects fast and without end of its own: each command triggers an attempt, the caller's timeout bounds it.
fn settings() -> ConnectionManagerConfig {
    ConnectionManagerConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(1)))
        .set_response_timeout(None)
        .set_number_of_retries(1)
        .set_min_delay(Duration::from_millis(20))
        .set_max_delay(Duration::from_millis(200))
}
