//! Interest: which conversations this node wants from their owners, and where an attaching session starts.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all, stream};
use lapwing_gateway_core::room::{Attach, Attached as Place};
use lapwing_model::{Code, ConversationKey, PartitionId, Refusal};
use lapwing_proto::{
    bus::{AttachBatch, AttachItem, Attached, Detach, router_reply, router_request},
    client::{ConversationState, server_frame::Body},
};
use lapwing_runtime::{OnError, telemetry};

use crate::{
    catch_up,
    gateway::Gateway,
    session::{Seat, Session},
};

/// Conversations in one request to an owner.
const CHUNK: usize = 500;
/// Withdrawals under way at the same time.
const DETACHES: usize = 32;
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);
const NOT_READY_PAUSE: Duration = Duration::from_millis(50);

/// Numbers this node's changes, so that an older one never undoes a newer.
#[derive(Default)]
pub struct Interest {
    counter: AtomicU64,
}

impl Interest {
    fn next(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::SeqCst) + 1
    }
}

pub type Confirmed = HashMap<ConversationKey, Result<Attached, Refusal>>;

/// Asks the owners about (conversation, user), a request a partition at the same time. Rooms must have been entered before.
pub async fn confirm(
    gateway: &Gateway,
    wanted: &[(ConversationKey, Arc<str>)],
    traceparent: &str,
) -> Confirmed {
    let mut by_partition: HashMap<PartitionId, Vec<&(ConversationKey, Arc<str>)>> = HashMap::new();
    for item in wanted {
        if let Some(partition) = gateway.hub.partition(&item.0) {
            by_partition.entry(partition).or_default().push(item);
        }
    }
    let asked = by_partition.iter().flat_map(|(partition, items)| {
        items.chunks(CHUNK).map(move |chunk| confirm_chunk(gateway, partition, chunk, traceparent))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn confirm_chunk(
    gateway: &Gateway,
    partition: &PartitionId,
    chunk: &[&(ConversationKey, Arc<str>)],
    traceparent: &str,
) -> Confirmed {
    let deadline = Instant::now() + ATTACH_TIMEOUT;
    let mut open: Vec<&(ConversationKey, Arc<str>)> = chunk.to_vec();
    let mut done = Confirmed::new();
    while !open.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let items = open.iter().map(|(key, user)| item(key, user)).collect();
        match announce(gateway, partition, items, traceparent, left).await {
            Ok(answers) => {
                let mut again = Vec::new();
                for (wanted, answer) in open.into_iter().zip(answers) {
                    if answer.not_ready && !left.is_zero() {
                        again.push(wanted);
                    } else {
                        done.insert(wanted.0.clone(), judged(&wanted.0, answer));
                    }
                }
                open = again;
                if !open.is_empty() {
                    tokio::time::sleep(NOT_READY_PAUSE).await;
                }
            }
            Err(refusal) => {
                done.extend(open.drain(..).map(|(key, _)| (key.clone(), Err(refusal.clone()))));
            }
        }
    }
    done
}

fn judged(key: &ConversationKey, answer: Attached) -> Result<Attached, Refusal> {
    match answer {
        answer if answer.not_ready => {
            Err(Refusal::new(Code::NotReady, format!("the owner of {} is not ready", key.conversation)))
        }
        answer if answer.found => Ok(answer),
        _ => Err(Refusal::new(Code::NotFound, format!("no conversation {} of this user", key.conversation))),
    }
}

fn item(key: &ConversationKey, user: &str) -> AttachItem {
    AttachItem {
        tenant: key.tenant.to_string(),
        conversation: key.conversation.to_string(),
        user: user.to_owned(),
    }
}

async fn announce(
    gateway: &Gateway,
    partition: &PartitionId,
    items: Vec<AttachItem>,
    traceparent: &str,
    within: Duration,
) -> Result<Vec<Attached>, Refusal> {
    let count = items.len();
    let batch = AttachBatch {
        node: gateway.node.to_string(),
        incarnation: gateway.incarnation,
        counter: gateway.interest.next(),
        items,
    };
    let body = router_request::Body::Attach(batch);
    match gateway.routers.ask_owner(partition, body, traceparent, within).await {
        Ok(router_reply::Body::Attach(reply)) if reply.items.len() == count => Ok(reply.items),
        Ok(_) => {
            let what = format!("the owner of {partition} answered an attach of {count} with something else");
            Err(Refusal::new(Code::NotReady, what))
        }
        // An attach may be repeated at any time, so an unanswered one is not unknown but just not done.
        Err(refusal) if refusal.code == Code::PublishUnknown => {
            Err(Refusal { code: Code::NotReady, ..refusal })
        }
        Err(refusal) => Err(refusal),
    }
}

/// Where a session takes its seat.
pub struct Seating {
    /// The newest seq that the client holds.
    pub cursor: Option<u64>,
    /// The seq at which its user was announced as a member; 0: it was not.
    pub announced: u64,
    /// What the client is told before its first event, unless it sits there already.
    pub joined: Option<ConversationState>,
}

/// A session's place in a conversation after the owner's answer.
pub fn seat(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    key: &ConversationKey,
    answer: &Attached,
    seating: Seating,
) -> Option<Place> {
    let passed = session.passed(key);
    let Seating { cursor, announced, joined } = seating;
    let (place, effects) = gateway.hub.with(key, |room, effects| {
        // Under the room's lock: a membership is announced twice (at dispatch, and when the list holds it), told once.
        if let Some(state) = joined.filter(|_| room.announce(session.id, announced)) {
            session.push(Body::Joined(state));
        }
        room.handle_owner_head(answer.head, answer.n, effects);
        // A head that the owner told but the room has not reached yet comes by the room's own fetch.
        let new = Attach {
            sink: Seat { session: session.clone(), conversation: key.conversation.clone() },
            user: session.user.clone(),
            from: cursor.map(|cursor| cursor.saturating_add(1).max(passed)),
            first: answer.from_seq,
            to: answer.to_seq,
            announced,
        };
        let place = room.attach(new, effects);
        // The session closed while it was attached: its own clean-up may have come before us.
        if session.is_closing() {
            room.detach(session.id);
        } else {
            session.rooms.lock().insert(key.clone());
        }
        place
    })?;
    catch_up::run(gateway, key, effects);
    Some(place)
}

/// The session leaves all its conversations.
pub fn leave_all(gateway: &Gateway, session: &Session) {
    let rooms = std::mem::take(&mut *session.rooms.lock());
    for key in rooms {
        gateway.hub.with(&key, |room, _| room.detach(session.id));
    }
}

/// Attaches local sessions of users who became members and tells them (`joined`).
pub fn join(gateway: &Arc<Gateway>, key: ConversationKey, sessions: Vec<Arc<Session>>, seq: u64) {
    let owned = gateway.clone();
    gateway.tasks.spawn("join", OnError::Log, async move {
        join_all(sessions.iter().map(|session| session.welcomed.cancelled())).await;
        let fresh = |session: &Arc<Session>| {
            let known = owned.hub.with(&key, |room, _| room.announce(session.id, seq));
            known.is_none_or(|(fresh, _)| fresh) && !session.is_closing()
        };
        let sessions: Vec<_> = sessions.into_iter().filter(fresh).collect();
        if sessions.is_empty() {
            return;
        }
        owned.hub.enter(&key);
        let mut users: Vec<Arc<str>> = sessions.iter().map(|session| session.user.clone()).collect();
        users.sort_unstable();
        users.dedup();
        let asked = users.iter().map(|user| {
            let wanted = [(key.clone(), user.clone())];
            let owned = &owned;
            async move { confirm(owned, &wanted, &telemetry::new_traceparent()).await }
        });
        let answers: HashMap<Arc<str>, Attached> = join_all(asked)
            .await
            .into_iter()
            .zip(users.iter().cloned())
            .filter_map(|(confirmed, user)| Some((user, confirmed.into_values().next()?.ok()?)))
            .collect();
        for session in &sessions {
            // Removed again meanwhile: what was in between is still theirs.
            if let Some(answer) = answers.get(&session.user).filter(|answer| answer.found) {
                joined(&owned, &key, session, answer, seq);
            }
        }
        owned.hub.leave(&key);
    });
}

fn joined(
    gateway: &Arc<Gateway>,
    key: &ConversationKey,
    session: &Arc<Session>,
    answer: &Attached,
    seq: u64,
) {
    let (from_seq, passed) = (answer.from_seq.max(1), session.passed(key));
    if answer.to_seq > 0 && passed > answer.to_seq {
        return; // An old answer: it has had all of that.
    }
    let seating = if passed > from_seq {
        Seating { cursor: Some(passed - 1), announced: seq, joined: None }
    } else {
        let mut state = state_of(key, answer);
        state.live_after = from_seq - 1;
        Seating { cursor: Some(from_seq - 1), announced: seq, joined: Some(state) }
    };
    seat(gateway, session, key, answer, seating);
}

pub fn state_of(key: &ConversationKey, answer: &Attached) -> ConversationState {
    ConversationState {
        conversation: key.conversation.to_string(),
        kind: answer.kind,
        head: answer.head,
        n: answer.n,
        from_seq: answer.from_seq,
        peer: answer.peer.clone(),
        ..Default::default()
    }
}

/// A partition has a new owner, or one that lost sight of this node: all interest again; its heads are a digest of what was missed meanwhile.
pub fn announce_partition(gateway: &Arc<Gateway>, partition: PartitionId) {
    let keys = gateway.hub.of_partition(&partition);
    if keys.is_empty() {
        return;
    }
    let gateway = gateway.clone();
    let tasks = gateway.tasks.clone();
    tasks.spawn("announce interest", OnError::Log, async move {
        let owner = gateway.routers.owner(&partition);
        for chunk in keys.chunks(CHUNK) {
            let mut answered = false;
            while !answered && gateway.routers.owner(&partition) == owner && !gateway.tasks.is_stopping() {
                let items = chunk.iter().map(|key| item(key, "")).collect();
                let tp = telemetry::new_traceparent();
                match announce(&gateway, &partition, items, &tp, ATTACH_TIMEOUT).await {
                    Ok(answers) => {
                        answered = true;
                        chunk.iter().zip(answers).for_each(|(key, answer)| digest(&gateway, key, &answer));
                    }
                    Err(refusal) => {
                        tracing::warn!(%partition, "announcing interest again: {refusal}");
                        tokio::time::sleep(Duration::from_millis(500)).await;
                    }
                }
            }
        }
    });
}

fn digest(gateway: &Arc<Gateway>, key: &ConversationKey, answer: &Attached) {
    if answer.found && !answer.not_ready {
        let seen = gateway.hub.with(key, |room, effects| room.handle_head(answer.head, true, effects));
        if let Some(((), effects)) = seen {
            catch_up::run(gateway, key, effects);
        }
    }
}

/// Withdraws the interest of conversations that have been without local sessions long enough.
pub async fn withdraw(gateway: &Arc<Gateway>) {
    let stop = gateway.tasks.stopping();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        let mut due = Vec::new();
        while let Some(expired) = gateway.hub.expire(Instant::now(), || gateway.interest.next()) {
            due.extend(expired);
        }
        stream::iter(due).for_each_concurrent(DETACHES, |(key, counter)| detach(gateway, key, counter)).await;
    }
}

async fn detach(gateway: &Gateway, key: ConversationKey, counter: u64) {
    let Some(partition) = gateway.hub.partition(&key) else { return };
    let detach = Detach {
        node: gateway.node.to_string(),
        incarnation: gateway.incarnation,
        counter,
        tenant: key.tenant.to_string(),
        conversation: key.conversation.to_string(),
    };
    // Lost, it costs the owner one ignored message per event until a new owner asks.
    let body = router_request::Body::Detach(detach);
    gateway.routers.try_owner(&partition, &body, "", Duration::from_secs(1)).await;
}
