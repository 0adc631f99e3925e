//! One live socket: requests go in through a bounded queue, one writer puts them out, answers come back by id.
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fastwebsockets::{Frame, OpCode, Payload};
use lapwing_proto::client::{self as proto, client_frame, server_frame};
use parking_lot::Mutex;
use tokio::{
    io::AsyncWriteExt,
    net::tcp::OwnedWriteHalf,
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    codec::Encoding,
    error::{ClientError, ErrorKind, Step},
    outcome::Answer,
};

pub(crate) struct Outgoing {
    pub(crate) opcode: OpCode,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct Link {
    pub(crate) address: String,
    encoding: Encoding,
    out: mpsc::Sender<Outgoing>,
    pending: Mutex<Option<HashMap<u64, oneshot::Sender<server_frame::Body>>>>,
    next_id: AtomicU64,
    born: Instant,
    /// Milliseconds after `born` at which something last came in.
    heard: AtomicU64,
    pub(crate) dead: CancellationToken,
}

/// How a request went that did not get an answer.
pub(crate) enum Silence {
    NotSent(String),
    Timeout,
    Closed,
}

impl Link {
    pub(crate) fn new(
        address: &str,
        encoding: Encoding,
        queue: usize,
    ) -> (Arc<Self>, mpsc::Receiver<Outgoing>) {
        let (out, queued) = mpsc::channel(queue);
        let link = Self {
            address: address.to_owned(),
            encoding,
            out,
            pending: Mutex::new(Some(HashMap::new())),
            next_id: AtomicU64::new(1),
            born: Instant::now(),
            heard: AtomicU64::new(0),
            dead: CancellationToken::new(),
        };
        (Arc::new(link), queued)
    }

    pub(crate) fn encode(&self, id: u64, body: client_frame::Body) -> Result<Outgoing, String> {
        let frame = proto::ClientFrame { id, traceparent: String::new(), body: Some(body) };
        Ok(Outgoing { opcode: self.encoding.opcode(), payload: self.encoding.encode(&frame)? })
    }

    pub(crate) fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) async fn request(
        &self,
        body: client_frame::Body,
        limit: Duration,
    ) -> Result<server_frame::Body, Silence> {
        self.request_told(body, limit, || ()).await
    }

    /// `sent` is called once the frame stands in the writer's queue, whose order is the wire's.
    pub(crate) async fn request_told(
        &self,
        body: client_frame::Body,
        limit: Duration,
        sent: impl FnOnce(),
    ) -> Result<server_frame::Body, Silence> {
        let id = self.id();
        let frame = self.encode(id, body).map_err(Silence::NotSent)?;
        let (answer, answered) = oneshot::channel();
        match self.pending.lock().as_mut() {
            Some(pending) => pending.insert(id, answer),
            None => return Err(Silence::NotSent("the connection is closed".into())),
        };
        let written = async {
            if self.out.send(frame).await.is_err() {
                return Err(Silence::NotSent("the connection is closed".into()));
            }
            sent();
            answered.await.map_err(|_| Silence::Closed)
        };
        let result = timeout(limit, written).await.unwrap_or(Err(Silence::Timeout));
        if result.is_err()
            && let Some(pending) = self.pending.lock().as_mut()
        {
            pending.remove(&id);
        }
        result
    }

    /// A frame that gets no answer; a full queue drops it, since cursors are cumulative and come again.
    pub(crate) fn cast(&self, body: client_frame::Body) -> bool {
        self.encode(self.id(), body).is_ok_and(|frame| self.out.try_send(frame).is_ok())
    }

    pub(crate) async fn pong(&self, payload: Vec<u8>) -> Result<(), ErrorKind> {
        let frame = Outgoing { opcode: OpCode::Pong, payload };
        self.out.send(frame).await.map_err(|_| ErrorKind::Offline("the writer has ended".into()))
    }

    pub(crate) fn close(&self, code: u16) {
        let payload = code.to_be_bytes().to_vec();
        if self.out.try_send(Outgoing { opcode: OpCode::Close, payload }).is_err() {
            self.dead.cancel();
        }
    }

    pub(crate) fn answered(&self, id: u64, body: server_frame::Body) {
        let waiting = self.pending.lock().as_mut().and_then(|pending| pending.remove(&id));
        if let Some(waiting) = waiting {
            // A caller that stopped waiting has its own word on that.
            let _ = waiting.send(body);
        }
    }

    pub(crate) fn heard(&self) {
        self.heard.store(self.born.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn silent_for(&self) -> Duration {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(heard)
    }

    /// From here on no request is taken; those that wait hear that the socket closed.
    pub(crate) fn end(&self) {
        self.dead.cancel();
        self.pending.lock().take();
    }

    /// No more requests, but what is queued (the close frame) still goes out.
    pub(crate) fn finish(&self) {
        self.pending.lock().take();
    }

    pub(crate) fn silence(&self, step: Step, silence: Silence, limit: Duration) -> ClientError {
        let kind = match silence {
            Silence::NotSent(why) => ErrorKind::Offline(why),
            Silence::Timeout => ErrorKind::Timeout(limit),
            Silence::Closed => ErrorKind::Closed { code: 1006, reason: "before the answer".into() },
        };
        ClientError::new(step, self.address.clone(), kind)
    }
}

impl From<Silence> for Answer {
    fn from(silence: Silence) -> Self {
        match silence {
            Silence::NotSent(why) => Answer::NotSent(why),
            Silence::Timeout => Answer::Timeout,
            Silence::Closed => Answer::Closed("before the answer".into()),
        }
    }
}

fn append(frame: Outgoing, buffer: &mut Vec<u8>, scratch: &mut Vec<u8>) {
    let mut frame = Frame::new(true, frame.opcode, None, Payload::Owned(frame.payload));
    frame.mask();
    buffer.extend_from_slice(frame.write(scratch));
}

/// One frame as it goes over the wire.
pub(crate) fn wire(frame: Outgoing) -> Vec<u8> {
    let mut buffer = Vec::new();
    append(frame, &mut buffer, &mut Vec::new());
    buffer
}

/// Frames taken in one go and given to the kernel by one call.
const BURST: usize = 64;
const BURST_BYTES: usize = 64 * 1024;

/// The one writer of a socket: coalesces what waits, pings when nothing else was sent, ends a connection that is silent.
pub(crate) async fn write_loop(
    link: Arc<Link>,
    mut queued: mpsc::Receiver<Outgoing>,
    mut socket: OwnedWriteHalf,
    heartbeat: Duration,
    ack_every: Duration,
    acks: impl Fn() -> Vec<client_frame::Body> + Send,
) {
    let mut buffer = Vec::new();
    let mut scratch = Vec::new();
    let mut burst = Vec::new();
    let mut wrote = Instant::now();
    let ack_every = ack_every.max(Duration::from_secs(1));
    let tick = heartbeat.min(ack_every);
    let mut acked = Instant::now();
    let mut next_tick = tokio::time::Instant::now() + tick;
    loop {
        tokio::select! {
            biased;
            () = link.dead.cancelled() => break,
            n = queued.recv_many(&mut burst, BURST) => if n == 0 { break },
            () = tokio::time::sleep_until(next_tick) => {
                next_tick = tokio::time::Instant::now() + tick;
                if link.silent_for() > heartbeat * 2 {
                    break;
                }
                if acked.elapsed() >= ack_every {
                    acked = Instant::now();
                    burst.extend(acks().into_iter().filter_map(|ack| link.encode(link.id(), ack).ok()));
                }
                if wrote.elapsed() + tick >= heartbeat {
                    burst.extend(link.encode(link.id(), client_frame::Body::Ping(proto::Ping {})));
                }
            }
        }
        let mut closing = false;
        for frame in burst.drain(..) {
            closing |= frame.opcode == OpCode::Close;
            append(frame, &mut buffer, &mut scratch);
        }
        if buffer.is_empty() {
            continue;
        }
        // A socket that takes nothing for two heartbeats is dead, and so is one that fails.
        let written = timeout(heartbeat * 2, socket.write_all(&buffer)).await;
        if !matches!(written, Ok(Ok(()))) {
            break;
        }
        wrote = Instant::now();
        buffer.clear();
        if buffer.capacity() > BURST_BYTES {
            buffer = Vec::new();
        }
        if scratch.capacity() > BURST_BYTES {
            scratch = Vec::new();
        }
        if closing {
            // The other side answers with its own close and ends the connection; the reader sees that.
            let _ = socket.shutdown().await;
            return;
        }
    }
    link.dead.cancel();
}
