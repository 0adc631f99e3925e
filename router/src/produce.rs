//! ③ produce: records to the log in the order of their index; the acknowledgements come back as events.

use std::sync::Arc;

use bytes::Bytes;
use lapwing_links::kafka::{DeliveryError, Outcome};
use lapwing_model::{Family, Op, PartitionId, record::cursor_key};
use lapwing_proto::{Message as _, record::CursorRecord};
use lapwing_router_core::RequestId;
use lapwing_runtime::{OnError, Tasks, fail_point};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::{dispatch::Dispatch, router::Router, sequence::Event};

pub(crate) struct ToLog {
    pub(crate) epoch: u64,
    pub(crate) index: u64,
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    pub(crate) traceparent: String,
}

const CURSORS: &str = "lapwing.cursor";

/// What the log said of one partition's records, gathered until its task looks: a burst of acknowledgements wakes it once. Bounded
/// by its kind: one acknowledgement stands for all before it, one failure for all of its epoch.
#[derive(Default)]
pub(crate) struct Acks {
    told: Mutex<Told>,
    news: Notify,
}

#[derive(Default)]
pub(crate) struct Told {
    /// (index, offset) of the acknowledged record that stands furthest back in the log.
    pub(crate) acknowledged: Option<(u64, u64)>,
    /// (epoch, error), one an epoch.
    pub(crate) failed: Vec<(u64, String)>,
}

impl Acks {
    /// Cancel-safe.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    pub(crate) fn take(&self) -> Told {
        std::mem::take(&mut *self.told.lock())
    }
}

struct One {
    acks: Arc<Acks>,
    epoch: u64,
    index: u64,
}

impl Outcome for One {
    fn settled(self: Box<Self>, result: Result<i64, DeliveryError>) {
        fail_point("produce.after");
        let mut told = self.acks.told.lock();
        match result {
            Ok(offset) if told.acknowledged.is_none_or(|(_, highest)| highest < offset as u64) => {
                told.acknowledged = Some((self.index, offset as u64));
            }
            Ok(_) => return,
            Err(_) if told.failed.iter().any(|(epoch, _)| *epoch == self.epoch) => return,
            Err(error) => told.failed.push((self.epoch, error.to_string())),
        }
        drop(told);
        self.acks.news.notify_one();
    }
}

/// Err: certainly not in the log. Its index is used up, so a claim has to follow.
pub(crate) fn send(
    router: &Router,
    id: &PartitionId,
    record: &ToLog,
    acks: &Arc<Acks>,
) -> Result<(), String> {
    let headers = [("traceparent", record.traceparent.as_str())];
    let headers = if record.traceparent.is_empty() { &headers[..0] } else { &headers[..] };
    let one = One { acks: acks.clone(), epoch: record.epoch, index: record.index };
    router
        .producer
        .send_to(&id.topic, id.partition as i32, &record.key, headers, &record.value, Box::new(one))
        .map_err(|error| error.to_string())?;
    fail_point("produce.middle");
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
