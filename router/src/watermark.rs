//! ⑪ watermark: persisters say up to where MySQL has each partition; owners turn that into receipts and trims (R-ACK-3).

use std::sync::Arc;

use lapwing_links::nats::SubscriptionOptions;
use lapwing_model::{PartitionId, Position};
use lapwing_proto::{Message as _, bus::Mark};
use lapwing_runtime::metrics;

use crate::{router::Router, sequence::Event};

pub(crate) async fn run(router: Arc<Router>) -> anyhow::Result<()> {
    let mut marks = router.nats.subscribe("lw.p.mark", SubscriptionOptions::named("watermark")).await?;
    let stopping = router.context.stopping();
    loop {
        let message = tokio::select! {
            () = stopping.cancelled() => return Ok(()),
            message = marks.next() => message,
        };
        let Some(message) = message else { return Ok(()) };
        let Ok(Mark { partition: Some(id), persisted: Some(at), tombstones, .. }) =
            Mark::decode(message.payload)
        else {
            tracing::warn!("an unreadable mark on lw.p.mark is left out");
            continue;
        };
        let stage = metrics::stage("watermark");
        let (id, at) = (PartitionId::from(&id), Position::from(at));
        let (newest, at) = {
            let mut persisted = router.persisted.lock();
            let known = persisted.entry(id.clone()).or_default();
            let newer = at.offset > known.offset;
            if newer {
                *known = at;
            }
            (newer, *known)
        };
        let owner = router.partitions.read().get(&id).map(|handle| handle.events.clone());
        // Tombstones are told for some seconds, so that an owner of today hears what died before it was one.
        if let (true, Some(events)) = (newest || !tombstones.is_empty(), owner) {
            let _stepped_down = events.send(Event::Mark { at, tombstones }).await;
        }
        stage.done("ok");
    }
}
