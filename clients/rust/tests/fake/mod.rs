//! A gateway of a few lines: enough of the protocol to see the client's side of it, in both encodings.
#![allow(clippy::unwrap_used)]
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use fastwebsockets::{Frame, OpCode, Payload, WebSocket, upgrade};
use http_body_util::Empty;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use lapwing_client::{Encoding, proto};
use lapwing_proto::{
    Message,
    client::{client_frame::Body as Asked, server_frame::Body as Told},
};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// What the fake does with the next publishes, in turn; accepts once the list is empty.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Refuse(u32),
    /// Stores it and closes the socket instead of answering.
    StoreAndCut(u16),
    /// Neither stores nor answers.
    Silence,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) log: Mutex<Vec<proto::Event>>,
    pub(crate) acts: Mutex<Vec<Act>>,
    pub(crate) attempts: Mutex<Vec<(String, u32)>>,
    pub(crate) acks: Mutex<HashMap<String, u64>>,
    pub(crate) pings: AtomicU64,
    pub(crate) connects: Mutex<Vec<proto::Connect>>,
    pub(crate) heartbeat_ms: AtomicU64,
    /// Seqs left out of what is pushed.
    pub(crate) lose: Mutex<Vec<u64>>,
    pub(crate) refuse_connect: Mutex<Option<u32>>,
}

pub(crate) const CONVERSATION: &str = "grp.fake";

pub(crate) struct Fake {
    pub(crate) url: String,
    pub(crate) world: Arc<World>,
    _tasks: TaskTracker,
}

impl Fake {
    pub(crate) async fn start() -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let world = Arc::new(World::default());
        world.heartbeat_ms.store(25_000, Ordering::Relaxed);
        let tasks = TaskTracker::new();
        let (accepting, served) = (tasks.clone(), world.clone());
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (world, inner) = (served.clone(), accepting.clone());
                let service = service_fn(move |request| answer(request, world.clone(), inner.clone()));
                accepting.spawn(async move {
                    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    let _ = connection.with_upgrades().await;
                });
            }
        });
        Fake { url, world, _tasks: tasks }
    }
}

async fn answer(
    mut request: Request<Incoming>,
    world: Arc<World>,
    tasks: TaskTracker,
) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let asked = request.headers().get("sec-websocket-protocol").and_then(|v| v.to_str().ok());
    let encoding = match asked {
        Some("lapwing.v1.json") => Encoding::Json,
        Some("lapwing.v1.proto") => Encoding::Proto,
        _ => return Ok(Response::builder().status(400).body(Empty::new()).unwrap()),
    };
    let (mut response, socket) = upgrade::upgrade(&mut request).unwrap();
    response.headers_mut().insert("sec-websocket-protocol", encoding.subprotocol().parse().unwrap());
    tasks.spawn(async move {
        let socket = socket.await.unwrap();
        let _ = serve(socket, encoding, world).await;
    });
    Ok(response)
}

type Socket = WebSocket<TokioIo<hyper::upgrade::Upgraded>>;

async fn serve(mut socket: Socket, encoding: Encoding, world: Arc<World>) -> anyhow::Result<()> {
    loop {
        let frame = socket.read_frame().await?;
        let asked = match frame.opcode {
            OpCode::Binary => proto::ClientFrame::decode(&frame.payload[..])?,
            OpCode::Text => serde_json::from_slice(&frame.payload)?,
            OpCode::Close => return Ok(()),
            _ => continue,
        };
        let id = asked.id;
        match asked.body.unwrap() {
            Asked::Connect(connect) => {
                let refuse = *world.refuse_connect.lock();
                let cursor = connect.cursors.iter().find(|c| c.conversation == CONVERSATION).map(|c| c.seq);
                world.connects.lock().push(connect);
                if let Some(code) = refuse {
                    say(&mut socket, encoding, id, Told::Error(error(code))).await?;
                    continue;
                }
                let head = world.log.lock().len() as u64;
                let after = cursor.unwrap_or(head);
                say(&mut socket, encoding, id, Told::Welcome(welcome(&world, after, head))).await?;
                push(&mut socket, encoding, &world, after).await?;
            }
            Asked::Publish(publish) => {
                if let Some(code) = published(&mut socket, encoding, &world, id, publish).await? {
                    socket.write_frame(Frame::close(code, b"fake")).await?;
                    return Ok(());
                }
            }
            Asked::Ack(ack) => drop(world.acks.lock().insert(ack.conversation, ack.seq)),
            Asked::History(request) => {
                let after = request.after.unwrap_or(0);
                let log = world.log.lock().clone();
                let limit = request.limit as usize;
                let events: Vec<_> = log.iter().filter(|e| e.seq > after).take(limit).cloned().collect();
                let head = log.len() as u64;
                let page = proto::HistoryPage { events, head, persisted_seq: head, ..Default::default() };
                say(&mut socket, encoding, id, Told::History(page)).await?;
            }
            Asked::Ping(_) => {
                world.pings.fetch_add(1, Ordering::Relaxed);
                say(&mut socket, encoding, id, Told::Ok(proto::Ok {})).await?;
            }
            Asked::Sync(_) | Asked::Refresh(_) => {
                say(&mut socket, encoding, id, Told::Ok(proto::Ok {})).await?
            }
            Asked::Read(_) => {}
        }
    }
}

/// Some(code): the socket is to be closed with it.
async fn published(
    socket: &mut Socket,
    encoding: Encoding,
    world: &World,
    id: u64,
    publish: proto::Publish,
) -> anyhow::Result<Option<u16>> {
    world.attempts.lock().push((publish.client_mid.clone(), publish.attempt));
    let act = {
        let mut acts = world.acts.lock();
        if acts.is_empty() { None } else { Some(acts.remove(0)) }
    };
    if let Some(Act::Refuse(code)) = act {
        say(socket, encoding, id, Told::Error(error(code))).await?;
        return Ok(None);
    }
    if let Some(Act::Silence) = act {
        return Ok(None);
    }
    let stored = world.log.lock().iter().find(|e| e.client_mid == publish.client_mid).map(|e| e.seq);
    let outcome = if stored.is_some() { proto::Outcome::Duplicate } else { proto::Outcome::Accepted };
    let seq = match stored {
        Some(seq) => seq,
        None => {
            let mut log = world.log.lock();
            let seq = log.len() as u64 + 1;
            log.push(proto::Event {
                conversation: CONVERSATION.into(),
                seq,
                n: seq,
                sender: "me".into(),
                client_mid: publish.client_mid.clone(),
                body: publish.content.map(proto::event::Body::Message),
                ..Default::default()
            });
            seq
        }
    };
    if let Some(Act::StoreAndCut(code)) = act {
        return Ok(Some(code));
    }
    let told = proto::Published {
        conversation: CONVERSATION.into(),
        seq,
        client_mid: publish.client_mid,
        outcome: outcome.into(),
        n: seq,
        sent_at_ms: 1,
    };
    say(socket, encoding, id, Told::Published(told)).await?;
    if stored.is_none() {
        push(socket, encoding, world, seq - 1).await?;
    }
    Ok(None)
}

async fn push(socket: &mut Socket, encoding: Encoding, world: &World, after: u64) -> anyhow::Result<()> {
    let lose = world.lose.lock().clone();
    let log = world.log.lock().clone();
    let events: Vec<_> = log.into_iter().filter(|e| e.seq > after && !lose.contains(&e.seq)).collect();
    if events.is_empty() {
        return Ok(());
    }
    say(socket, encoding, 0, Told::Events(proto::Events { events })).await
}

async fn say(socket: &mut Socket, encoding: Encoding, id: u64, body: Told) -> anyhow::Result<()> {
    let frame = proto::ServerFrame { id, body: Some(body) };
    let frame = match encoding {
        Encoding::Proto => Frame::binary(Payload::Owned(frame.encode_to_vec())),
        Encoding::Json => Frame::text(Payload::Owned(serde_json::to_vec(&frame)?)),
    };
    Ok(socket.write_frame(frame).await?)
}

fn welcome(world: &World, live_after: u64, head: u64) -> proto::Welcome {
    let state = proto::ConversationState {
        conversation: CONVERSATION.into(),
        kind: proto::Kind::Group.into(),
        head,
        live_after,
        ..Default::default()
    };
    proto::Welcome {
        session: "s1".into(),
        node: "fake".into(),
        heartbeat_ms: world.heartbeat_ms.load(Ordering::Relaxed) as u32,
        conversations: vec![state],
        complete: true,
        ..Default::default()
    }
}

pub(crate) fn error(code: u32) -> proto::Error {
    let trace_id = "0123456789abcdef0123456789abcdef".into();
    proto::Error { code, name: format!("e{code}"), message: "by plan".into(), trace_id, ..Default::default() }
}
