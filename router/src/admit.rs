//! ① admit: requests of the gateways, checked and handed to their partition's queue; whoever is not the owner says so.

use std::{sync::Arc, time::Instant};

use lapwing_links::nats::{Message, SubscriptionOptions};
use lapwing_model::{
    Code, ConversationKey, Kind, PartitionId, Refusal, bucket, ids, kind, record::content_len, trace,
};
use lapwing_proto::{
    Message as _,
    bus::{self, RouterReply, RouterRequest, router_reply, router_request::Body},
};

use lapwing_runtime::{fail_point, telemetry};

use crate::{answer::To, audit, dispatch::Dispatch, router::Router, sequence};

pub(crate) async fn run(router: Arc<Router>) -> anyhow::Result<()> {
    let subject = format!("lw.r.{}", router.node());
    let options = SubscriptionOptions::named("admit").items(65_536).bytes(router.config.inbound_bytes);
    let mut requests = router.nats.subscribe(&subject, options).await?;
    let stopping = router.context.stopping();
    loop {
        let batch = tokio::select! {
            () = stopping.cancelled() => return Ok(()),
            batch = requests.next_up_to(256, 4 << 20) => batch,
        };
        if batch.is_empty() {
            return Ok(());
        }
        for message in batch {
            admit(&router, &message);
        }
    }
}

fn admit(router: &Arc<Router>, message: &Message) {
    let to = message.responder().map(To::Nats);
    match RouterRequest::decode(message.payload.clone()) {
        Ok(request) => take(router, request, to, message.traceparent(), message.payload.len()),
        Err(error) => {
            let refusal = Refusal::new(Code::Invalid, format!("unreadable request: {error}"));
            refuse(router, to, &refusal, message.traceparent());
        }
    }
}

/// A request from wherever it came.
pub(crate) fn take(
    router: &Arc<Router>,
    request: RouterRequest,
    to: Option<To>,
    traceparent: &str,
    size: usize,
) {
    let _span = telemetry::otlp_on()
        .then(|| telemetry::span_from(traceparent, tracing::debug_span!("admit")).entered());
    let Some(body) = request.body else {
        return refuse(router, to, &Refusal::new(Code::Invalid, "a request without a body"), traceparent);
    };
    match body {
        Body::Audit(audit) => audit::store(router, audit, to),
        Body::TenantChange(_) | Body::TenantGet(_) | Body::TenantList(_) => {
            router.tenants.request(router, body, to)
        }
        body => {
            let Some(id) = request.partition.as_ref().map(PartitionId::from) else {
                let refusal = Refusal::new(Code::Invalid, "a request without its partition");
                return refuse(router, to, &refusal, traceparent);
            };
            if let Err(refusal) = check(router, &id, &body) {
                return refuse(router, to, &refusal, traceparent);
            }
            if let Body::Detach(detach) = body {
                let key = ConversationKey::new(detach.tenant, detach.conversation);
                router.dispatch.push(Dispatch::Withdraw {
                    hash: key.hash64(),
                    node: detach.node,
                    incarnation: detach.incarnation,
                    counter: detach.counter,
                });
                return router.answers.send(to, &done());
            }
            if let Err((to, refusal)) = enqueue(router, &id, body, to, size) {
                refuse(router, to, &refusal, traceparent);
            }
        }
    }
}

fn enqueue(
    router: &Arc<Router>,
    id: &PartitionId,
    body: Body,
    to: Option<To>,
    size: usize,
) -> Result<(), (Option<To>, Refusal)> {
    let handles = router.partitions.read();
    let Some(queue) = handles.get(id).map(|handle| &handle.requests) else {
        router.answers.send(to, &lapwing_router_core::requests::not_owner(50));
        return Ok(());
    };
    let publish = matches!(body, Body::Publish(_));
    if publish && router.producer.in_flight_bytes() > router.config.kafka_in_flight_bytes / 2 {
        let refusal = Refusal::new(Code::Overloaded, format!("{id}: too many bytes on their way to Kafka"));
        return Err((to, refusal.retry_after(200)));
    }
    let request = sequence::Request { body, to, received: Instant::now() };
    queue.try_push(request, size).map_err(|refused| {
        let refusal = Refusal::new(Code::Overloaded, format!("{id}: its queue is full")).retry_after(200);
        (refused.into_inner().to, refusal)
    })?;
    if publish {
        fail_point("admit.after");
    }
    Ok(())
}

pub(crate) fn done() -> RouterReply {
    RouterReply { body: Some(router_reply::Body::Done(bus::Done {})) }
}

pub(crate) fn refuse(router: &Router, to: Option<To>, refusal: &Refusal, traceparent: &str) {
    let error = refusal.to_wire(trace::trace_id_of(traceparent));
    router.answers.send(to, &RouterReply { body: Some(router_reply::Body::Error(error)) });
}

/// Ids and sizes, again: the owner trusts no gateway with the log.
fn check(router: &Router, id: &PartitionId, body: &Body) -> Result<(), Refusal> {
    let invalid = |error: ids::BadId| Refusal::new(Code::Invalid, error.to_string());
    let place = |tenant: &str, conversation: &str| {
        ids::check_id("tenant", tenant).map_err(invalid)?;
        ids::check_conversation(conversation).map_err(invalid)?;
        let kind = Kind::of_conversation(conversation);
        let Some((kind, bucket)) = kind.zip(bucket::bucket_of_ids(tenant, conversation)) else {
            return Err(Refusal::new(Code::NotFound, format!("{conversation}: no such conversation")));
        };
        let partition = bucket::partition_of(bucket, router.config.partitions);
        if (kind.topic(), partition) == (&*id.topic, id.partition) {
            return Ok(());
        }
        let of = PartitionId::new(kind.topic(), partition);
        Err(Refusal::new(Code::Invalid, format!("{tenant}/{conversation} belongs to {of}, not to {id}")))
    };
    match body {
        Body::Publish(batch) => {
            place(&batch.tenant, &batch.conversation)?;
            // Nobody could tell it from a new message any more (R-ACK-4).
            let oldest = router.config.dedupe_window_ms.saturating_sub(10 * 60 * 1000);
            let age = lapwing_runtime::time::now_ms().saturating_sub(batch.sent_at_ms);
            if batch.sent_at_ms > 0 && age > oldest {
                return Err(Refusal::new(Code::PublishUnknown, format!("sent {age} ms ago")).cause("too_old"));
            }
            ids::check_id("sender", &batch.sender).map_err(invalid)?;
            red_line(router, id, batch)?;
            for item in &batch.items {
                ids::check_id("client_mid", &item.client_mid).map_err(invalid)?;
                let size = item.content.as_ref().map_or(0, content_len);
                if size > router.config.max_body {
                    let message = format!("{size} bytes; at most {}", router.config.max_body);
                    return Err(Refusal::new(Code::TooLarge, message));
                }
            }
            Ok(())
        }
        Body::Attach(batch) => {
            batch.items.iter().try_for_each(|item| place(&item.tenant, &item.conversation))
        }
        Body::Fetch(ask) => place(&ask.tenant, &ask.conversation),
        Body::Cursors(batch) => batch.cursors.iter().try_for_each(|of| place(&of.tenant, &of.conversation)),
        Body::Trace(ask) => place(&ask.tenant, &ask.conversation),
        Body::Detach(ask) => place(&ask.tenant, &ask.conversation),
        Body::Command(command) => {
            place(&command.tenant, &command.conversation)?;
            check_command(command)
        }
        Body::Audit(_) | Body::TenantChange(_) | Body::TenantGet(_) | Body::TenantList(_) => Ok(()),
    }
}

/// A full Redis would stop taking the views of what is accepted already. A retry is let through: it may be settled without
/// anything new.
fn red_line(router: &Router, id: &PartitionId, batch: &bus::PublishBatch) -> Result<(), Refusal> {
    let places = router.views.places();
    let redis = places.redis(places.commit(id));
    let (filled, most) = (redis.filled() * 100.0, f64::from(router.config.redis_red_line));
    if filled < most || batch.items.iter().any(|item| item.attempt != 1) {
        return Ok(());
    }
    let text = format!("{}: Redis {} is {filled:.0} % full", batch.conversation, redis.instance());
    Err(Refusal::new(Code::Overloaded, text).cause("redis_memory").retry_after(1000))
}

/// A command fits its conversation: the id follows from what is asked, the kind is fixed at creation.
fn check_command(command: &bus::Command) -> Result<(), Refusal> {
    use bus::command::Body as Ask;
    let (conversation, tenant) = (command.conversation.as_str(), command.tenant.as_str());
    let (users, fits): (Vec<&String>, bool) = match &command.body {
        None => (Vec::new(), false),
        Some(Ask::EnsureP2p(ask)) => {
            let fits = ask.a != ask.b && conversation == kind::p2p_id(tenant, &ask.a, &ask.b);
            (vec![&ask.a, &ask.b], fits)
        }
        Some(Ask::CreateGroup(ask)) => {
            let fits = kind::group_id(&ask.name).is_ok_and(|id| id == conversation);
            (ask.members.iter().collect(), fits)
        }
        Some(Ask::AddMembers(ask)) => (ask.users.iter().collect(), is_group(conversation)),
        Some(Ask::RemoveMembers(ask)) => (ask.users.iter().collect(), is_group(conversation)),
    };
    if !fits {
        return Err(Refusal::new(Code::Invalid, format!("{conversation}: this command is not for it")));
    }
    users
        .into_iter()
        .try_for_each(|user| ids::check_id("user", user))
        .map_err(|error| Refusal::new(Code::Invalid, error.to_string()))
}

fn is_group(conversation: &str) -> bool {
    Kind::of_conversation(conversation) == Some(Kind::Group)
}
