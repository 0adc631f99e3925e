//! A full topic: a claim and then messages in each partition, valid, the conversations of a partition taking turns.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use lapwing_links::kafka::{Delivery, Kafka, Producer, ProducerOptions};
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
    producer: Producer,
    all: BTreeMap<PartitionId, Vec<Conversation>>,
    body: usize,
    turn: usize,
}

const AT_ONCE: usize = 4096;
/// Between two handfuls of a paced feed.
const PACE: Duration = Duration::from_millis(5);

impl Log {
    pub(crate) async fn begin(brokers: &str, conversations: usize, body: usize) -> Result<Self> {
        let producer = Producer::new(&Kafka::new(brokers, "bench"), ProducerOptions::default())?;
        let all = partitions(conversations);
        for id in all.keys() {
            let claim = Body::Claim(Claim { nonce: 1, router: "bench".into() });
            let record = Record { body: Some(claim), ..Record::default() };
            let sent = producer.send(&id.topic, id.partition as i32, b"", &[], &record.encode_to_vec())?;
            let epoch = sent.await.context("a claim")?;
            ensure!(epoch == 0, "{id} is not empty");
        }
        Ok(Self { rows: Vec::new(), producer, all, body, turn: 0 })
    }

    /// The sum of all positions behind it.
    pub(crate) fn end(&self) -> u64 {
        (self.turn * self.all.len()) as u64 + u64::from(PARTITIONS)
    }

    /// So many more, which are kept.
    pub(crate) async fn fill(&mut self, rows: usize) -> Result<()> {
        let mut waiting = Vec::new();
        for _ in 0..rows / self.all.len() {
            let more = self.turn(&mut waiting)?;
            self.rows.extend(more);
            if waiting.len() >= AT_ONCE {
                join_all(&mut waiting).await?;
            }
        }
        join_all(&mut waiting).await
    }

    /// At a steady rate for so long; how many that were.
    pub(crate) async fn feed(&mut self, a_second: f64, time: Duration) -> Result<usize> {
        let (began, mut waiting, mut fed) = (Instant::now(), Vec::new(), 0);
        while began.elapsed() < time {
            while (fed as f64) < began.elapsed().as_secs_f64() * a_second {
                fed += self.turn(&mut waiting)?.len();
            }
            tokio::time::sleep(PACE).await;
            if waiting.len() >= AT_ONCE {
                join_all(&mut waiting).await?;
            }
        }
        join_all(&mut waiting).await?;
        Ok(fed)
    }

    /// One in each partition.
    fn turn(&mut self, waiting: &mut Vec<Delivery>) -> Result<Vec<Row>> {
        let now = lapwing_runtime::time::now_ms();
        let (turn, body, each) = (self.turn, self.body, self.all.len());
        self.turn += 1;
        let mut rows = Vec::with_capacity(each);
        for (place, (id, of)) in self.all.iter_mut().enumerate() {
            let next = turn % of.len();
            let of = &mut of[next];
            of.seq += 1;
            let record = records::record(of, turn * each + place, body, turn as u64 + 1, now);
            let raw = Bytes::from(record.encode_to_vec());
            waiting.push(self.producer.send(&id.topic, id.partition as i32, b"", &[], &raw)?);
            rows.push(Row { record, raw });
        }
        Ok(rows)
    }

    pub(crate) fn conversations(&self) -> impl Iterator<Item = &str> {
        self.all.values().flatten().map(|of| &*of.key.conversation)
    }
}

async fn join_all(waiting: &mut Vec<Delivery>) -> Result<()> {
    for delivery in waiting.drain(..) {
        delivery.await.context("a message")?;
    }
    Ok(())
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
