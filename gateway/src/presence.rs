//! Which sessions are here; a device that connects anywhere takes its session over (R-GW-2); dead and slow ones are
//! found actively (R-GW-1); openings and closings are written down (audit).

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use lapwing_gateway_core::rate::{Rate, TokenBucket};
use lapwing_model::{Code, Refusal};
use lapwing_proto::{
    Message as _,
    bus::{Audit, SessionOpened, router_request},
    record::AuditRecord,
};
use lapwing_runtime::{
    OnError,
    metrics::CONNECTIONS_ACTIVE,
    queue::Receiver,
    time::{mono_ms, now_ms},
};
use parking_lot::{Mutex, RwLock};

use crate::{attach, close::Close, gateway::Gateway, session::Session};

pub const OPENED: &str = "lw.g.session";

type UserKey = (Arc<str>, Arc<str>);

struct User {
    sessions: Vec<Arc<Session>>,
    rate: Arc<Mutex<TokenBucket>>,
}

#[derive(Default)]
pub struct Sessions {
    ids: AtomicU64,
    by_id: RwLock<HashMap<u64, Arc<Session>>>,
    users: RwLock<HashMap<UserKey, User>>,
}

impl Sessions {
    pub fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn count(&self) -> usize {
        self.by_id.read().len()
    }

    pub fn by_id(&self, id: u64) -> Option<Arc<Session>> {
        self.by_id.read().get(&id).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Session>> {
        self.by_id.read().values().cloned().collect()
    }

    pub fn of_user(&self, tenant: &Arc<str>, user: &str) -> Vec<Arc<Session>> {
        let key = (tenant.clone(), Arc::from(user));
        self.users.read().get(&key).map(|user| user.sessions.clone()).unwrap_or_default()
    }

    /// The user's rate, shared by its sessions here.
    pub fn rate_of(&self, tenant: &Arc<str>, user: &Arc<str>, rate: Option<Rate>) -> Arc<Mutex<TokenBucket>> {
        let users = self.users.read();
        match users.get(&(tenant.clone(), user.clone())) {
            Some(user) => user.rate.clone(),
            None => {
                let rate = rate.unwrap_or(Rate { per_second: 1.0, burst: 1.0 });
                Arc::new(Mutex::new(TokenBucket::full(rate, Instant::now())))
            }
        }
    }

    /// Takes a session in; returns those of the same device, which it replaces.
    pub fn register(&self, session: &Arc<Session>, max: usize) -> Result<Vec<Arc<Session>>, Refusal> {
        let mut users = self.users.write();
        let key = (session.tenant.clone(), session.user.clone());
        let user =
            users.entry(key).or_insert_with(|| User { sessions: Vec::new(), rate: session.rate.clone() });
        let (replaced, kept): (Vec<_>, Vec<_>) =
            user.sessions.drain(..).partition(|other| other.device == session.device);
        user.sessions = kept;
        if user.sessions.len() >= max {
            user.sessions.extend(replaced);
            let what = format!("user {} has {max} connections here already", session.user);
            return Err(Refusal::new(Code::RateLimited, what).retry_after(3000));
        }
        user.sessions.push(session.clone());
        drop(users);
        self.by_id.write().insert(session.id, session.clone());
        metrics::gauge!(CONNECTIONS_ACTIVE).set(self.count() as f64);
        Ok(replaced)
    }

    pub fn remove(&self, session: &Session) {
        let key = (session.tenant.clone(), session.user.clone());
        let mut users = self.users.write();
        if let Some(user) = users.get_mut(&key) {
            user.sessions.retain(|other| other.id != session.id);
            if user.sessions.is_empty() {
                users.remove(&key);
            }
        }
        drop(users);
        self.by_id.write().remove(&session.id);
        metrics::gauge!(CONNECTIONS_ACTIVE).set(self.count() as f64);
    }
}

/// Tells all nodes, twice: a message on the bus may get lost.
pub fn announce(gateway: &Arc<Gateway>, session: &Session) {
    let opened = SessionOpened {
        node: gateway.node.to_string(),
        tenant: session.tenant.to_string(),
        user: session.user.to_string(),
        device: session.device.to_string(),
        session: session.name.clone(),
        opened_at_ms: session.opened_at_ms,
    };
    let payload = Bytes::from(opened.encode_to_vec());
    let gateway = gateway.clone();
    let tasks = gateway.tasks.clone();
    tasks.spawn("announce session", OnError::Log, async move {
        for pause in [Duration::ZERO, Duration::from_secs(1)] {
            tokio::time::sleep(pause).await;
            if let Err(error) = gateway.nats.publish(OPENED, &[], payload.clone()).await {
                tracing::debug!("a new session was not announced: {error}");
            }
        }
    });
}

/// Another node has opened a session for a device: the one here, if it is older, ends.
pub fn handle_opened(gateway: &Gateway, opened: &SessionOpened) {
    if *opened.node == *gateway.node {
        return;
    }
    let tenant = Arc::from(opened.tenant.as_str());
    for session in gateway.sessions.of_user(&tenant, &opened.user) {
        let older =
            (session.opened_at_ms, session.name.as_str()) < (opened.opened_at_ms, opened.session.as_str());
        if *session.device == *opened.device && older {
            session.close(Close::SessionReplaced);
        }
    }
}

/// A session's end, whatever the reason: called once, by its connection.
pub fn ended(gateway: &Arc<Gateway>, session: &Arc<Session>) {
    gateway.sessions.remove(session);
    attach::leave_all(gateway, session);
    let close = session.out.closing().unwrap_or(Close::Lost);
    metrics::counter!("lapwing_gateway_closed_total", "reason" => close.label()).increment(1);
    audit(gateway, session, Some(close));
}

pub fn audit(gateway: &Gateway, session: &Session, closed: Option<Close>) {
    let record = AuditRecord {
        session: session.name.clone(),
        tenant: session.tenant.to_string(),
        user: session.user.to_string(),
        device: session.device.to_string(),
        node: gateway.node.to_string(),
        remote: session.remote.clone(),
        opened_at_ms: session.opened_at_ms,
        closed_at_ms: closed.map_or(0, |_| now_ms()),
        close_code: closed.map_or(0, |close| u32::from(close.code())),
    };
    if gateway.audit.try_push(record, 300).is_err() {
        gateway.audit.count_drop();
    }
}

/// Hands the audit records to the routers, one after the other.
pub async fn write_audit(gateway: Arc<Gateway>, mut records: Receiver<AuditRecord>) {
    let stop = gateway.tasks.stopping();
    loop {
        let record = tokio::select! {
            record = records.pop() => record,
            () = stop.cancelled() => records.try_pop(),
        };
        let Some(record) = record else { return };
        let session = record.session.clone();
        let body = router_request::Body::Audit(Audit { record: Some(record) });
        let within = if stop.is_cancelled() { Duration::from_millis(300) } else { Duration::from_secs(10) };
        if let Err(refusal) = gateway.routers.ask_any(body, "", within).await {
            tracing::warn!(session, "an audit record was not taken: {refusal}");
        }
    }
}

/// Each second: dead, expired and too slow sessions.
pub async fn sweep(gateway: Arc<Gateway>) {
    let stop = gateway.tasks.stopping();
    let dead_after = 2 * gateway.limits.heartbeat.as_millis() as u64 + 1000;
    let slow_after = gateway.limits.slow_reader.as_millis() as u64;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(1).min(gateway.limits.heartbeat)) => {}
        }
        let (now, wall) = (mono_ms(), now_ms() / 1000);
        for session in gateway.sessions.all() {
            let writing = session.out.writing_since.load(Ordering::Relaxed);
            if now.saturating_sub(session.last_heard.load(Ordering::Relaxed)) > dead_after {
                session.close(Close::HeartbeatLost);
            } else if writing != 0 && now.saturating_sub(writing) > slow_after {
                session.close(Close::SlowConsumer);
            } else if session.expires_at.load(Ordering::Relaxed) <= wall {
                session.close(Close::Unauthenticated);
            }
        }
    }
}
