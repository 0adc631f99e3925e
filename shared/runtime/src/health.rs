//! What a process knows about its own fitness: named checks, some needed for readiness, some only shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::Serialize;

use crate::metrics::HEALTH;
use crate::time::{mono_ms, now_ms};

/// Clones are the same registry.
#[derive(Clone, Default)]
pub struct Health {
    inner: Arc<RwLock<Inner>>,
}

#[derive(Default)]
struct Inner {
    checks: BTreeMap<String, Check>,
    draining: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct Check {
    pub ok: bool,
    /// Empty when well; otherwise what is wrong, naming instance and setting.
    pub text: String,
    /// Whether the process is ready only while this is well.
    pub needed: bool,
    /// When it last turned well or unwell, milliseconds since 1970.
    pub since_ms: u64,
    #[serde(skip)]
    since_mono: u64,
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub ready: bool,
    pub draining: bool,
    pub checks: BTreeMap<String, Check>,
}

const NOT_YET: &str = "not checked yet";

impl Health {
    pub fn new() -> Self {
        Self::default()
    }

    /// Announces a check: the process is not ready until [`Health::set`] has said `Ok` for it.
    pub fn require(&self, name: &str) {
        self.put(name, Err(NOT_YET.to_owned()), true);
    }

    /// Sets a check that readiness depends on.
    pub fn set(&self, name: &str, state: Result<(), String>) {
        self.put(name, state, true);
    }

    /// Sets a check that is shown in `/healthz` and metrics only: the loss of one instance must not turn all gateways un-ready
    /// at once (R-SEQ-8).
    pub fn show(&self, name: &str, state: Result<(), String>) {
        self.put(name, state, false);
    }

    /// A dependency that is gone for good (a released partition, a removed instance).
    pub fn forget(&self, name: &str) {
        self.inner.write().checks.remove(name);
    }

    /// From now on not ready, whatever the checks say: the graceful stop has begun.
    pub fn drain(&self) {
        self.inner.write().draining = true;
    }

    /// `Err` names everything that keeps the process from being ready.
    pub fn ready(&self) -> Result<(), String> {
        let inner = self.inner.read();
        let mut reasons: Vec<String> = inner
            .checks
            .iter()
            .filter(|(_, check)| check.needed && !check.ok)
            .map(|(name, check)| format!("{name}: {}", check.text))
            .collect();
        if inner.draining {
            reasons.insert(0, "draining".to_owned());
        }
        if reasons.is_empty() { Ok(()) } else { Err(reasons.join("; ")) }
    }

    pub fn is_ok(&self, name: &str) -> bool {
        self.inner.read().checks.get(name).is_some_and(|check| check.ok)
    }

    pub fn report(&self) -> Report {
        let ready = self.ready().is_ok();
        let inner = self.inner.read();
        Report { ready, draining: inner.draining, checks: inner.checks.clone() }
    }

    fn put(&self, name: &str, state: Result<(), String>, needed: bool) {
        let (ok, text) = match state {
            Ok(()) => (true, String::new()),
            Err(text) => (false, text),
        };
        let mut inner = self.inner.write();
        let old = inner.checks.get(name);
        if let Some(old) = old
            && old.ok == ok
            && old.text == text
            && old.needed == needed
        {
            return;
        }
        let turned = old.is_none_or(|old| old.ok != ok);
        let (since_ms, since_mono) = match old {
            Some(old) if !turned => (old.since_ms, old.since_mono),
            _ => (now_ms(), mono_ms()),
        };
        let lasted_ms = old.filter(|old| !old.ok).map(|old| mono_ms().saturating_sub(old.since_mono));
        inner.checks.insert(name.to_owned(), Check { ok, text: text.clone(), needed, since_ms, since_mono });
        drop(inner);
        if turned {
            metrics::gauge!(HEALTH, "check" => name.to_owned()).set(f64::from(u8::from(ok)));
            match lasted_ms {
                Some(lasted_ms) if ok => tracing::info!(check = name, lasted_ms, "well again"),
                _ if ok => tracing::info!(check = name, "well"),
                // Not a finding: nothing was looked at yet.
                _ if text == NOT_YET => tracing::debug!(check = name, needed, "{text}"),
                _ => tracing::warn!(check = name, needed, "unwell: {text}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-SEQ-8, R-GW-6
    #[test]
    fn readiness_waits_for_every_needed_check_and_names_the_missing() {
        let health = Health::new();
        health.require("nats");
        health.set("redis r0", Ok(()));
        health.show("redis r1", Err("127.0.0.1:6380: connection refused".to_owned()));
        assert_eq!(health.ready(), Err("nats: not checked yet".to_owned()));
        health.set("nats", Ok(()));
        assert_eq!(health.ready(), Ok(()), "a shown check never decides");
        health.set("redis r0", Err("r0: maxmemory-policy is allkeys-lru, must be noeviction".to_owned()));
        assert!(health.ready().unwrap_err().contains("maxmemory-policy"));
        health.forget("redis r0");
        health.drain();
        assert_eq!(health.ready(), Err("draining".to_owned()));
        let report = serde_json::to_value(health.report()).unwrap();
        assert_eq!(report["checks"]["redis r1"]["ok"], false);
        assert_eq!(report["ready"], false);
    }
}
