//! A full topic: a claim and then messages in each partition, valid, the conversations of a partition taking turns.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use lapwing_links::kafka::{Kafka, Producer, ProducerOptions};
use lapwing_model::PartitionId;
use lapwing_proto::{
    Message as _,
    record::{Claim, Record, record::Body},
};

use crate::records::{self, Conversation};

pub(crate) const TENANT: &str = "bench";
const PARTITIONS: u32 = 8;

pub(crate) struct Row {
    pub(crate) record: Record,
    pub(crate) raw: Bytes,
}

pub(crate) struct Log {
    /// In the order in which they were written.
    pub(crate) rows: Vec<Row>,
}

impl Log {
    /// The sum of all positions behind it.
    pub(crate) fn end(&self) -> u64 {
        self.rows.len() as u64 + u64::from(PARTITIONS)
    }

    pub(crate) async fn write(brokers: &str, rows: usize, conversations: usize, body: usize) -> Result<Self> {
        let producer = Producer::new(&Kafka::new(brokers, "bench"), ProducerOptions::default())?;
        let mut all = partitions(conversations);
        for id in all.keys() {
            let claim = Body::Claim(Claim { nonce: 1, router: "bench".into() });
            let record = Record { body: Some(claim), ..Record::default() };
            let sent = producer.send(&id.topic, id.partition as i32, b"", &[], &record.encode_to_vec())?;
            let epoch = sent.await.context("a claim")?;
            ensure!(epoch == 0, "{id} is not empty");
        }
        let now = lapwing_runtime::time::now_ms();
        let each = rows / all.len();
        let (mut written, mut waiting) = (Vec::with_capacity(rows), Vec::new());
        for turn in 0..each {
            for (id, of) in &mut all {
                let place = turn % of.len();
                let of = &mut of[place];
                of.seq += 1;
                let record = records::record(of, written.len(), body, turn as u64 + 1, now);
                let raw = Bytes::from(record.encode_to_vec());
                waiting.push(producer.send(&id.topic, id.partition as i32, b"", &[], &raw)?);
                written.push(Row { record, raw });
            }
            if waiting.len() >= 4096 {
                for delivery in waiting.drain(..) {
                    delivery.await.context("a message")?;
                }
            }
        }
        for delivery in waiting {
            delivery.await.context("a message")?;
        }
        Ok(Self { rows: written })
    }
}

/// So many conversations of each partition.
fn partitions(conversations: usize) -> BTreeMap<PartitionId, Vec<Conversation>> {
    let mut all: BTreeMap<PartitionId, Vec<Conversation>> = BTreeMap::new();
    let mut number = 0;
    while all.len() < PARTITIONS as usize || all.values().any(|of| of.len() < conversations) {
        let conversation = records::conversation(TENANT, number, PARTITIONS);
        let of = all.entry(conversation.id.clone()).or_default();
        if of.len() < conversations {
            of.push(conversation);
        }
        number += 1;
    }
    all
}
