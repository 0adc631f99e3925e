//! Tenants' state from a cache (R-PERM-5): a minute's life, one refresh in flight however many wait, invalidated by the
//! routers' heartbeats, never overwritten by an older read, and usable for ten minutes when nobody answers.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_model::{Code, Refusal};
use lapwing_proto::bus::{TenantGet, TenantState, router_reply, router_request};
use lapwing_runtime::{OnError, metrics::CACHE_TOTAL, telemetry};
use parking_lot::Mutex;

use crate::{close::Close, gateway::Gateway, session::Session};

const STALE_USABLE: Duration = Duration::from_secs(600);
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
const CAPACITY: usize = 10_000;
const SUSPENDED: &str = "tenant_suspended";

#[derive(Default)]
pub struct Tenants {
    entries: Mutex<HashMap<Arc<str>, Arc<Entry>>>,
}

#[derive(Default)]
struct Entry {
    known: Mutex<Option<Known>>,
    refreshing: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Known {
    state: Arc<TenantState>,
    at: Instant,
}

impl Known {
    fn is_fresh(&self, generation: u64, life: Duration) -> bool {
        self.state.as_of >= generation && self.at.elapsed() < life
    }
}

impl Tenants {
    fn entry(&self, tenant: &str) -> Arc<Entry> {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(tenant) {
            return entry.clone();
        }
        if entries.len() >= CAPACITY {
            // Names that do not exist must not push out those that do.
            entries.retain(|_, entry| entry.known.lock().as_ref().is_some_and(|known| known.state.found));
        }
        entries.entry(Arc::from(tenant)).or_default().clone()
    }

    /// What was changed here is seen here at once, although another router would not know it yet.
    pub fn changed(&self, tenant: &str, state: TenantState) {
        keep(&self.entry(tenant), state);
    }

    pub fn forget(&self, tenant: &str) {
        self.entries.lock().remove(tenant);
    }
}

/// The state of a tenant, from the cache or the routers.
pub async fn get(gateway: &Gateway, tenant: &str) -> Result<Arc<TenantState>, Refusal> {
    let entry = gateway.tenants.entry(tenant);
    let generation = gateway.routers.heard_tenants_generation();
    let life = gateway.limits.tenant_cache;
    let cached = |entry: &Entry| entry.known.lock().clone().filter(|known| known.is_fresh(generation, life));
    if let Some(known) = cached(&entry) {
        metrics::counter!(CACHE_TOTAL, "cache" => "tenants", "result" => "hit").increment(1);
        return Ok(known.state);
    }
    let _one = entry.refreshing.lock().await;
    if let Some(known) = cached(&entry) {
        return Ok(known.state);
    }
    metrics::counter!(CACHE_TOTAL, "cache" => "tenants", "result" => "miss").increment(1);
    match ask(gateway, tenant).await {
        Ok(state) => Ok(keep(&entry, state)),
        Err(refusal) => {
            let stale = entry.known.lock().clone().filter(|known| known.at.elapsed() < STALE_USABLE);
            let Some(known) = stale else { return Err(refusal) };
            metrics::counter!("lapwing_gateway_tenant_stale_total").increment(1);
            tracing::warn!(tenant, "the tenant cannot be refreshed, its last state stays in use: {refusal}");
            Ok(known.state)
        }
    }
}

fn keep(entry: &Entry, state: TenantState) -> Arc<TenantState> {
    let mut known = entry.known.lock();
    if let Some(newer) = known.as_mut().filter(|known| known.state.as_of > state.as_of) {
        // A router that is behind has answered.
        newer.at = Instant::now();
        return newer.state.clone();
    }
    let state = Arc::new(state);
    *known = Some(Known { state: state.clone(), at: Instant::now() });
    state
}

async fn ask(gateway: &Gateway, tenant: &str) -> Result<TenantState, Refusal> {
    let body = router_request::Body::TenantGet(TenantGet { tenant: tenant.to_owned() });
    match gateway.routers.ask_any(body, &telemetry::new_traceparent(), ASK_TIMEOUT).await {
        Ok(router_reply::Body::Tenant(state)) => Ok(state),
        Ok(_) => Err(not_known(tenant, "a router answered with something else")),
        Err(refusal) => Err(not_known(tenant, &refusal.message)),
    }
}

fn not_known(tenant: &str, why: &str) -> Refusal {
    Refusal::new(Code::NotReady, format!("tenant {tenant} cannot be looked up now: {why}")).retry_after(500)
}

/// A tenant whose sessions and requests are served: it exists and is not suspended.
pub async fn serving(gateway: &Gateway, tenant: &str) -> Result<Arc<TenantState>, Refusal> {
    let state = get(gateway, tenant).await?;
    if !state.found {
        return Err(Refusal::new(Code::Unauthenticated, format!("there is no tenant {tenant}")));
    }
    if state.record.as_ref().is_some_and(|record| record.suspended) {
        return Err(Refusal::new(Code::Forbidden, format!("tenant {tenant} is suspended")).cause(SUSPENDED));
    }
    Ok(state)
}

/// The routers have folded a newer tenant record: sessions of a tenant that is suspended now end (within 2 s on all nodes).
pub fn recheck(gateway: &Arc<Gateway>) {
    let owned = gateway.clone();
    gateway.tasks.spawn("recheck tenants", OnError::Log, async move {
        let mut of_tenant: HashMap<Arc<str>, Vec<Arc<Session>>> = HashMap::new();
        for session in owned.sessions.all() {
            of_tenant.entry(session.tenant.clone()).or_default().push(session);
        }
        for (tenant, sessions) in of_tenant {
            let refusal = serving(&owned, &tenant).await.err();
            if refusal.is_some_and(|refusal| refusal.cause == SUSPENDED) {
                sessions.iter().for_each(|session| session.close(Close::TenantSuspended));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(as_of: u64) -> TenantState {
        TenantState { found: true, generation: 3, record: None, as_of }
    }

    // R-PERM-5
    #[test]
    fn an_older_read_never_overwrites_a_newer_one() {
        let entry = Entry::default();
        assert_eq!(keep(&entry, state(7)).as_of, 7);
        assert_eq!(keep(&entry, state(5)).as_of, 7, "a router that is behind");
        assert!(!entry.known.lock().as_ref().unwrap().is_fresh(9, Duration::from_secs(60)), "asked again");
        assert_eq!(keep(&entry, state(9)).as_of, 9);
        let known = entry.known.lock().clone().unwrap();
        assert!(known.is_fresh(9, Duration::from_secs(60)) && !known.is_fresh(9, Duration::ZERO));
    }
}
