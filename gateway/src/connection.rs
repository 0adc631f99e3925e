//! One WebSocket from its upgrade to its end: a reader, a writer, a session between them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use lapwing_gateway_core::{
    Encoding,
    wire::{self, Incoming},
};
use lapwing_proto::client::{ClientFrame, client_frame};
use lapwing_runtime::{OnError, queue::Receiver};
use tokio::net::tcp::OwnedWriteHalf;

use crate::{
    close::Close,
    connect::{self, Candidate},
    gateway::Gateway,
    presence, requests,
    session::{Outbox, Session},
    socket::{self, Read, SocketReader},
};

/// How often a reader that is held back by its own full way out looks again.
const BACKPRESSURE: Duration = Duration::from_millis(5);

pub async fn run(gateway: Arc<Gateway>, upgraded: Upgraded, encoding: Encoding, remote: SocketAddr) {
    let Some((stream, ahead)) = socket::take_over(upgraded) else {
        tracing::error!("an upgraded connection is not the TCP stream that it was");
        return;
    };
    let (read_half, write_half) = stream.into_split();
    let limits = &gateway.limits;
    let mut reader = SocketReader::new(read_half, ahead, limits.max_frame, limits.read_buffer);
    let (out, queue) = Outbox::new(limits.write_watermark);
    let out = Arc::new(out);
    let remote = remote.to_string();
    match first_frame(&gateway, &mut reader, encoding).await {
        Ok((frame, connect)) => {
            let traceparent = requests::trace_of(&frame);
            let (frame_id, out) = (frame.id, out.clone());
            let candidate =
                Candidate { out: out.clone(), encoding, remote, frame_id, traceparent: traceparent.clone() };
            match connect::open(&gateway, candidate, connect).await {
                Ok((session, welcome)) => {
                    start_writer(&gateway, write_half, Some(welcome), queue, &out);
                    let close = read(&gateway, &session, &mut reader).await;
                    session.close(close);
                    presence::ended(&gateway, &session);
                }
                Err(refused) => {
                    let first = connect::error_frame(&refused, frame_id, &traceparent, encoding);
                    out.close(refused.close);
                    start_writer(&gateway, write_half, Some(first), queue, &out);
                }
            }
        }
        Err(close) => {
            out.close(close);
            start_writer(&gateway, write_half, None, queue, &out);
        }
    }
}

fn start_writer(
    gateway: &Arc<Gateway>,
    half: OwnedWriteHalf,
    first: Option<Bytes>,
    queue: Receiver<Bytes>,
    out: &Arc<Outbox>,
) {
    gateway.tasks.spawn("socket writer", OnError::Log, socket::write(half, first, queue, out.clone()));
}

async fn first_frame(
    gateway: &Gateway,
    reader: &mut SocketReader,
    encoding: Encoding,
) -> Result<(ClientFrame, lapwing_proto::client::Connect), Close> {
    let stop = gateway.tasks.stopping();
    let reading = async {
        loop {
            match reader.next().await {
                // A ping before the first frame is answered by that frame's answer.
                Read::Message(message) => {
                    if let Some(payload) = payload(message, encoding)? {
                        return Ok(payload);
                    }
                }
                Read::Broken(violation) => return Err(Close::Frame(violation)),
                Read::Ended => return Err(Close::Lost),
            }
        }
    };
    let payload = tokio::select! {
        read = tokio::time::timeout(gateway.limits.handshake, reading) => {
            read.map_err(|_| Close::Protocol("no connect frame in time"))??
        }
        () = stop.cancelled() => return Err(Close::GoingAway),
    };
    let frame = requests::decode(payload, encoding)?;
    match frame.body.clone() {
        Some(client_frame::Body::Connect(connect)) => Ok((frame, connect)),
        _ => Err(Close::Protocol("connect must come first")),
    }
}

/// The bytes of a client's frame; None: a control frame that needs no more.
fn payload(message: Incoming, encoding: Encoding) -> Result<Option<Bytes>, Close> {
    match (message, encoding) {
        (Incoming::Binary(payload), Encoding::Binary) | (Incoming::Text(payload), Encoding::Json) => {
            Ok(Some(payload))
        }
        (Incoming::Binary(_), Encoding::Json) => Err(Close::Protocol("binary frame on lapwing.v1.json")),
        (Incoming::Text(_), Encoding::Binary) => Err(Close::Protocol("text frame on lapwing.v1.proto")),
        (Incoming::Close(code), _) => Err(Close::Client(code.unwrap_or(1000))),
        (Incoming::Ping(_) | Incoming::Pong, _) => Ok(None),
    }
}

/// Reads until one side ends the connection; says how.
async fn read(gateway: &Arc<Gateway>, session: &Arc<Session>, reader: &mut SocketReader) -> Close {
    let closing = session.out.stopped();
    loop {
        while session.out.is_over() && !session.is_closing() {
            // Who does not take its answers is not read from either (R-GW-3).
            tokio::time::sleep(BACKPRESSURE).await;
        }
        let read = tokio::select! {
            read = reader.next() => read,
            () = closing.cancelled() => return session.out.closing().unwrap_or(Close::Lost),
        };
        let message = match read {
            Read::Message(message) => message,
            Read::Broken(violation) => return Close::Frame(violation),
            Read::Ended => return Close::Lost,
        };
        session.heard();
        if let Incoming::Ping(data) = &message {
            session.out.push(wire::pong(data));
        }
        let handled = payload(message, session.encoding).and_then(|payload| match payload {
            Some(payload) => {
                let frame = requests::decode(payload, session.encoding)?;
                requests::handle(gateway, session, frame)
            }
            None => Ok(()),
        });
        if let Err(close) = handled {
            return close;
        }
    }
}
