//! From a client's publish to its answer: checks, limits, then the lane of (session, conversation) to the owner.

use std::{sync::Arc, time::Instant};

use lapwing_gateway_core::lane::{Answer, Lane, Reply, Step};
use lapwing_model::{
    Code, ConversationKey, Kind, PartitionId, Refusal, ids, kind::p2p_id, record::content_len,
};
use lapwing_proto::{
    bus::{PublishBatch, PublishItem, router_reply, router_request},
    client::{self, Published, publish::Target, server_frame::Body},
};
use lapwing_runtime::{
    OnError, metrics,
    queue::Hold,
    telemetry,
    time::{mono_ms, now_ms},
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{gateway::Gateway, owners::Try, session::Session};

const MAX_TYPE: usize = 128;
/// A retry older than the dedupe window less this is never sent: nobody could tell it from a new message.
const WINDOW_MARGIN_MS: u64 = 10 * 60 * 1000;
/// Above this many lanes a session forgets those that are empty.
const LANES_SWEPT: usize = 256;

pub struct LaneCell {
    state: Mutex<State>,
}

struct State {
    lane: Lane<Waiter>,
    driven: bool,
}

/// Who waits for the outcome.
pub enum Waiter {
    Frame {
        session: Arc<Session>,
        id: u64,
        traceparent: String,
        since: Instant,
        kind: &'static str,
        /// Ends with the answer.
        span: tracing::Span,
        held: Hold,
    },
    Call(oneshot::Sender<Result<Published, Refusal>>),
}

impl LaneCell {
    fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { lane: Lane::default(), driven: false }) })
    }

    pub fn is_empty(&self) -> bool {
        self.state.lock().lane.is_empty()
    }
}

/// What all publishes of a lane have in common.
#[derive(Clone)]
struct Route {
    key: ConversationKey,
    partition: PartitionId,
    sender: String,
    device: String,
    session: String,
    server: bool,
}

/// A client's publish frame.
pub fn handle(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    id: u64,
    traceparent: String,
    publish: client::Publish,
) {
    let since = Instant::now();
    if let Err(refusal) = admit(gateway, session, id, &traceparent, publish, since) {
        let result = refusal.code.line().name;
        metrics::stage("total").since(since).done(result);
        session.answer(id, Body::Error(refusal.to_wire(telemetry::trace_id(&traceparent))));
    }
}

fn admit(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    id: u64,
    traceparent: &str,
    publish: client::Publish,
    since: Instant,
) -> Result<(), Refusal> {
    let conversation = target(&session.tenant, &session.user, publish.target.as_ref())?;
    let span = tracing::debug_span!("publish", tenant = %session.tenant, conversation, user = %session.user,
        client_mid = publish.client_mid);
    let traceparent = &telemetry::continue_trace(&span, traceparent);
    let item = check(gateway, publish, traceparent)?;
    let key = session.key(&conversation);
    let route = route(gateway, &key, &session.user, &session.device, &session.name, false)?;
    let cell = cell_of(session, &key.conversation);
    let mut state = cell.state.lock();
    if gateway.stall.lately(mono_ms()) {
        state.lane.woke(since);
    }
    state.lane.admit(&item.client_mid, since)?;
    let taken = take_tokens(gateway, session, &item).and_then(|()| hold(gateway, &item));
    // What the session sent behind a refused one must not overtake it (R-SEQ-11).
    let held = taken.inspect_err(|_| state.lane.refused(&item.client_mid, since))?;
    let kind = Kind::of_conversation(&key.conversation).map_or("none", Kind::name);
    let waiter = Waiter::Frame {
        session: session.clone(),
        id,
        traceparent: traceparent.to_owned(),
        since,
        kind,
        span,
        held,
    };
    state.lane.push(waiter, item, since);
    if !state.driven {
        state.driven = true;
        let (gateway, cell, session) = (gateway.clone(), cell.clone(), session.clone());
        let tasks = gateway.tasks.clone();
        tasks.spawn("publish lane", OnError::Log, async move {
            drive(&gateway, &cell, &route, Some(&session)).await;
        });
    }
    Ok(())
}

/// A publish by the server API: the same path, in a lane of its own.
pub async fn call(
    gateway: &Arc<Gateway>,
    key: &ConversationKey,
    sender: &str,
    publish: client::Publish,
    traceparent: &str,
) -> Result<Published, Refusal> {
    let item = check(gateway, publish, traceparent)?;
    if item.attempt == 1 {
        gateway.share.take()?;
    }
    let route = route(gateway, key, sender, "", "", true)?;
    let _held = hold(gateway, &item)?;
    let (tell, told) = oneshot::channel();
    let cell = LaneCell::new();
    cell.state.lock().lane.push(Waiter::Call(tell), item, Instant::now());
    drive(gateway, &cell, &route, None).await;
    told.await.unwrap_or_else(|_| Err(Refusal::new(Code::PublishUnknown, "the answer got lost")))
}

/// The conversation that a target names.
pub fn target(tenant: &str, user: &str, target: Option<&Target>) -> Result<String, Refusal> {
    match target {
        Some(Target::Conversation(conversation)) => {
            check_conversation(conversation)?;
            Ok(conversation.clone())
        }
        Some(Target::ToUser(other)) => {
            ids::check_id("to_user", other).map_err(invalid)?;
            if other == user {
                return Err(Refusal::new(Code::Invalid, "to_user is the sender itself"));
            }
            Ok(p2p_id(tenant, user, other))
        }
        None => Err(Refusal::new(Code::Invalid, "publish names neither conversation nor to_user")),
    }
}

pub fn check_conversation(conversation: &str) -> Result<(), Refusal> {
    ids::check_conversation(conversation).map_err(invalid)?;
    match Kind::of_conversation(conversation) {
        Some(_) => Ok(()),
        None => Err(Refusal::new(Code::NotFound, format!("there is no conversation {conversation}"))),
    }
}

pub fn invalid(error: ids::BadId) -> Refusal {
    Refusal::new(Code::Invalid, error.to_string())
}

fn check(gateway: &Gateway, publish: client::Publish, traceparent: &str) -> Result<PublishItem, Refusal> {
    ids::check_id("client_mid", &publish.client_mid).map_err(invalid)?;
    let content = publish.content.filter(|content| content.body.is_some());
    let content = content.ok_or_else(|| Refusal::new(Code::Invalid, "publish has no content"))?;
    if content.r#type.len() > MAX_TYPE {
        return Err(Refusal::new(Code::Invalid, format!("content type is over {MAX_TYPE} bytes")));
    }
    let (len, max) = (content_len(&content) - content.r#type.len(), gateway.limits.max_body);
    if len > max {
        let what =
            format!("body has {len} bytes, at most {max} are taken; send big content as an attachment");
        return Err(Refusal::new(Code::TooLarge, what));
    }
    let oldest = gateway.limits.dedupe_window_ms.saturating_sub(WINDOW_MARGIN_MS);
    if publish.first_attempt_age_ms > oldest {
        let what = format!("the first attempt of {} is older than the dedupe window", publish.client_mid);
        return Err(Refusal::new(Code::PublishUnknown, what).cause("too_old"));
    }
    Ok(PublishItem {
        client_mid: publish.client_mid,
        content: Some(content),
        // What was read late may have been sent again elsewhere since.
        attempt: if gateway.stall.lately(mono_ms()) { publish.attempt.max(2) } else { publish.attempt },
        receipt: publish.receipt,
        traceparent: traceparent.to_owned(),
    })
}

fn take_tokens(gateway: &Gateway, session: &Session, item: &PublishItem) -> Result<(), Refusal> {
    gateway.take_request(session)?;
    // A retry takes no token of the cluster: it must reach the owner to learn what became of the first (R-ACK-4).
    if item.attempt == 1 { gateway.share.take() } else { Ok(()) }
}

/// Room for a message until it is answered: all that wait for their owners are bounded together.
fn hold(gateway: &Gateway, item: &PublishItem) -> Result<Hold, Refusal> {
    let bytes = item.content.as_ref().map_or(0, content_len);
    gateway.inbound.hold(bytes).ok_or_else(|| {
        Refusal::new(Code::Overloaded, "too many publishes of this node wait for their owners")
            .retry_after(500)
    })
}

fn route(
    gateway: &Gateway,
    key: &ConversationKey,
    sender: &str,
    device: &str,
    session: &str,
    server: bool,
) -> Result<Route, Refusal> {
    let partition = gateway.partition(key)?;
    let (sender, device, session) = (sender.to_owned(), device.to_owned(), session.to_owned());
    Ok(Route { key: key.clone(), partition, sender, device, session, server })
}

fn cell_of(session: &Session, conversation: &Arc<str>) -> Arc<LaneCell> {
    let mut lanes = session.lanes.lock();
    if lanes.len() > LANES_SWEPT && !lanes.contains_key(conversation) {
        let now = Instant::now();
        lanes.retain(|_, cell| {
            let state = cell.state.lock();
            state.driven || !state.lane.is_forgettable(now)
        });
    }
    lanes.entry(conversation.clone()).or_insert_with(LaneCell::new).clone()
}

/// Drives a lane until it is empty; one driver a lane.
async fn drive(gateway: &Gateway, cell: &LaneCell, route: &Route, session: Option<&Session>) {
    let mut changes = gateway.routers.changes();
    loop {
        let (step, answers, age) = {
            let mut state = cell.state.lock();
            if session.is_some_and(Session::is_closing) {
                state.lane.clear_queue();
            }
            let now = Instant::now();
            let answers = state.lane.handle_timeout(now);
            let step = state.lane.next_step(now);
            if step == Step::Idle {
                state.driven = false;
            }
            (step, answers, state.lane.age(now))
        };
        answers.into_iter().for_each(tell);
        match step {
            Step::Idle => return,
            Step::Wait(at) => {
                tokio::select! {
                    () = tokio::time::sleep_until(at.into()) => {}
                    _ = changes.changed() => cell.state.lock().lane.retry_now(),
                }
            }
            Step::Send(items, within) => {
                let reply = send(gateway, route, items, age, within).await;
                let answers = cell.state.lock().lane.handle_reply(reply, Instant::now());
                answers.into_iter().for_each(tell);
            }
        }
    }
}

async fn send(
    gateway: &Gateway,
    route: &Route,
    items: Vec<PublishItem>,
    age: std::time::Duration,
    within: std::time::Duration,
) -> Reply {
    let traceparent = items.first().map(|item| item.traceparent.clone()).unwrap_or_default();
    let batch = PublishBatch {
        tenant: route.key.tenant.to_string(),
        conversation: route.key.conversation.to_string(),
        sender: route.sender.clone(),
        device: route.device.clone(),
        session: route.session.clone(),
        items,
        server: route.server,
        // Not when it is sent again: what waited here may have been overtaken by its own retry (R-ACK-4).
        sent_at_ms: now_ms().saturating_sub(age.as_millis() as u64),
    };
    let body = router_request::Body::Publish(batch);
    match gateway.routers.try_owner(&route.partition, &body, &traceparent, within).await {
        Try::Answer(router_reply::Body::Publish(reply)) => Reply::Outcomes(reply.outcomes),
        Try::Answer(router_reply::Body::Error(error)) => Reply::Refused(Refusal::from_wire(&error)),
        Try::Answer(_) => {
            tracing::error!(conversation = %route.key, "the owner answered a publish with something else");
            Reply::TimedOut
        }
        Try::NotOwner(after) => Reply::NotOwner(after),
        Try::Unreached => Reply::Unreached,
        Try::TimedOut => Reply::TimedOut,
    }
}

fn tell((waiter, outcome): Answer<Waiter>) {
    match waiter {
        Waiter::Call(tell) => drop(tell.send(outcome)),
        Waiter::Frame { session, id, traceparent, since, kind, span, held } => {
            drop(held);
            let _span = span.entered();
            let result = match &outcome {
                Ok(published) if published.outcome() == client::Outcome::Duplicate => "duplicate",
                Ok(_) => "accepted",
                Err(refusal) => refusal.code.line().name,
            };
            metrics::stage("total").kind(kind).since(since).done(result);
            let body = match outcome {
                Ok(published) => Body::Published(published),
                Err(refusal) => Body::Error(refusal.to_wire(telemetry::trace_id(&traceparent))),
            };
            session.answer(id, body);
        }
    }
}
