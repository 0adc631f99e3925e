//! Batches from the owners' lanes → local sessions. Each event is decoded once, handed on by reference, answered for.

use std::sync::Arc;

use bytes::Bytes;
use lapwing_gateway_core::{
    EventFrame,
    batches::{Batches, Seen},
    room::Room,
};
use lapwing_links::nats::{Message, Responder, SubscriptionOptions};
use lapwing_model::{ConversationKey, PartitionId};
use lapwing_proto::{
    Message as _,
    bus::{
        Announce, Deliver, DeliverItem, DeliverReply, DeliverResult, Digest, Done, NodeReply, NodeRequest,
        Receipt, deliver_item, node_reply, node_request,
    },
    client::{CursorMoved, Persisted, server_frame::Body},
    record::CursorRecord,
};
use lapwing_runtime::{
    OnError, metrics,
    queue::{Queue, Receiver, Sender},
    telemetry,
};

use crate::{attach, catch_up, gateway::Gateway, session::Seat};

/// A lane's batches are worked in order, the lanes side by side.
const WORKERS: usize = 4;
const WORKER_ITEMS: usize = 1024;
const WORKER_BYTES: usize = 32 << 20;

type Work = (Deliver, Option<Responder>);

/// Hears `lw.g.<node>` until the service stops.
pub async fn run(gateway: Arc<Gateway>) -> anyhow::Result<()> {
    let subject = format!("lw.g.{}", gateway.node);
    let options = SubscriptionOptions::named("deliver_inbound").items(4096).bytes(64 << 20);
    let mut requests = gateway.nats.subscribe(&subject, options).await?;
    let workers: Vec<Sender<Work>> = (0..WORKERS).map(|_| start_worker(&gateway)).collect();
    while let Some(message) = requests.next().await {
        if requests.take_lost() > 0 {
            // Their senders get no answer and send them again; nothing is lost for good.
            ::metrics::counter!("lapwing_gateway_inbound_lost_total").increment(1);
        }
        match NodeRequest::decode(message.payload.clone()).ok().and_then(|request| request.body) {
            Some(node_request::Body::Deliver(deliver)) => {
                let worker = &workers[deliver.lane as usize % WORKERS];
                let weight = message.payload.len();
                if let Err(full) = worker.try_push((deliver, message.responder()), weight) {
                    let (deliver, responder) = full.into_inner();
                    let results = vec![DeliverResult::HubFull.into(); deliver.items.len()];
                    answer(responder, node_reply::Body::Deliver(DeliverReply { results })).await;
                }
            }
            Some(other) => handle(&gateway, &message, other).await,
            None => tracing::error!(subject, "a request that cannot be read"),
        }
    }
    Ok(())
}

async fn handle(gateway: &Arc<Gateway>, message: &Message, body: node_request::Body) {
    let reply = match body {
        node_request::Body::Announce(announce) => {
            handle_announce(gateway, announce);
            node_reply::Body::Done(Done {})
        }
        node_request::Body::InterestQuery(query) => {
            if let Some(partition) = query.partition.as_ref().map(PartitionId::from) {
                attach::announce_partition(gateway, partition);
            }
            node_reply::Body::Done(Done {})
        }
        node_request::Body::Digest(digest) => {
            handle_digest(gateway, digest);
            node_reply::Body::Done(Done {})
        }
        node_request::Body::Deliver(_) => return,
    };
    answer(message.responder(), reply).await;
}

async fn answer(responder: Option<Responder>, body: node_reply::Body) {
    let Some(responder) = responder else { return };
    let payload = Bytes::from(NodeReply { body: Some(body) }.encode_to_vec());
    if let Err(error) = responder.respond(payload).await {
        tracing::debug!("a router was not answered and will ask again: {error}");
    }
}

fn start_worker(gateway: &Arc<Gateway>) -> Sender<Work> {
    let (sender, receiver) = Queue::named("deliver").items(WORKER_ITEMS).bytes(WORKER_BYTES).open();
    gateway.tasks.spawn("deliver", OnError::StopService, work(gateway.clone(), receiver));
    sender
}

async fn work(gateway: Arc<Gateway>, mut queue: Receiver<Work>) {
    let mut batches = Batches::default();
    while let Some((deliver, responder)) = queue.pop().await {
        let results = handle_batch(&gateway, &mut batches, deliver);
        answer(responder, node_reply::Body::Deliver(DeliverReply { results })).await;
    }
}

fn handle_batch(gateway: &Arc<Gateway>, batches: &mut Batches, deliver: Deliver) -> Vec<i32> {
    let Deliver { router, incarnation, lane, batch, items } = deliver;
    match batches.see(&router, incarnation, lane, batch) {
        Seen::New => {}
        Seen::Repeated(Some(results)) => return results,
        // What a repeated or late batch holds is old: events are told by their seq, so delivering it again is harmless.
        Seen::Repeated(None) | Seen::Stale => {}
    }
    let timer = metrics::stage("deliver");
    let results: Vec<i32> = items.into_iter().map(|item| handle_item(gateway, item).into()).collect();
    timer.done("ok");
    batches.answered(&router, incarnation, lane, batch, &results);
    results
}

fn handle_item(gateway: &Arc<Gateway>, item: DeliverItem) -> DeliverResult {
    let key = ConversationKey::new(item.tenant, item.conversation);
    match item.body {
        Some(deliver_item::Body::Event(event)) => handle_event(gateway, &key, item.seq, event, &item.left),
        Some(deliver_item::Body::Head(head)) => {
            with(gateway, &key, |room, effects| room.handle_head(head.head, false, effects));
            DeliverResult::Ok
        }
        Some(deliver_item::Body::Receipt(receipt)) => handle_receipt(gateway, &key, &receipt),
        Some(deliver_item::Body::Cursor(cursor)) => handle_cursor(gateway, &key, &cursor),
        None => DeliverResult::PeerRejected,
    }
}

fn with(
    gateway: &Arc<Gateway>,
    key: &ConversationKey,
    work: impl FnOnce(&mut Room<Seat>, &mut Vec<lapwing_gateway_core::room::Effect>),
) {
    if let Some(((), effects)) = gateway.hub.with(key, work) {
        catch_up::run(gateway, key, effects);
    }
}

fn handle_event(
    gateway: &Arc<Gateway>,
    key: &ConversationKey,
    seq: u64,
    event: Bytes,
    left: &[String],
) -> DeliverResult {
    let frame = match EventFrame::decode(event) {
        Ok(frame) => frame,
        Err(error) => {
            tracing::error!(tenant = %key.tenant, conversation = %key.conversation, seq,
                "an event that cannot be read: {error}");
            return DeliverResult::PeerRejected;
        }
    };
    let span = tracing::debug_span!("deliver", tenant = %key.tenant, conversation = %key.conversation, seq);
    let _span = (!span.is_disabled()).then(|| telemetry::span_from(&frame.traceparent, span).entered());
    with(gateway, key, |room, effects| {
        room.handle_event(&frame, effects);
        for user in left {
            room.handle_left(user, frame.seq, effects);
        }
    });
    DeliverResult::Ok
}

fn handle_receipt(gateway: &Gateway, key: &ConversationKey, receipt: &Receipt) -> DeliverResult {
    for of in &receipt.senders {
        let sessions = gateway.sessions.of_user(&key.tenant, &of.sender);
        for session in sessions.iter().filter(|session| session.receipts) {
            session.push(Body::Persisted(Persisted {
                conversation: key.conversation.to_string(),
                persisted_seq: receipt.persisted_seq,
                seqs: of.seqs.clone(),
                dead_lettered: of.dead_lettered.clone(),
            }));
        }
    }
    DeliverResult::Ok
}

fn handle_cursor(gateway: &Gateway, key: &ConversationKey, cursor: &CursorRecord) -> DeliverResult {
    let moved = CursorMoved {
        conversation: cursor.conversation.clone(),
        user: cursor.user.clone(),
        read_seq: cursor.read_seq,
        read_n: cursor.read_n,
        delivered_seq: cursor.delivered_seq,
    };
    let seats = gateway
        .hub
        .with(key, |room, _| room.sinks().map(|(seat, _)| seat.session.clone()).collect::<Vec<_>>());
    for session in seats.into_iter().flat_map(|(sessions, _)| sessions) {
        session.push(Body::Cursor(moved.clone()));
    }
    DeliverResult::Ok
}

fn handle_announce(gateway: &Arc<Gateway>, announce: Announce) {
    let key = ConversationKey::new(announce.tenant, announce.conversation);
    let sessions: Vec<_> =
        announce.users.iter().flat_map(|user| gateway.sessions.of_user(&key.tenant, user)).collect();
    if !sessions.is_empty() {
        attach::join(gateway, key, sessions, announce.seq);
    }
}

fn handle_digest(gateway: &Arc<Gateway>, digest: Digest) {
    for item in digest.items {
        let key = ConversationKey::new(item.tenant, item.conversation);
        with(gateway, &key, |room, effects| room.handle_head(item.head, true, effects));
    }
}
