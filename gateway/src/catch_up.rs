//! Fetching what rooms and sessions miss, in bounded attempts: in the end it is delivered, told as a gap, or the session
//! begins anew (close 4003). Nobody asks for ever (I4).

use std::{sync::Arc, time::Duration};

use lapwing_gateway_core::{
    EventFrame,
    page::Query,
    room::{Effect, Next},
};
use lapwing_model::ConversationKey;
use lapwing_proto::{
    Message as _,
    client::{Event, GapReason},
};
use lapwing_runtime::{OnError, telemetry, throttle::Throttle};

use crate::{attach, close::Close, gateway::Gateway, history, limits, session::Session};

const PAGE: u32 = 256;
/// Events that are only late get this long before they are fetched.
const SOON: Duration = Duration::from_millis(200);
/// Attempts without progress before a session must begin anew; with the pauses between them about 40 s.
const ATTEMPTS: u32 = 25;
/// Attempts in which a hole stays a hole before it is told as a gap.
const HOLE_ATTEMPTS: u32 = 8;

static BEHIND: Throttle = Throttle::every_ms(1000);

fn pause(attempt: u32) -> Duration {
    Duration::from_millis((50 << attempt.min(6)).min(2000))
}

/// Runs what a room asked for.
pub fn run(gateway: &Arc<Gateway>, key: &ConversationKey, effects: Vec<Effect>) {
    for effect in effects {
        let (owned, key) = (gateway.clone(), key.clone());
        match effect {
            Effect::FetchRoom { soon } => {
                gateway.tasks.spawn("fetch room", OnError::Log, async move {
                    if soon {
                        tokio::time::sleep(SOON).await;
                    }
                    fetch_room(&owned, &key).await;
                });
            }
            Effect::CatchUp { session, run } => {
                let Some(session) = gateway.sessions.by_id(session) else { continue };
                gateway.tasks.spawn("catch up", OnError::Log, async move {
                    catch_up(&owned, &key, &session, run).await;
                });
            }
            Effect::Rejoin { session } => {
                let Some(session) = gateway.sessions.by_id(session) else { continue };
                attach::join(gateway, key, vec![session], 0);
            }
        }
    }
}

async fn fetch_room(gateway: &Arc<Gateway>, key: &ConversationKey) {
    let mut attempt = 0;
    loop {
        let Some((Some((from, to)), _)) = gateway.hub.with(key, |room, _| room.missing()) else { return };
        metrics::counter!("lapwing_gateway_fetches_total", "of" => "room").increment(1);
        let progressed = match read(gateway, key, None, from, to).await {
            Some(page) => feed_room(gateway, key, from, page, attempt),
            None => false,
        };
        attempt = if progressed { 0 } else { attempt + 1 };
        if attempt > ATTEMPTS || gateway.tasks.is_stopping() {
            tracing::error!(tenant = %key.tenant, conversation = %key.conversation, from, to,
                "events cannot be fetched; the sessions here begin anew");
            let seats = gateway.hub.with(key, |room, _| room.abandon()).map(|(seats, _)| seats);
            seats.into_iter().flatten().for_each(|seat| seat.session.close(Close::NotReady));
            continue; // `missing` now ends the fetch
        }
        if attempt > 0 {
            tokio::time::sleep(pause(attempt)).await;
        }
    }
}

/// True: at least one seq was passed.
fn feed_room(gateway: &Arc<Gateway>, key: &ConversationKey, from: u64, page: Fetched, attempt: u32) -> bool {
    let frames: Vec<_> = page.events.iter().filter_map(|event| frame(key, event)).collect();
    let hole = page.holes.first().filter(|hole| hole.0 == from && attempt >= HOLE_ATTEMPTS);
    let fed = gateway.hub.with(key, |room, effects| {
        if let Some((from, to)) = hole {
            room.handle_gap(*from, *to, GapReason::Retention);
        }
        for frame in &frames {
            room.handle_fetched(frame, effects);
        }
        room.missing().is_none_or(|(next, _)| next > from)
    });
    let Some((progressed, effects)) = fed else { return true };
    run(gateway, key, effects);
    progressed
}

async fn catch_up(gateway: &Arc<Gateway>, key: &ConversationKey, session: &Arc<Session>, run_id: u64) {
    let mut attempt = 0;
    while !session.is_closing() && !gateway.tasks.is_stopping() {
        if !session.out.has_room() {
            // The reader sets the pace; one that takes nothing at all is closed by the sweep.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        }
        let step = gateway.hub.with(key, |room, _| room.catch_up(session.id, run_id, limits::DELIVERY_BYTES));
        let (from, to) = match step {
            None | Some((Next::Done, _)) => return,
            Some((Next::Some, _)) => continue,
            Some((Next::Fetch { from, to }, _)) => (from, to),
        };
        if to - from >= gateway.limits.resume_events {
            let last = to - gateway.limits.resume_events;
            gateway.hub.with(key, |room, _| {
                room.handle_gap_for(session.id, run_id, from, last, GapReason::TooMany);
            });
            continue;
        }
        metrics::counter!("lapwing_gateway_fetches_total", "of" => "session").increment(1);
        let progressed = match read(gateway, key, Some(&session.user), from, to).await {
            Some(page) => feed_session(gateway, key, session, run_id, from, page, attempt).await,
            None => false,
        };
        attempt = if progressed { 0 } else { attempt + 1 };
        if attempt > ATTEMPTS {
            if let Some(suppressed) = BEHIND.pass() {
                tracing::warn!(tenant = %key.tenant, conversation = %key.conversation, from, to, suppressed,
                    user = %session.user, "a session cannot be brought up to date and begins anew");
            }
            return session.close(Close::NotReady);
        }
        if attempt > 0 {
            tokio::time::sleep(pause(attempt)).await;
        }
    }
}

async fn feed_session(
    gateway: &Arc<Gateway>,
    key: &ConversationKey,
    session: &Arc<Session>,
    run_id: u64,
    from: u64,
    page: Fetched,
    attempt: u32,
) -> bool {
    let mut next = from;
    let hole = page.holes.first().copied().filter(|hole| hole.0 == from && attempt >= HOLE_ATTEMPTS);
    let outside = page.outside.map(|(from, to)| (from, to, GapReason::NotMember));
    for (from, to, reason) in outside.into_iter().chain(hole.map(|(a, b)| (a, b, GapReason::Retention))) {
        gateway.hub.with(key, |room, _| room.handle_gap_for(session.id, run_id, from, to, reason));
        next = to + 1;
    }
    for event in page.events {
        let Some(frame) = frame(key, &event) else { return false };
        loop {
            let taken = gateway.hub.with(key, |room, _| room.handle_fetched_for(session.id, run_id, &frame));
            match taken {
                None => return true,
                Some((true, _)) => break,
                Some((false, _)) if session.is_closing() || session.out.has_room() => {
                    // Room in the queue and still not taken: there is a hole before it, or another run has begun.
                    return next > from;
                }
                Some((false, _)) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        next = event.seq + 1;
    }
    next > from
}

struct Fetched {
    events: Vec<Event>,
    holes: Vec<(u64, u64)>,
    outside: Option<(u64, u64)>,
}

async fn read(
    gateway: &Gateway,
    key: &ConversationKey,
    user: Option<&str>,
    from: u64,
    to: u64,
) -> Option<Fetched> {
    let _slot = gateway.fetches.acquire().await.ok()?;
    let query = Query { from, to, limit: PAGE, newest: false };
    let ask = history::Ask { key, user, query, seen: to, traceparent: &telemetry::new_traceparent() };
    match history::read(gateway, ask).await {
        Ok(read) => Some(Fetched {
            events: read.page.events,
            holes: read.page.holes,
            outside: read.outside.map(|gap| (gap.from, gap.to)),
        }),
        Err(refusal) => {
            tracing::debug!(conversation = %key, from, to, "catch-up waits: {refusal}");
            None
        }
    }
}

fn frame(key: &ConversationKey, event: &Event) -> Option<Arc<EventFrame>> {
    EventFrame::decode(event.encode_to_vec().into())
        .inspect_err(
            |error| tracing::error!(conversation = %key, seq = event.seq, "event is not readable: {error}"),
        )
        .ok()
}
