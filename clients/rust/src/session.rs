//! One session from connect to close, and the loop that gets the next one.
use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fastwebsockets::{Frame, OpCode, Payload, WebSocketError};
use lapwing_proto::client::{self as proto, client_frame, server_frame};
use tokio::{
    io::AsyncWriteExt,
    sync::{mpsc, oneshot},
};

use crate::{
    backoff::Backoff,
    client::{ConnectTimes, Shared, State},
    codec::Encoding,
    contiguity::{Order, Start},
    dial::{self, Reader},
    error::{ClientError, ErrorKind, Step},
    link::{Link, wire, write_loop},
    raw::{RawEvent, scan_events},
    update::{Counters, Handler, Update},
};

/// Where events go: looked at in place, or handed over whole through a bounded queue.
pub(crate) enum Sink {
    Raw(Arc<dyn Handler>),
    Queue(mpsc::Sender<Update>),
}

impl Sink {
    async fn update(&self, update: Update) {
        match self {
            Sink::Raw(handler) => handler.update(update),
            // An application that dropped its stream wants no updates.
            Sink::Queue(queue) => drop(queue.send(update).await),
        }
    }
}

struct Session {
    link: Arc<Link>,
    reader: Reader,
    welcome: proto::Welcome,
    times: ConnectTimes,
}

/// Who waits for the first connection.
type First = oneshot::Sender<Result<ConnectTimes, ClientError>>;

/// Runs until the client is closed or may not come back. `first` hears of the first session, or why there is none.
pub(crate) async fn run(shared: Arc<Shared>, sink: Sink, first: First) {
    let began = tokio::time::Instant::now();
    let mut first = Some(first);
    let mut backoff = Backoff::reconnect();
    let mut at = 0;
    let mut fails = 0;
    let mut renewed = false;
    let ended = loop {
        let url = &shared.options.urls[at % shared.options.urls.len()];
        let error = match establish(&shared, url).await {
            Ok(session) => {
                backoff.reset();
                (fails, renewed) = (0, false);
                serve(&shared, &sink, session, first.take()).await
            }
            Err(error) => {
                at += 1;
                fails += 1;
                error
            }
        };
        if shared.stop.is_cancelled() {
            break closed_here(url);
        }
        let renew = error.unauthenticated() && shared.options.token.renewable() && !renewed;
        renewed |= renew;
        let exhausted = first.is_some()
            && fails >= shared.options.urls.len()
            && began.elapsed() >= shared.options.patience;
        let may_return = error.reconnect() || renew;
        if !may_return || exhausted || (first.is_none() && !shared.options.reconnect) {
            break error;
        }
        tracing::debug!(url, %error, "reconnecting");
        tokio::select! {
            () = tokio::time::sleep(backoff.jittered()) => {}
            () = shared.stop.cancelled() => break closed_here(url),
        }
    };
    shared.state.send_replace(State::Ended(ended.clone()));
    sink.update(Update::Ended(ended.clone())).await;
    if let Some(first) = first {
        let _ = first.send(Err(ended));
    }
}

fn closed_here(url: &str) -> ClientError {
    ClientError::new(Step::Receive, url, ErrorKind::Closed { code: 1000, reason: "by this client".into() })
}

async fn establish(shared: &Arc<Shared>, url: &str) -> Result<Session, ClientError> {
    let options = &shared.options;
    let token = match options.token.get().await {
        Ok(token) => token,
        Err(error) => return Err(ClientError::io(Step::Refresh, url, format!("no token: {error:#}"))),
    };
    let mut socket = dial::dial(url, options.encoding, options.step_timeout).await?;
    let began = tokio::time::Instant::now();
    let (link, queued) = Link::new(url, options.encoding, options.write_queue);
    let cursors = shared.lines.lock().cursors();
    let connect = client_frame::Body::Connect(proto::Connect {
        token,
        device: options.device.clone(),
        cursors: cursors.into_iter().map(|(conversation, seq)| proto::Cursor { conversation, seq }).collect(),
        receipts: options.receipts,
    });
    let limit = options.step_timeout;
    let welcome =
        match tokio::time::timeout(limit, greet(&link, &mut socket, connect, options.encoding)).await {
            Ok(welcome) => welcome.map_err(|kind| ClientError::new(Step::Connect, url, kind))?,
            Err(_) => return Err(ClientError::new(Step::Connect, url, ErrorKind::Timeout(limit))),
        };
    let times = ConnectTimes { tcp: socket.tcp, upgrade: socket.upgrade, welcome: began.elapsed() };
    let heartbeat = Duration::from_millis(u64::from(welcome.heartbeat_ms).max(100));
    let acks = {
        let shared = shared.clone();
        move || acks(&shared)
    };
    link.heard();
    shared.tasks.spawn(write_loop(link.clone(), queued, socket.writer, heartbeat, options.ack_every, acks));
    Ok(Session { link, reader: socket.reader, welcome, times })
}

fn acks(shared: &Shared) -> Vec<client_frame::Body> {
    if !shared.options.acks {
        return Vec::new();
    }
    let moved = shared.lines.lock().take_acks();
    moved
        .into_iter()
        .map(|(conversation, seq)| client_frame::Body::Ack(proto::Ack { conversation, seq }))
        .collect()
}

/// Sends `connect` and waits for its answer.
async fn greet(
    link: &Link,
    socket: &mut dial::Socket,
    connect: client_frame::Body,
    encoding: Encoding,
) -> Result<proto::Welcome, ErrorKind> {
    let frame = link.encode(link.id(), connect).map_err(ErrorKind::Protocol)?;
    let bytes = wire(frame);
    socket.writer.write_all(&bytes).await.map_err(|e| ErrorKind::Io(e.to_string()))?;
    loop {
        let (opcode, payload) = read(&mut socket.reader, link).await?;
        match opcode {
            OpCode::Text | OpCode::Binary => {}
            OpCode::Close => return Err(closed(&payload)),
            _ => continue,
        }
        let frame = encoding.decode(payload).map_err(ErrorKind::Protocol)?;
        return match frame.body {
            Some(server_frame::Body::Welcome(welcome)) => Ok(welcome),
            Some(server_frame::Body::Error(error)) => Err(ErrorKind::Answer(Box::new(error))),
            other => Err(ErrorKind::Protocol(format!("instead of a welcome: {other:?}"))),
        };
    }
}

/// A live session until it closes; says why it did.
async fn serve(shared: &Arc<Shared>, sink: &Sink, session: Session, first: Option<First>) -> ClientError {
    let Session { link, mut reader, welcome, times, .. } = session;
    if first.is_none() {
        Counters::add(&shared.counters.reconnects, 1);
    }
    starts(shared, &welcome.conversations);
    let welcome = Arc::new(welcome);
    shared.state.send_replace(State::Online(link.clone(), welcome.clone()));
    // Only now: whoever is told "connected" finds the session online.
    if let Some(first) = first {
        let _ = first.send(Ok(times));
    }
    sink.update(Update::Connected(welcome)).await;
    // The reader is dropped, never resumed, when one of the others ends first: read_frame is not cancel-safe.
    let kind = tokio::select! {
        kind = receive(shared, sink, &link, &mut reader) => kind,
        () = link.dead.cancelled() => ErrorKind::Closed { code: 1006, reason: "silent or unwritable".into() },
        () = shared.stop.cancelled() => {
            link.close(1000);
            ErrorKind::Closed { code: 1000, reason: "by this client".into() }
        }
    };
    let error = ClientError::new(Step::Receive, link.address.clone(), kind);
    if shared.stop.is_cancelled() {
        // The close frame that was just queued goes out with the writer's last burst.
        link.finish();
        return error;
    }
    link.end();
    shared.state.send_replace(State::Offline);
    Counters::add(&shared.counters.disconnects, 1);
    sink.update(Update::Disconnected(error.clone())).await;
    error
}

async fn receive(shared: &Shared, sink: &Sink, link: &Link, reader: &mut Reader) -> ErrorKind {
    loop {
        let (opcode, payload) = match read(reader, link).await {
            Ok(frame) => frame,
            Err(kind) => return kind,
        };
        link.heard();
        Counters::add(&shared.counters.frames, 1);
        Counters::add(&shared.counters.bytes, payload.len() as u64);
        let handled = match opcode {
            OpCode::Binary => binary(shared, sink, link, payload).await,
            OpCode::Text => whole(shared, sink, link, Encoding::Json, payload).await,
            OpCode::Close => {
                link.close(1000);
                return closed(&payload);
            }
            _ => Ok(()),
        };
        if let Err(what) = handled {
            link.close(1002);
            return ErrorKind::Protocol(what);
        }
    }
}

async fn read(reader: &mut Reader, link: &Link) -> Result<(OpCode, Bytes), ErrorKind> {
    let mut send = |frame: Frame<'_>| link.pong(frame.payload.to_vec());
    let frame = reader.read_frame(&mut send).await.map_err(|error| match error {
        WebSocketError::UnexpectedEOF | WebSocketError::ConnectionClosed => {
            ErrorKind::Closed { code: 1006, reason: "without a close frame".into() }
        }
        other => ErrorKind::Io(other.to_string()),
    })?;
    let payload = match frame.payload {
        Payload::Bytes(bytes) => bytes.freeze(),
        Payload::Owned(bytes) => Bytes::from(bytes),
        Payload::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
        Payload::BorrowedMut(bytes) => Bytes::copy_from_slice(bytes),
    };
    Ok((frame.opcode, payload))
}

async fn binary(shared: &Shared, sink: &Sink, link: &Link, payload: Bytes) -> Result<(), String> {
    if let Sink::Raw(handler) = sink {
        let seen = |event: RawEvent<'_>| one_event(shared, handler.as_ref(), &event);
        if scan_events(&payload, seen)? {
            return Ok(());
        }
    }
    whole(shared, sink, link, Encoding::Proto, payload).await
}

fn one_event(shared: &Shared, handler: &dyn Handler, event: &RawEvent<'_>) {
    let order = shared.lines.lock().event(event.conversation, event.seq);
    shared.counters.order(order);
    handler.event(event, order);
}

/// Everything but the fast path.
async fn whole(
    shared: &Shared,
    sink: &Sink,
    link: &Link,
    encoding: Encoding,
    payload: Bytes,
) -> Result<(), String> {
    use server_frame::Body;
    let frame = encoding.decode(payload)?;
    let Some(body) = frame.body else {
        return Ok(());
    };
    if frame.id > 0 {
        link.answered(frame.id, body);
        return Ok(());
    }
    match body {
        Body::Events(events) => {
            for event in events.events {
                typed_event(shared, sink, event).await;
            }
        }
        Body::Gap(gap) => {
            Counters::add(&shared.counters.declared_gaps, 1);
            shared.lines.lock().gap(&gap.conversation, gap.from, gap.to);
            sink.update(Update::Gap(gap)).await;
        }
        Body::Conversations(list) => {
            starts(shared, &list.conversations);
            sink.update(Update::Conversations(list.conversations)).await;
        }
        Body::Joined(state) => {
            starts(shared, std::slice::from_ref(&state));
            sink.update(Update::Joined(Box::new(state))).await;
        }
        Body::Cursor(moved) => sink.update(Update::Cursor(moved)).await,
        Body::Persisted(persisted) => sink.update(Update::Persisted(persisted)).await,
        Body::Moved(moved) => sink.update(Update::Moved(moved)).await,
        Body::Error(error) => tracing::debug!(code = error.code, error.message, "refused without a request"),
        // Answers that carry no id answer nothing that was asked.
        Body::Welcome(_) | Body::Published(_) | Body::History(_) | Body::Ok(_) => {}
    }
    Ok(())
}

async fn typed_event(shared: &Shared, sink: &Sink, event: proto::Event) {
    match sink {
        Sink::Raw(handler) => one_event(shared, handler.as_ref(), &RawEvent::from(&event)),
        Sink::Queue(queue) => {
            let order = shared.lines.lock().event(&event.conversation, event.seq);
            shared.counters.order(order);
            if order != Order::Duplicate {
                let _ = queue.send(Update::Event(Box::new(event))).await;
            }
        }
    }
}

fn starts(shared: &Shared, conversations: &[proto::ConversationState]) {
    let mut lines = shared.lines.lock();
    for state in conversations {
        if let Start::Skips { .. } = lines.starts(&state.conversation, state.live_after) {
            Counters::add(&shared.counters.holes, 1);
        }
    }
}

fn closed(payload: &[u8]) -> ErrorKind {
    match payload.split_at_checked(2) {
        Some((code, reason)) => ErrorKind::Closed {
            code: u16::from_be_bytes([code[0], code[1]]),
            reason: String::from_utf8_lossy(reason).into_owned(),
        },
        None => ErrorKind::Closed { code: 1005, reason: "without a code".into() },
    }
}
