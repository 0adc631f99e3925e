//! ③ produce: records to the log in the order of their index; the acknowledgements come back as events.

use std::sync::Arc;

use bytes::Bytes;
use lapwing_model::{Family, Op, PartitionId, record::cursor_key};
use lapwing_proto::{Message as _, record::CursorRecord};
use lapwing_router_core::RequestId;
use lapwing_runtime::{OnError, Tasks, fail_point};
use tokio::sync::mpsc;

use crate::{dispatch::Dispatch, router::Router, sequence::Event};

pub(crate) struct ToLog {
    pub(crate) epoch: u64,
    pub(crate) index: u64,
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    pub(crate) traceparent: String,
}

const CURSORS: &str = "lapwing.cursor";

/// Err: certainly not in the log. Its index is used up, so a claim has to follow.
pub(crate) fn send(
    router: &Router,
    tasks: &Tasks,
    id: &PartitionId,
    record: ToLog,
    events: &mpsc::Sender<Event>,
) -> Result<(), String> {
    let headers = [("traceparent", record.traceparent.as_str())];
    let headers = if record.traceparent.is_empty() { &headers[..0] } else { &headers[..] };
    let delivery = router
        .producer
        .send(&id.topic, id.partition as i32, &record.key, headers, &record.value)
        .map_err(|error| error.to_string())?;
    fail_point("produce.middle");
    let (events, index, epoch) = (events.clone(), record.index, record.epoch);
    tasks.spawn("produce", OnError::Log, async move {
        let delivered = delivery.await;
        fail_point("produce.after");
        let event = match delivered {
            Ok(offset) => Event::Produced { index, offset: offset as u64 },
            Err(error) => Event::ProduceFailed { epoch, error: error.to_string() },
        };
        let _stepped_down = events.send(event).await;
    });
    Ok(())
}

/// Where a cursor's request waits.
pub(crate) struct Place {
    pub(crate) request: RequestId,
    pub(crate) slot: usize,
}

/// A clamped cursor: to its topic, then to the view and to the user's other devices.
pub(crate) fn cursor(
    router: &Arc<Router>,
    tasks: &Tasks,
    id: &PartitionId,
    cursor: CursorRecord,
    place: Place,
    events: &mpsc::Sender<Event>,
) {
    let Place { request, slot } = place;
    let (router, id, events) = (router.clone(), id.clone(), events.clone());
    tasks.spawn("produce cursor", OnError::Log, async move {
        let value = cursor.encode_to_vec();
        let sent = router.producer.send(CURSORS, id.partition as i32, &cursor_key(&cursor), &[], &value);
        let error = match sent {
            Err(error) => Some(error.to_string()),
            Ok(delivery) => delivery.await.err().map(|error| error.to_string()),
        };
        if error.is_none() {
            router.apply.ops(&id, Family::User, vec![op_of(&cursor)]);
            router.dispatch.push(Dispatch::Cursor(cursor));
        }
        let _stepped_down = events.send(Event::CursorStored { request, slot, error }).await;
    });
}

pub(crate) fn op_of(cursor: &CursorRecord) -> Op {
    Op::Cursor {
        tenant: cursor.tenant.as_str().into(),
        user: cursor.user.as_str().into(),
        conversation: cursor.conversation.as_str().into(),
        read_seq: cursor.read_seq,
        read_n: cursor.read_n,
        delivered_seq: cursor.delivered_seq,
    }
}
