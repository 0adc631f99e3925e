//! The first frame: who is it, may it, what does it want; then the welcome, and events from its cursors on.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::AtomicU64},
};

use lapwing_gateway_core::{Encoding, encode::server_frame};
use lapwing_model::{Code, ConversationKey, Refusal, ids::check_id};
use lapwing_proto::{
    bus::Attached,
    client::{
        self, Connect, ConversationState, Conversations, Limits, ServerFrame, Welcome, server_frame::Body,
    },
};
use lapwing_runtime::{
    metrics, telemetry,
    time::{mono_ms, now_ms},
};
use lapwing_views::UserConversation;

use crate::{
    attach,
    auth::random_hex,
    close::Close,
    gateway::Gateway,
    limits, presence,
    publish::check_conversation,
    session::{Outbox, Session},
    tenants,
};

/// A connection that wants to become a session.
pub struct Candidate {
    pub out: Arc<Outbox>,
    pub encoding: Encoding,
    pub remote: String,
    pub frame_id: u64,
    pub traceparent: String,
}

/// Why it did not, and how the connection ends.
pub struct Refused {
    pub refusal: Refusal,
    pub close: Close,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let close = match refusal.code {
            Code::Unauthenticated => Close::Unauthenticated,
            Code::Forbidden => Close::TenantSuspended,
            Code::Invalid | Code::TooLarge => Close::Protocol("protocol_error"),
            _ => Close::NotReady,
        };
        Self { refusal, close }
    }
}

/// On success the session is registered and attached, and the bytes of its welcome go first.
pub async fn open(
    gateway: &Arc<Gateway>,
    candidate: Candidate,
    connect: Connect,
) -> Result<(Arc<Session>, bytes::Bytes), Refused> {
    let timer = metrics::stage("connect");
    let (id, traceparent) = (candidate.frame_id, candidate.traceparent.clone());
    let result = opened(gateway, candidate, connect).await;
    timer.done(result.as_ref().map_or_else(|refused| refused.refusal.code.line().name, |_| "ok"));
    let (session, welcome) = result.inspect_err(|refused| {
        tracing::debug!(trace_id = telemetry::trace_id(&traceparent), "connect refused: {}", refused.refusal);
    })?;
    let first = server_frame(&ServerFrame { id, body: Some(Body::Welcome(welcome)) }, session.encoding);
    Ok((session, first))
}

async fn opened(
    gateway: &Arc<Gateway>,
    candidate: Candidate,
    connect: Connect,
) -> Result<(Arc<Session>, Welcome), Refused> {
    let invalid = |error: lapwing_model::ids::BadId| Refusal::new(Code::Invalid, error.to_string());
    check_id("device", &connect.device).map_err(invalid)?;
    if connect.cursors.len() > limits::CURSORS_MAX {
        let what = format!("connect carries more than {} cursors", limits::CURSORS_MAX);
        return Err(Refusal::new(Code::TooLarge, what).into());
    }
    let identity = gateway.auth.verify(&connect.token)?;
    tenants::serving(gateway, &identity.tenant).await?;
    let traceparent = candidate.traceparent.clone();
    let session = new_session(gateway, candidate, &connect, &identity);
    // Registered before the list is read: what the user joins meanwhile is announced to this session.
    let replaced = gateway.sessions.register(&session, gateway.limits.user_connections)?;
    replaced.iter().for_each(|old| old.close(Close::SessionReplaced));
    let welcomed = welcome(gateway, &session, &connect, &traceparent).await;
    if welcomed.is_err() {
        session.out.close(Close::NotReady);
    }
    session.welcomed.cancel();
    match welcomed {
        Ok(welcome) => {
            presence::announce(gateway, &session);
            presence::audit(gateway, &session, None);
            Ok((session, welcome))
        }
        Err(refusal) => {
            gateway.sessions.remove(&session);
            attach::leave_all(gateway, &session);
            Err(refusal.into())
        }
    }
}

fn new_session(
    gateway: &Gateway,
    candidate: Candidate,
    connect: &Connect,
    identity: &crate::auth::Identity,
) -> Arc<Session> {
    let (tenant, user) = (Arc::from(identity.tenant.as_str()), Arc::from(identity.user.as_str()));
    Arc::new(Session {
        id: gateway.sessions.next_id(),
        name: random_hex(),
        rate: gateway.sessions.rate_of(&tenant, &user, gateway.limits.user),
        tenant,
        user,
        device: Arc::from(connect.device.as_str()),
        remote: candidate.remote,
        encoding: candidate.encoding,
        receipts: connect.receipts,
        opened_at_ms: now_ms(),
        out: candidate.out,
        rooms: Default::default(),
        passed: Default::default(),
        lanes: Default::default(),
        expires_at: AtomicU64::new(identity.expires_at),
        last_heard: AtomicU64::new(mono_ms()),
        requests: AtomicU64::new(0),
        answering: Default::default(),
        welcomed: Default::default(),
    })
}

async fn welcome(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    connect: &Connect,
    traceparent: &str,
) -> Result<Welcome, Refusal> {
    let list = gateway.views.user_conversations(&session.tenant, &session.user, limits::LIST_MAX).await;
    let list = list.map_err(|error| {
        Refusal::new(
            Code::NotReady,
            format!("the conversations of {} cannot be read now: {error}", session.user),
        )
        .retry_after(500)
    })?;
    let cursors: HashMap<&str, u64> =
        connect.cursors.iter().map(|cursor| (cursor.conversation.as_str(), cursor.seq)).collect();
    let wanted = wanted(session, &list, &cursors);
    wanted.iter().for_each(|(key, _)| gateway.hub.enter(key));
    let confirmed = attach::confirm(gateway, &wanted, traceparent).await;
    let listed: HashMap<&str, &UserConversation> =
        list.iter().map(|item| (item.conversation.as_str(), item)).collect();
    let mut states = Vec::with_capacity(wanted.len());
    let mut failed = None;
    for (key, _) in &wanted {
        let cursor = cursors.get(&*key.conversation).copied();
        match confirmed.get(key) {
            Some(Ok(answer)) => {
                let item = listed.get(&*key.conversation).copied();
                states.extend(placed(gateway, session, key, answer, item, cursor));
            }
            // Removed meanwhile, or a cursor of a conversation that is not the user's.
            Some(Err(refusal)) if refusal.code == Code::NotFound => {}
            Some(Err(refusal)) => failed = Some(refusal.clone()),
            None => failed = Some(Refusal::new(Code::NotReady, "an owner did not answer")),
        }
        gateway.hub.leave(key);
    }
    match failed {
        // A list with holes would look like conversations that are gone.
        Some(refusal) => Err(refusal),
        None => Ok(first_part(gateway, session, states)),
    }
}

fn wanted(
    session: &Session,
    list: &[UserConversation],
    cursors: &HashMap<&str, u64>,
) -> Vec<(ConversationKey, Arc<str>)> {
    let behind = |item: &UserConversation| {
        // One that the user has left is of interest only while its end has not been seen.
        item.member.active()
            || cursors.get(item.conversation.as_str()).is_some_and(|seq| *seq < item.member.to_seq)
    };
    let known: HashSet<&str> = list.iter().map(|item| item.conversation.as_str()).collect();
    let listed = list.iter().filter(|item| behind(item)).map(|item| item.conversation.as_str());
    let unknown = cursors.keys().copied().filter(|id| !known.contains(id) && check_conversation(id).is_ok());
    listed.chain(unknown).map(|id| (session.key(id), session.user.clone())).collect()
}

fn placed(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    key: &ConversationKey,
    answer: &Attached,
    item: Option<&UserConversation>,
    cursor: Option<u64>,
) -> Option<ConversationState> {
    let seating = attach::Seating { cursor, announced: 0, joined: None };
    let place = attach::seat(gateway, session, key, answer, seating)?;
    let mut state = attach::state_of(key, answer);
    if place.head > state.head {
        (state.head, state.n) = (place.head, place.n);
    }
    if answer.to_seq > 0 {
        state.head = state.head.min(answer.to_seq);
    }
    state.live_after = place.live_after;
    if let Some(item) = item {
        (state.read_seq, state.read_n) = (item.read_seq, item.read_n);
        state.delivered_seq = item.delivered_seq;
        if state.peer.is_empty() {
            state.peer.clone_from(&item.peer);
        }
    }
    state.last = gateway
        .hub
        .with(key, |room, _| room.last().filter(|last| last.seq == state.head).cloned())
        .and_then(|(last, _)| last)
        .map(|last| last.decoded());
    Some(state)
}

/// The welcome with the first part of the list; the rest follows as pushes, before any event.
fn first_part(gateway: &Gateway, session: &Arc<Session>, states: Vec<ConversationState>) -> Welcome {
    let mut parts: Vec<Vec<ConversationState>> = Vec::new();
    for state in states {
        match parts.last_mut() {
            Some(part) if part.len() < limits::LIST_PART => part.push(state),
            _ => parts.push(vec![state]),
        }
    }
    let mut parts = parts.into_iter();
    let first = parts.next().unwrap_or_default();
    let rest = parts.len();
    for (i, conversations) in parts.enumerate() {
        session.push(Body::Conversations(Conversations { conversations, complete: i + 1 == rest }));
    }
    let limits = &gateway.limits;
    Welcome {
        session: session.name.clone(),
        node: gateway.node.to_string(),
        user: session.user.to_string(),
        tenant: session.tenant.to_string(),
        server_time_ms: now_ms(),
        heartbeat_ms: limits.heartbeat.as_millis() as u32,
        limits: Some(Limits {
            max_body_bytes: limits.max_body as u32,
            max_frame_bytes: limits.max_frame as u32,
            max_history_page: limits.max_history_page,
            dedupe_window_ms: limits.dedupe_window_ms,
        }),
        conversations: first,
        complete: rest == 0,
    }
}

/// The error frame of a refused connect.
pub fn error_frame(refused: &Refused, frame_id: u64, traceparent: &str, encoding: Encoding) -> bytes::Bytes {
    let error: client::Error = refused.refusal.to_wire(telemetry::trace_id(traceparent));
    server_frame(&ServerFrame { id: frame_id, body: Some(Body::Error(error)) }, encoding)
}
