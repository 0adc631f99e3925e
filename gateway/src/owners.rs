//! The routers as this node hears them, and requests to them: sent again until an owner answers or the time is over.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lapwing_gateway_core::{Owner, Owners};
use lapwing_links::nats::{Nats, RequestError, TRACEPARENT};
use lapwing_model::{Code, PartitionId, Refusal, kind::KINDS};
use lapwing_proto::{
    Message as _,
    bus::{RouterHeartbeat, RouterReply, RouterRequest, router_reply, router_request},
};
use parking_lot::RwLock;
use tokio::sync::watch;

pub const REQUEST_TIMEOUT: Duration = Duration::from_millis(1500);
const STEP: Duration = Duration::from_millis(40);

/// How one try at an owner ended.
pub enum Try {
    Answer(router_reply::Body),
    NotOwner(Duration),
    Unreached,
    TimedOut,
}

pub struct Routers {
    pub nats: Nats,
    pub partitions: u32,
    pub wanted: HashSet<PartitionId>,
    table: RwLock<Owners>,
    changed: watch::Sender<u64>,
}

impl Routers {
    pub fn new(nats: Nats, partitions: u32) -> Self {
        let of_kind =
            |kind: lapwing_model::Kind| (0..partitions).map(move |p| PartitionId::new(kind.topic(), p));
        Self {
            nats,
            partitions,
            wanted: KINDS.into_iter().flat_map(of_kind).collect(),
            table: RwLock::default(),
            changed: watch::channel(0).0,
        }
    }

    pub fn handle_heartbeat(&self, beat: &RouterHeartbeat) -> Vec<PartitionId> {
        let changed = self.table.write().handle_heartbeat(beat, Instant::now());
        self.note(changed)
    }

    pub fn handle_timeout(&self) -> Vec<PartitionId> {
        let changed = self.table.write().handle_timeout(Instant::now());
        self.note(changed)
    }

    /// Counts changes of owners.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn note(&self, changed: Vec<PartitionId>) -> Vec<PartitionId> {
        if !changed.is_empty() {
            self.changed.send_modify(|version| *version += 1);
        }
        changed
    }

    pub fn owner(&self, partition: &PartitionId) -> Option<Owner> {
        self.table.read().owner(partition).cloned()
    }

    pub fn heard_tenants_generation(&self) -> u64 {
        self.table.read().tenants_generation()
    }

    /// Err names the partitions without an owner.
    pub fn all_owned(&self) -> Result<(), String> {
        let table = self.table.read();
        let mut unowned: Vec<String> =
            table.unowned(&self.wanted).into_iter().map(ToString::to_string).collect();
        unowned.sort();
        match unowned.len() {
            0 => Ok(()),
            n if n > 4 => Err(format!("{n} partitions have no owner: {} …", unowned[..4].join(", "))),
            _ => Err(format!("no owner: {}", unowned.join(", "))),
        }
    }

    /// How many partitions have been without an owner for longer than a change of owners takes.
    pub fn left_alone(&self) -> usize {
        self.table.write().left_alone(&self.wanted, Instant::now())
    }

    /// One request to the owner of a partition as it is known now.
    pub async fn try_owner(
        &self,
        partition: &PartitionId,
        body: &router_request::Body,
        traceparent: &str,
        within: Duration,
    ) -> Try {
        match self.owner(partition) {
            Some(owner) => self.try_router(&owner.router, Some(partition), body, traceparent, within).await,
            None => {
                let mut changed = self.changed.subscribe();
                let _ = tokio::time::timeout(within.min(STEP), changed.changed()).await;
                Try::Unreached
            }
        }
    }

    async fn try_router(
        &self,
        router: &str,
        partition: Option<&PartitionId>,
        body: &router_request::Body,
        traceparent: &str,
        within: Duration,
    ) -> Try {
        let request = RouterRequest { partition: partition.map(Into::into), body: Some(body.clone()) };
        let payload = Bytes::from(request.encode_to_vec());
        let headers = [(TRACEPARENT, traceparent)];
        let headers = if traceparent.is_empty() { &[][..] } else { &headers[..] };
        let answer = match self.nats.request(&format!("lw.r.{router}"), headers, payload, within).await {
            Ok(answer) => answer,
            Err(RequestError::TooLarge { size, max }) => {
                let what = format!("a request of {size} bytes is over the bus' limit of {max}");
                return Try::Answer(router_reply::Body::Error(
                    Refusal::new(Code::TooLarge, what).to_wire(""),
                ));
            }
            Err(error) if error.nothing_sent() => return Try::Unreached,
            Err(_) => return Try::TimedOut,
        };
        match RouterReply::decode(answer).ok().and_then(|reply| reply.body) {
            Some(router_reply::Body::NotOwner(not)) => {
                Try::NotOwner(Duration::from_millis(u64::from(not.retry_after_ms).clamp(10, 500)))
            }
            Some(body) => Try::Answer(body),
            // Somebody got it and said something that we cannot read: nobody knows.
            None => Try::TimedOut,
        }
    }

    /// Asks the owner until it answers, `within` in all. For requests that may be repeated.
    pub async fn ask_owner(
        &self,
        partition: &PartitionId,
        body: router_request::Body,
        traceparent: &str,
        within: Duration,
    ) -> Result<router_reply::Body, Refusal> {
        let deadline = Instant::now() + within;
        let mut handed_over = false;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(given_up(partition, handed_over));
            }
            let wait = match self.try_owner(partition, &body, traceparent, left.min(REQUEST_TIMEOUT)).await {
                Try::Answer(router_reply::Body::Error(error)) => return Err(Refusal::from_wire(&error)),
                Try::Answer(answer) => return Ok(answer),
                Try::NotOwner(after) => after,
                Try::Unreached => STEP,
                Try::TimedOut => {
                    handed_over = true;
                    Duration::ZERO
                }
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let mut changed = self.changed.subscribe();
            let _ = tokio::time::timeout(wait.min(left), changed.changed()).await;
        }
    }

    /// Asks any router, the best informed one first.
    pub async fn ask_any(
        &self,
        body: router_request::Body,
        traceparent: &str,
        within: Duration,
    ) -> Result<router_reply::Body, Refusal> {
        let deadline = Instant::now() + within;
        let mut handed_over = false;
        loop {
            let routers: Vec<Arc<str>> = self.table.read().any();
            for router in &routers {
                let left = deadline.saturating_duration_since(Instant::now());
                match self.try_router(router, None, &body, traceparent, left.min(REQUEST_TIMEOUT)).await {
                    Try::Answer(router_reply::Body::Error(error)) => return Err(Refusal::from_wire(&error)),
                    Try::Answer(answer) => return Ok(answer),
                    Try::TimedOut => handed_over = true,
                    Try::NotOwner(_) | Try::Unreached => {}
                }
                if Instant::now() >= deadline {
                    break;
                }
            }
            if Instant::now() >= deadline {
                let refusal = Refusal::new(Code::Unreachable, "no router was reached");
                return Err(if handed_over { refusal.after_unanswered_attempt() } else { refusal });
            }
            tokio::time::sleep(STEP).await;
        }
    }
}

fn given_up(partition: &PartitionId, handed_over: bool) -> Refusal {
    if handed_over {
        Refusal::new(Code::PublishUnknown, format!("the owner of {partition} did not answer in time"))
            .cause("timeout")
    } else {
        Refusal::new(Code::Unreachable, format!("no owner of {partition} was reached in time"))
    }
}
