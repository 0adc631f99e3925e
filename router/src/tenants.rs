//! Tenants: a fold of `lapwing.tenants` in every router; written by one, compare-and-set by generation, read back first.

use std::{collections::HashMap, sync::Arc, time::Duration};

use lapwing_links::kafka::{PartitionReader, ReadError};
use lapwing_model::{Code, Refusal, ids};
use lapwing_proto::{
    Message as _,
    bus::{self, NotOwner, RouterReply, TenantState, router_reply, router_request::Body, tenant_change},
    record::TenantRecord,
};
use lapwing_runtime::{OnError, throttle::Throttle};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{admit, answer::To, router::Router};

const TOPIC: &str = "lapwing.tenants";

#[derive(Default)]
struct Folded {
    /// (generation, record); the generation is the offset behind the tenant's last valid record.
    tenants: HashMap<String, (u64, TenantRecord)>,
    next: u64,
    /// Read once up to where the log ended at the start. Before that, a tenant that is missing here may exist.
    whole: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Handle {
    folded: Arc<Mutex<Folded>>,
    moved: Arc<Notify>,
    writing: Arc<tokio::sync::Mutex<()>>,
}

pub(crate) struct Stage {
    handle: Handle,
}

pub(crate) fn open() -> (Handle, Stage) {
    let handle = Handle::default();
    (handle.clone(), Stage { handle })
}

impl Handle {
    pub(crate) fn generation(&self) -> u64 {
        self.folded.lock().next
    }

    fn get(&self, tenant: &str) -> TenantState {
        let folded = self.folded.lock();
        let as_of = folded.next;
        match folded.tenants.get(tenant) {
            Some((generation, record)) => {
                TenantState { found: true, generation: *generation, record: Some(record.clone()), as_of }
            }
            None => TenantState { as_of, ..TenantState::default() },
        }
    }

    pub(crate) fn request(&self, router: &Arc<Router>, body: Body, to: Option<To>) {
        if !self.folded.lock().whole {
            // Another router may know; until one does, nobody is told that his tenant does not exist.
            return router.answers.send(to, &lapwing_router_core::requests::not_owner(50));
        }
        match body {
            Body::TenantGet(ask) => {
                let state = self.get(&ask.tenant);
                router.answers.send(to, &RouterReply { body: Some(router_reply::Body::Tenant(state)) });
            }
            Body::TenantList(_) => {
                let folded = self.folded.lock();
                let mut records: Vec<_> = folded.tenants.values().map(|(_, record)| record.clone()).collect();
                drop(folded);
                records.sort_unstable_by(|a, b| a.tenant.cmp(&b.tenant));
                let body = router_reply::Body::Tenants(bus::Tenants { records });
                router.answers.send(to, &RouterReply { body: Some(body) });
            }
            Body::TenantChange(change) => {
                let (handle, router) = (self.clone(), router.clone());
                let tasks = router.context.tasks.clone();
                tasks.spawn("tenant change", OnError::Log, async move {
                    match handle.change(&router, change).await {
                        Ok(body) => router.answers.send(to, &RouterReply { body: Some(body) }),
                        Err(refusal) => admit::refuse(&router, to, &refusal, ""),
                    }
                });
            }
            _ => {}
        }
    }

    async fn change(
        &self,
        router: &Router,
        change: bus::TenantChange,
    ) -> Result<router_reply::Body, Refusal> {
        ids::check_id("tenant", &change.tenant)
            .map_err(|error| Refusal::new(Code::Invalid, error.to_string()))?;
        match router.ownership.owner_of_tenants() {
            Some(owner) if owner == router.node() => {}
            owner => {
                let owner = owner.unwrap_or_default();
                return Ok(router_reply::Body::NotOwner(NotOwner { owner, retry_after_ms: 50 }));
            }
        }
        let _one = self.writing.lock().await;
        let current = self.get(&change.tenant);
        let Some(record) = changed(&current, change)? else {
            return Ok(router_reply::Body::Tenant(current));
        };
        let tenant = record.tenant.clone();
        let not_ready = |error: String| Refusal::new(Code::NotReady, format!("tenant {tenant}: {error}"));
        let offset = router
            .producer
            .send(TOPIC, 0, tenant.as_bytes(), &[], &record.encode_to_vec())
            .map_err(|error| not_ready(error.to_string()))?
            .await
            .map_err(|error| not_ready(error.to_string()))?;
        self.read_back(offset as u64).await.map_err(not_ready)?;
        let state = self.get(&tenant);
        if state.generation != offset as u64 + 1 {
            return Err(Refusal::new(
                Code::NotReady,
                format!("tenant {tenant} was changed meanwhile; try again"),
            ));
        }
        Ok(router_reply::Body::Tenant(state))
    }

    async fn read_back(&self, offset: u64) -> Result<(), String> {
        let reached = async {
            loop {
                let moved = self.moved.notified();
                if self.folded.lock().next > offset {
                    return;
                }
                moved.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), reached)
            .await
            .map_err(|_| "the change was not read back in time".to_owned())
    }
}

/// The next record; None: nothing changes.
fn changed(current: &TenantState, change: bus::TenantChange) -> Result<Option<TenantRecord>, Refusal> {
    let missing = || Refusal::new(Code::NotFound, format!("no tenant {}", change.tenant));
    let mut record = match (&change.body, &current.record) {
        (Some(tenant_change::Body::Create(_)), None) => {
            TenantRecord { tenant: change.tenant.clone(), ..TenantRecord::default() }
        }
        (_, Some(record)) => record.clone(),
        (_, None) => return Err(missing()),
    };
    record.expected = current.generation;
    match change.body {
        Some(tenant_change::Body::Create(_)) if current.found => return Ok(None),
        Some(tenant_change::Body::Create(_)) => {}
        Some(tenant_change::Body::AddKey(key)) => {
            ids::check_id("key name", &key.name)
                .map_err(|error| Refusal::new(Code::Invalid, error.to_string()))?;
            record.keys.retain(|known| known.name != key.name);
            record.keys.push(key);
        }
        Some(tenant_change::Body::RemoveKey(name)) => record.keys.retain(|known| known.name != name),
        Some(tenant_change::Body::Suspend(suspended)) => record.suspended = suspended,
        Some(tenant_change::Body::Tiers(tiers)) => {
            record.realtime_members = tiers.realtime_members;
            record.broadcast_members = tiers.broadcast_members;
        }
        None => return Err(Refusal::new(Code::Invalid, "a tenant change without its body")),
    }
    Ok(Some(record))
}

impl Stage {
    pub(crate) async fn run(self, router: Arc<Router>) {
        let mut reader = PartitionReader::open(&router.kafka, TOPIC, 0, 0);
        let (stopping, quiet) = (router.context.stopping(), Throttle::every_ms(5000));
        let mut end = None;
        loop {
            let read = async {
                if end.is_none() {
                    end = Some(reader.latest().await?);
                    if end == Some(0) {
                        return Ok(Vec::new());
                    }
                }
                Ok::<_, ReadError>(reader.next(Duration::from_secs(1), 1 << 20).await?.records)
            };
            let read = tokio::select! {
                () = stopping.cancelled() => return,
                read = read => read,
            };
            match read {
                Ok(records) => {
                    for raw in records {
                        self.fold(raw.offset as u64, raw.value.as_deref());
                    }
                    if end.is_some_and(|end| reader.position() >= end) {
                        self.handle.folded.lock().whole = true;
                    }
                }
                Err(error) => {
                    if let Some(more) = quiet.pass() {
                        tracing::warn!(%error, more, "cannot read {TOPIC}");
                    }
                }
            }
        }
    }

    fn fold(&self, offset: u64, value: Option<&[u8]>) {
        let mut folded = self.handle.folded.lock();
        folded.next = offset + 1;
        if let Some(Ok(record)) = value.map(TenantRecord::decode) {
            let known = folded.tenants.get(&record.tenant).map_or(0, |(generation, _)| *generation);
            // Behind a compaction the first record seen of a tenant stands for those that are gone.
            if record.expected == known || known == 0 {
                folded.tenants.insert(record.tenant.clone(), (offset + 1, record));
            } else {
                tracing::error!(
                    tenant = record.tenant,
                    offset,
                    "a tenant record is void: it was written on an old state"
                );
            }
        } else {
            tracing::error!(offset, "an unreadable tenant record is left out");
        }
        drop(folded);
        self.handle.moved.notify_waiters();
    }
}
