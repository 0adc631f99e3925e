//! A connected client's frames, one after the other; what takes time runs beside them, bounded per session.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use lapwing_gateway_core::Encoding;
use lapwing_model::{Code, Refusal};
use lapwing_proto::{
    Message as _,
    client::{ClientFrame, HistoryRequest, Ok as Done, Refresh, Sync, client_frame, server_frame::Body},
};
use lapwing_runtime::{OnError, telemetry};

use crate::{
    attach, catch_up, close::Close, gateway::Gateway, history, publish, publish::check_conversation,
    session::Session, tenants,
};

/// Questions of one session that are answered at the same time.
const AT_ONCE: u64 = 8;

pub fn decode(payload: Bytes, encoding: Encoding) -> Result<ClientFrame, Close> {
    match encoding {
        Encoding::Binary => {
            ClientFrame::decode(payload).map_err(|_| Close::Protocol("frame is not a ClientFrame"))
        }
        Encoding::Json => {
            serde_json::from_slice(&payload).map_err(|_| Close::Protocol("text is not a ClientFrame in JSON"))
        }
    }
}

/// The trace of a frame: the client's, or a new one, so that every answer can carry its id.
pub fn trace_of(frame: &ClientFrame) -> String {
    if telemetry::is_traceparent(&frame.traceparent) {
        frame.traceparent.clone()
    } else {
        telemetry::new_traceparent()
    }
}

/// Err: the connection ends.
pub fn handle(gateway: &Arc<Gateway>, session: &Arc<Session>, frame: ClientFrame) -> Result<(), Close> {
    let traceparent = trace_of(&frame);
    let id = frame.id;
    let refuse = |refusal: Refusal| {
        session.answer(id, Body::Error(refusal.to_wire(telemetry::trace_id(&traceparent))));
    };
    match frame.body {
        Some(client_frame::Body::Publish(body)) => publish::handle(gateway, session, id, traceparent, body),
        Some(client_frame::Body::Ack(ack)) => {
            if let Err(refusal) = cursor(gateway, session, &ack.conversation, 0, ack.seq) {
                refuse(refusal);
            }
        }
        Some(client_frame::Body::Read(read)) => {
            if let Err(refusal) = cursor(gateway, session, &read.conversation, read.seq, read.seq) {
                refuse(refusal);
            }
        }
        Some(client_frame::Body::Ping(_)) => session.answer(id, Body::Ok(Done {})),
        Some(client_frame::Body::History(request)) => {
            beside(gateway, session, id, traceparent, Question::History(request));
        }
        Some(client_frame::Body::Sync(request)) => {
            beside(gateway, session, id, traceparent, Question::Sync(request));
        }
        Some(client_frame::Body::Refresh(request)) => {
            beside(gateway, session, id, traceparent, Question::Refresh(request));
        }
        Some(client_frame::Body::Connect(_)) => return Err(Close::Protocol("connected already")),
        // A newer client's request: it learns that we do not know it.
        None => refuse(Refusal::new(Code::Invalid, "a frame without a body that this gateway knows")),
    }
    Ok(())
}

fn cursor(
    gateway: &Gateway,
    session: &Session,
    conversation: &str,
    read: u64,
    delivered: u64,
) -> Result<(), Refusal> {
    check_conversation(conversation)?;
    let key = session.key(conversation);
    if !session.rooms.lock().contains(&key) {
        return Err(Refusal::new(Code::NotFound, format!("no conversation {conversation} of this user")));
    }
    if !gateway.cursors.lock().merge(&key, &session.user, read, delivered) {
        metrics::counter!("lapwing_gateway_cursors_dropped_total").increment(1);
    }
    Ok(())
}

enum Question {
    History(HistoryRequest),
    Sync(Sync),
    Refresh(Refresh),
}

fn beside(gateway: &Arc<Gateway>, session: &Arc<Session>, id: u64, traceparent: String, question: Question) {
    let refuse = |refusal: Refusal| {
        session.answer(id, Body::Error(refusal.to_wire(telemetry::trace_id(&traceparent))));
    };
    if let Err(refusal) = gateway.take_request(session) {
        return refuse(refusal);
    }
    if session.requests.fetch_add(1, Ordering::AcqRel) >= AT_ONCE {
        session.requests.fetch_sub(1, Ordering::AcqRel);
        return refuse(Refusal::new(Code::Busy, format!("{AT_ONCE} questions of this session are open")));
    }
    let (gateway, session) = (gateway.clone(), session.clone());
    let tasks = gateway.tasks.clone();
    tasks.spawn("question", OnError::Log, async move {
        let answer = match question {
            Question::History(request) => history(&gateway, &session, &request, &traceparent).await,
            Question::Sync(request) => sync(&gateway, &session, &request, &traceparent).await,
            Question::Refresh(request) => refresh(&gateway, &session, &request).await,
        };
        let body =
            answer.unwrap_or_else(|refusal| Body::Error(refusal.to_wire(telemetry::trace_id(&traceparent))));
        session.answer_with_room(id, body).await;
        session.requests.fetch_sub(1, Ordering::AcqRel);
    });
}

async fn history(
    gateway: &Gateway,
    session: &Session,
    request: &HistoryRequest,
    traceparent: &str,
) -> Result<Body, Refusal> {
    check_conversation(&request.conversation)?;
    let key = session.key(&request.conversation);
    history::page(gateway, &key, Some(&session.user), request, traceparent).await.map(Body::History)
}

async fn sync(
    gateway: &Arc<Gateway>,
    session: &Arc<Session>,
    request: &Sync,
    traceparent: &str,
) -> Result<Body, Refusal> {
    check_conversation(&request.conversation)?;
    let key = session.key(&request.conversation);
    let done = gateway.hub.with(&key, |room, effects| room.sync(session.id, request.seq, effects));
    if let Some((true, effects)) = done {
        catch_up::run(gateway, &key, effects);
        return Ok(Body::Ok(Done {}));
    }
    gateway.hub.enter(&key);
    let wanted = [(key.clone(), session.user.clone())];
    let confirmed = attach::confirm(gateway, &wanted, traceparent).await.remove(&key);
    let answer = confirmed.unwrap_or_else(|| Err(Refusal::new(Code::NotReady, "the owner did not answer")));
    if let Ok(answer) = &answer {
        let seating = attach::Seating { cursor: Some(request.seq), announced: 0, joined: None };
        attach::seat(gateway, session, &key, answer, seating);
    }
    gateway.hub.leave(&key);
    answer.map(|_| Body::Ok(Done {}))
}

async fn refresh(gateway: &Gateway, session: &Session, request: &Refresh) -> Result<Body, Refusal> {
    let identity = gateway.auth.verify(&request.token)?;
    if *identity.tenant != *session.tenant || *identity.user != *session.user {
        return Err(Refusal::new(Code::Unauthenticated, "the token is another user's"));
    }
    tenants::serving(gateway, &identity.tenant).await?;
    session.expires_at.store(identity.expires_at, Ordering::Relaxed);
    Ok(Body::Ok(Done {}))
}
