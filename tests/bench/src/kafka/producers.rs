//! The product's producer (rdkafka), and rskafka's plain one.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use lapwing_links::kafka::{Producer, SendError};
use rskafka::{
    client::{
        ClientBuilder,
        partition::{Compression, PartitionClient, UnknownTopicHandling},
    },
    record::Record,
};

use super::TOPIC;

const BATCH: usize = 200;
const BATCHES_ON_THEIR_WAY: usize = 8;

pub(crate) fn bodies(count: usize, body: usize) -> Vec<Vec<u8>> {
    vec![vec![b'x'; body]; count]
}

/// All of a batch are sent, then all are awaited.
pub(crate) async fn rdkafka(producer: &Producer, partition: i32, bodies: &[Vec<u8>]) -> Result<()> {
    let sent: Result<Vec<_>, SendError> =
        bodies.iter().map(|body| producer.send(TOPIC, partition, b"key", &[], body)).collect();
    try_join_all(sent?).await?;
    Ok(())
}

pub(crate) async fn rdkafka_much(producer: &Producer, count: usize, body: usize) -> Result<()> {
    let bodies = bodies(BATCH, body);
    let batch = |_| rdkafka(producer, 0, &bodies);
    stream::iter(0..count / BATCH).map(batch).buffer_unordered(BATCHES_ON_THEIR_WAY).try_collect::<()>().await
}

/// One client a partition, as the library gives them.
pub(crate) struct Plain {
    partitions: Vec<Arc<PartitionClient>>,
}

impl Plain {
    pub(crate) async fn open(brokers: &str) -> Result<Self> {
        let client = ClientBuilder::new(vec![brokers.to_owned()]).build().await.context("rskafka")?;
        let mut partitions = Vec::new();
        for partition in 0..8 {
            let opened = client.partition_client(TOPIC, partition, UnknownTopicHandling::Error).await?;
            partitions.push(Arc::new(opened));
        }
        Ok(Self { partitions })
    }

    pub(crate) async fn produce(&self, partition: usize, bodies: Vec<Vec<u8>>) -> Result<()> {
        let now = lapwing_runtime::time::now_ms() as i64;
        let timestamp =
            rskafka::chrono::DateTime::from_timestamp_millis(now).context("a time out of range")?;
        let record = |body| Record {
            key: Some(b"key".to_vec()),
            value: Some(body),
            headers: BTreeMap::new(),
            timestamp,
        };
        let records = bodies.into_iter().map(record).collect();
        self.partitions[partition].produce(records, Compression::NoCompression).await?;
        Ok(())
    }

    pub(crate) async fn produce_much(&self, count: usize, body: usize) -> Result<()> {
        let batch = |_| self.produce(0, bodies(BATCH, body));
        stream::iter(0..count / BATCH)
            .map(batch)
            .buffer_unordered(BATCHES_ON_THEIR_WAY)
            .try_collect::<()>()
            .await
    }
}
