//! What operators ask a router: its partitions, and what became of one message.

use std::sync::Arc;

use lapwing_model::{ConversationKey, PartitionId, bucket::BUCKETS};
use lapwing_proto::bus::{self, router_request::Body};
use lapwing_runtime::admin::{AdminError, AdminRequest};
use serde_json::{Value, json};

use crate::{router::Router, sequence::Event};

pub(crate) fn routes(router: &Arc<Router>) {
    let of = router.clone();
    router.context.admin.route("GET", "/admin/partitions", move |_| {
        let router = of.clone();
        async move { Ok(partitions(&router)) }
    });
    let of = router.clone();
    router.context.admin.route("POST", "/admin/move-range", move |request| {
        let router = of.clone();
        async move { move_range(&router, &request).await }
    });
    let of = router.clone();
    router.context.admin.route("GET", "/admin/trace", move |request| {
        let router = of.clone();
        async move { trace(&router, &request).await }
    });
}

fn partitions(router: &Router) -> Value {
    let mut rows: Vec<_> =
        router.partitions.read().iter().map(|(id, handle)| (id.clone(), *handle.status.lock())).collect();
    rows.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let persisted = router.persisted.lock();
    let places = router.views.places();
    rows.into_iter()
        .map(|(id, status)| {
            let state = match (status.epoch, status.releasing) {
                (None, _) => "claiming",
                (Some(_), true) => "releasing",
                (Some(_), false) => "serving",
            };
            json!({
                "topic": &*id.topic,
                "partition": id.partition,
                "owner": router.node(),
                "epoch": status.epoch,
                "state": state,
                "head_offset": status.position.offset,
                "applied_offset": status.view_acked,
                "users_offset": router.apply.right_up_to(&id, &places.pieces(&id)[1..]),
                "persisted_offset": persisted.get(&id).map(|at| at.offset),
                "pending": status.pending,
                "redis": places.redis(places.commit(&id)).instance(),
            })
        })
        .collect()
}

/// Begins the move of what this router owns of the range, and answers all partitions of the range, whoever owns them. Asking
/// again is harmless.
async fn move_range(router: &Router, request: &AdminRequest) -> Result<Value, AdminError> {
    let places = router.views.places();
    let view = request.wanted("view")?;
    if view != "redis" {
        return Err(AdminError::invalid(format!("view {view}: only the views in redis can be moved")));
    }
    let name = request.wanted("to")?;
    let Some(to) = places.instance_named(name) else {
        return Err(AdminError::not_found(format!("LAPWING_REDIS_URL has no instance {name}")));
    };
    let buckets = request.wanted("buckets")?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|bucket| *bucket < BUCKETS);
    let Some((first, last)) = buckets.split_once('-').and_then(|(a, b)| Some((number(a)?, number(b)?)))
    else {
        return Err(AdminError::invalid(format!(
            "buckets {buckets}: not FIRST-LAST within 0-{}",
            BUCKETS - 1
        )));
    };
    let size = BUCKETS / router.config.partitions;
    if first > last || first % size != 0 || (last + 1) % size != 0 {
        let why = format!(
            "buckets {buckets}: a range is whole partitions of {size} buckets, such as 0-{}",
            size - 1
        );
        return Err(AdminError::invalid(why));
    }
    let range = places.partitions_in(first, last);
    let wanted: Vec<_> = router.all().into_iter().filter(|id| range.contains(&id.partition)).collect();
    for id in wanted.iter().filter(|id| places.commit(id) != to) {
        let events = router.partitions.read().get(id).map(|handle| handle.events.clone());
        if let Some(events) = events {
            let _stepped_down = events.send(Event::Move { to }).await;
        }
    }
    Ok(wanted.iter().map(|id| json!({ "topic": &*id.topic, "partition": id.partition })).collect())
}

/// By way of the partition's own queue, as a gateway would ask.
async fn trace(router: &Arc<Router>, request: &AdminRequest) -> Result<Value, AdminError> {
    let key = ConversationKey::new(request.wanted("tenant")?, request.wanted("conversation")?);
    let seq =
        request.wanted("seq")?.parse().map_err(|_| AdminError::invalid("parameter `seq` is not a number"))?;
    let id = PartitionId::of(&key, router.config.partitions)
        .ok_or_else(|| AdminError::not_found(format!("{key}: no such conversation")))?;
    if !router.partitions.read().contains_key(&id) {
        return Err(AdminError::new(421, "not_owner", format!("{id} is not owned here")));
    }
    let ask = bus::Trace { tenant: key.tenant.to_string(), conversation: key.conversation.to_string(), seq };
    let request = bus::RouterRequest { partition: Some((&id).into()), body: Some(Body::Trace(ask)) };
    let reply = router
        .nats
        .request(
            &format!("lw.r.{}", router.node()),
            &[],
            lapwing_proto::Message::encode_to_vec(&request).into(),
            std::time::Duration::from_secs(2),
        )
        .await
        .map_err(|error| AdminError::new(504, "no_answer", error.to_string()))?;
    match <bus::RouterReply as lapwing_proto::Message>::decode(reply).map(|reply| reply.body) {
        Ok(Some(bus::router_reply::Body::Trace(trace))) => Ok(json!(trace)),
        Ok(Some(bus::router_reply::Body::NotOwner(_))) => {
            Err(AdminError::new(421, "not_owner", format!("{id} is being handed over")))
        }
        _ => Err(AdminError::new(502, "bad_answer", "the partition answered something else")),
    }
}
