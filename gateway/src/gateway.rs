//! What all parts of this gateway share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use lapwing_gateway_core::{cursors::Cursors, stall::Stall};
use lapwing_links::nats::Nats;
use lapwing_model::{Code, ConversationKey, PartitionId, Refusal};
use lapwing_proto::record::AuditRecord;
use lapwing_runtime::{
    Health, Tasks,
    queue::{Budget, Sender},
};
use lapwing_views::Views;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    attach::Interest, auth::Auth, config::Config, hub::Hub, limits::Limits, nodes::Nodes, owners::Routers,
    presence::Sessions, rate::Share, session::Session, tenants::Tenants,
};

pub struct Gateway {
    pub node: Arc<str>,
    /// Of this process; a later one has a greater one.
    pub incarnation: u64,
    pub config: Config,
    pub limits: Limits,
    pub tasks: Tasks,
    pub health: Health,
    pub nats: Nats,
    pub routers: Routers,
    pub views: Views,
    pub hub: Hub,
    pub sessions: Sessions,
    pub auth: Auth,
    pub tenants: Tenants,
    pub interest: Interest,
    pub nodes: Nodes,
    pub share: Share,
    pub cursors: Mutex<Cursors>,
    pub audit: Sender<AuditRecord>,
    /// Bytes of publishes that wait for their owners.
    pub inbound: Arc<Budget>,
    /// Catch-ups that read at the same time.
    pub fetches: Semaphore,
    /// Questions to the persisters at the same time.
    pub deep: Semaphore,
    pub draining: AtomicBool,
    pub stall: Stall,
}

impl Gateway {
    pub fn partition(&self, key: &ConversationKey) -> Result<PartitionId, Refusal> {
        PartitionId::of(key, self.config.partitions).ok_or_else(|| {
            Refusal::new(Code::NotFound, format!("there is no conversation {}", key.conversation))
        })
    }

    pub fn health_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// One request of the user's rate.
    pub fn take_request(&self, session: &Session) -> Result<(), Refusal> {
        let Some(rate) = self.limits.user else { return Ok(()) };
        session.rate.lock().take(rate, Instant::now()).map_err(|wait| {
            let what = format!("user {} sends more than {} requests a second", session.user, rate.per_second);
            crate::rate::limited(what, wait)
        })
    }
}
