//! Once a second the moved cursors go to their owners, a lot a partition; what could not be sent is merged back.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::join_all;
use lapwing_model::{ConversationKey, PartitionId};
use lapwing_proto::{
    bus::{CursorBatch, router_request},
    record::CursorRecord,
};

use crate::gateway::Gateway;

const PERIOD: Duration = Duration::from_secs(1);
const LOT: usize = 2000;
const SEND_TIMEOUT: Duration = Duration::from_secs(3);

pub async fn run(gateway: Arc<Gateway>) {
    let stop = gateway.tasks.stopping();
    let mut going_on = true;
    while going_on {
        tokio::select! {
            () = stop.cancelled() => going_on = false,
            () = tokio::time::sleep(PERIOD) => {}
        }
        flush(&gateway).await;
    }
}

pub async fn flush(gateway: &Gateway) {
    let moved = gateway.cursors.lock().take();
    let mut by_partition: HashMap<PartitionId, Vec<(ConversationKey, CursorRecord)>> = HashMap::new();
    for (key, cursor) in moved {
        if let Some(partition) = gateway.hub.partition(&key) {
            by_partition.entry(partition).or_default().push((key, cursor));
        }
    }
    let sent = by_partition
        .iter()
        .flat_map(|(partition, moved)| moved.chunks(LOT).map(move |lot| send(gateway, partition, lot)));
    join_all(sent).await;
}

async fn send(gateway: &Gateway, partition: &PartitionId, lot: &[(ConversationKey, CursorRecord)]) {
    let cursors = lot.iter().map(|(_, cursor)| cursor.clone()).collect();
    let body = router_request::Body::Cursors(CursorBatch { cursors });
    if let Err(refusal) = gateway.routers.ask_owner(partition, body, "", SEND_TIMEOUT).await {
        tracing::debug!(%partition, "cursors were not taken: {refusal}");
        if !refusal.code.line().temporary {
            // One of them names a conversation that is not the user's any more; the others were stored.
            return;
        }
        let mut waiting = gateway.cursors.lock();
        for (key, cursor) in lot {
            waiting.merge(key, &Arc::from(cursor.user.as_str()), cursor.read_seq, cursor.delivered_seq);
        }
    }
}
