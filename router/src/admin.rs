//! What operators ask a router: its partitions, and what became of one message.

use std::sync::Arc;

use lapwing_model::{ConversationKey, PartitionId};
use lapwing_proto::bus::{self, router_request::Body};
use lapwing_runtime::admin::{AdminError, AdminRequest};
use serde_json::{Value, json};

use crate::router::Router;

pub(crate) fn routes(router: &Arc<Router>) {
    let of = router.clone();
    router.context.admin.route("GET", "/admin/partitions", move |_| {
        let router = of.clone();
        async move { Ok(partitions(&router)) }
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
                "persisted_offset": persisted.get(&id).map(|at| at.offset),
                "pending": status.pending,
            })
        })
        .collect()
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
