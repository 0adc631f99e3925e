//! ④ commit: reads the own partition back. Only what comes from here is answered, dispatched or applied (I2).

use std::{sync::Arc, time::Duration};

use lapwing_links::kafka::{PartitionReader, RawRecord};
use lapwing_model::{
    PartitionId, Position,
    record::{self, BadRecord},
};
use lapwing_proto::record::Record;
use lapwing_runtime::{fail_point, throttle::Throttle};
use tokio::sync::mpsc;

use crate::{router::Router, sequence::Event};

const LONG_POLL: Duration = Duration::from_secs(1);
const FETCH_BYTES: usize = 4 << 20;

/// Until it is dropped or the partition is gone.
pub(crate) async fn run(router: Arc<Router>, id: PartitionId, from: Position, events: mpsc::Sender<Event>) {
    let mut reader = PartitionReader::open(&router.kafka, &id.topic, id.partition as i32, from.offset as i64);
    let quiet = Throttle::every_ms(5000);
    loop {
        match reader.next(LONG_POLL, FETCH_BYTES).await {
            Ok(fetched) if fetched.records.is_empty() => {}
            Ok(fetched) => {
                let records = fetched.records.into_iter().map(decode).collect();
                fail_point("commit.after");
                if events.send(Event::Read(records)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                if let Some(more) = quiet.pass() {
                    tracing::warn!(partition = %id, offset = reader.position(), more, "cannot read back: {error}");
                }
            }
        }
    }
}

pub(crate) fn decode(raw: RawRecord) -> (u64, Result<Record, BadRecord>) {
    let offset = raw.offset as u64;
    (offset, record::decode(offset, raw.value.as_deref()))
}
