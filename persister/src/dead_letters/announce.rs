//! A dead letter to the topic `lapwing.dead`, before table and tombstone (R-PST-4). At least once: the same place again is the
//! same dead letter.

use std::time::Duration;

use lapwing_links::kafka::{Kafka, Producer, ProducerOptions};
use lapwing_model::PartitionId;
use lapwing_persister_core::{Item, class::backoff};
use lapwing_proto::{Message as _, record::DeadLetterRecord};
use lapwing_runtime::{metrics as names, throttle::Throttle, time::now_ms};
use parking_lot::Mutex;

use crate::{
    partition::End,
    write::{
        Writer,
        sql::{self, Dead},
    },
};

pub(crate) const TOPIC: &str = "lapwing.dead";
/// By its key: no order between dead letters is promised.
const ANY_PARTITION: i32 = -1;
/// Of one try. Beyond it the record may still arrive, and is sent again.
const DELIVERY: Duration = Duration::from_secs(10);
/// With error and ids it stays below Kafka's message size.
const PAYLOAD_BYTES: usize = 1536 << 10;

static TROUBLE: Throttle = Throttle::every_ms(1000);

/// Its producer is made with the first dead letter: most persisters never need it.
pub(crate) struct DeadTopic {
    kafka: Kafka,
    producer: Mutex<Option<Producer>>,
}

impl DeadTopic {
    pub(crate) fn new(brokers: &str, node: &str) -> Self {
        Self { kafka: Kafka::new(brokers, &format!("lapwing-{node}-dead")), producer: Mutex::default() }
    }

    fn producer(&self) -> anyhow::Result<Producer> {
        let mut producer = self.producer.lock();
        if let Some(producer) = &*producer {
            return Ok(producer.clone());
        }
        let options = ProducerOptions { delivery_timeout: DELIVERY, ..ProducerOptions::default() };
        Ok(producer.insert(Producer::new(&self.kafka, options)?).clone())
    }

    /// Returns once all in-sync replicas have it.
    async fn tell(&self, letter: &DeadLetterRecord) -> anyhow::Result<()> {
        let key = format!("{}/{}/{}", letter.topic, letter.partition, letter.offset);
        let value = letter.encode_to_vec();
        self.producer()?.send(TOPIC, ANY_PARTITION, key.as_bytes(), &[], &value)?.await?;
        Ok(())
    }
}

impl Writer {
    /// Tries for as long as needed, as with MySQL: a dead letter is never written without having been told.
    pub(crate) async fn announce(&self, item: &Item, dead: &Dead) -> Result<(), End> {
        let letter = letter(&self.partition, item, dead);
        for attempt in 0.. {
            // A record that was given to Kafka goes its way whether anybody waits for it or not.
            let told = tokio::select! {
                () = self.stop.cancelled() => return Err(End::Stopped),
                told = self.persister.dead_topic.tell(&letter) => told,
            };
            let Err(error) = told else { return Ok(()) };
            metrics::counter!(names::PERSIST_TOTAL, "result" => "retry").increment(1);
            if let Some(suppressed) = TROUBLE.pass() {
                tracing::warn!(
                    partition = %self.partition, offset = letter.offset, attempt, suppressed,
                    "a dead letter waits for its topic: {error:#}"
                );
            }
            tokio::select! {
                () = self.stop.cancelled() => return Err(End::Stopped),
                () = tokio::time::sleep(backoff(attempt, rand::random())) => {}
            }
        }
        Err(End::Stopped)
    }
}

fn letter(partition: &PartitionId, item: &Item, dead: &Dead) -> DeadLetterRecord {
    let text = |text: &str, at| String::from_utf8_lossy(&sql::cut(text, at)).into_owned();
    let (tenant, conversation, seq) = match item {
        Item::Row(row) => {
            let record = &row.record;
            (text(&record.tenant, sql::ID_BYTES), text(&record.conversation, sql::ID_BYTES), record.seq)
        }
        _ => Default::default(),
    };
    let payload = item.raw();
    DeadLetterRecord {
        topic: partition.topic.to_string(),
        partition: partition.partition,
        offset: item.offset(),
        tenant,
        conversation,
        seq,
        error_code: dead.code.into(),
        error: text(&dead.error, sql::ERROR_BYTES),
        payload: if payload.len() <= PAYLOAD_BYTES { payload.clone() } else { Default::default() },
        payload_bytes: payload.len() as u64,
        died_at_ms: now_ms(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lapwing_persister_core::Unreadable;

    use super::*;

    // R-PST-4: whatever stands in the log, its dead letter fits into a message, or the partition would wait for ever.
    #[test]
    fn a_dead_letter_fits_into_a_message() {
        let dead = Dead { code: 0, error: "é".repeat(2000) };
        let at = PartitionId::new("lapwing.group", 3);
        for size in [10, PAYLOAD_BYTES, PAYLOAD_BYTES + 1, 2 << 20] {
            let raw = Bytes::from(vec![7; size]);
            let item = Item::Unreadable(Unreadable { offset: 9, raw, problem: String::new() });
            let letter = letter(&at, &item, &dead);
            assert_eq!(letter.payload_bytes, size as u64);
            assert_eq!(letter.payload.is_empty(), size > PAYLOAD_BYTES);
            assert!(letter.encode_to_vec().len() < (2 << 20) - 4096);
        }
    }
}
