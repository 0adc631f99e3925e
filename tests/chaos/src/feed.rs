//! Records straight into the topics: as an owner writes them, or as nobody should.

use std::time::Duration;

use anyhow::Context;
use lapwing_links::kafka::{Kafka, PartitionReader, Producer, ProducerOptions};
use lapwing_model::{ConversationKey, PartitionId, bucket, record};
use lapwing_proto::{
    Message as _,
    client::{Content, content},
    record::{Claim, Created, Message, Record, message as of_message, record::Body},
};
use lapwing_runtime::time::now_ms;
use lapwing_servers::Cluster;

pub(crate) struct Feed {
    kafka: Kafka,
    producer: Producer,
}

const PARTITIONS: u32 = 8;

impl Feed {
    pub(crate) fn new(cluster: &Cluster) -> anyhow::Result<Self> {
        let kafka = Kafka::new(&cluster.kafka().brokers(), "chaos-feed");
        Ok(Self { producer: Producer::new(&kafka, ProducerOptions::default())?, kafka })
    }

    async fn raw(&self, topic: &str, partition: u32, key: &[u8], value: &[u8]) -> anyhow::Result<u64> {
        let offset = self.producer.send(topic, partition as i32, key, &[], value)?.await?;
        Ok(offset as u64)
    }

    /// One record that nobody can parse into each partition.
    pub(crate) async fn garbage(&self, topic: &str, partitions: u32) -> anyhow::Result<()> {
        for partition in 0..partitions {
            self.raw(topic, partition, b"garbage", b"\xff\xff this is no record").await?;
        }
        Ok(())
    }

    /// A claim, and under it the records, each with the next index: valid for every reader.
    pub(crate) async fn as_owner(&self, key: &ConversationKey, records: Vec<Record>) -> anyhow::Result<()> {
        let at = PartitionId::of(key, PARTITIONS).context("an id of a known kind")?;
        let claim = Claim { nonce: now_ms(), router: "chaos".into() };
        let claim = Record { body: Some(Body::Claim(claim)), ..Record::default() };
        let epoch = self.raw(&at.topic, at.partition, b"", &claim.encode_to_vec()).await?;
        let key = record::kafka_key(key);
        for (index, record) in (1..).zip(records) {
            let record = Record { epoch, index, ..record };
            self.raw(&at.topic, at.partition, &key, &record.encode_to_vec()).await?;
        }
        Ok(())
    }

    /// The keys of all that stands in the topic of dead letters.
    pub(crate) async fn dead_places(&self) -> anyhow::Result<Vec<String>> {
        let mut reader = PartitionReader::open(&self.kafka, "lapwing.dead", 0, 0);
        let mut places = Vec::new();
        loop {
            let fetched = reader.next(Duration::from_millis(500), 1 << 20).await?;
            let keys = fetched.records.iter().filter_map(|record| record.key.as_deref());
            places.extend(keys.map(|key| String::from_utf8_lossy(key).into_owned()));
            if reader.position() >= fetched.high_watermark {
                return Ok(places);
            }
        }
    }
}

pub(crate) fn bucket(key: &ConversationKey) -> u32 {
    bucket::bucket_of(key).unwrap_or_default()
}

pub(crate) fn text(seq: u64) -> String {
    format!("fed message {seq}")
}

fn event(key: &ConversationKey, seq: u64, n: u64, body: Body) -> Record {
    Record {
        bucket: bucket(key),
        tenant: key.tenant.to_string(),
        conversation: key.conversation.to_string(),
        seq,
        n,
        sent_at_ms: now_ms(),
        body: Some(body),
        ..Record::default()
    }
}

pub(crate) fn created(key: &ConversationKey, seq: u64, members: &[&str]) -> Record {
    let created = Created {
        kind: lapwing_proto::record::Kind::Group.into(),
        members: members.iter().map(|user| (*user).to_owned()).collect(),
        member_count: members.len() as u32,
        ..Created::default()
    };
    event(key, seq, 0, Body::Created(created))
}

/// Its sender wants a receipt.
pub(crate) fn message(key: &ConversationKey, seq: u64, n: u64, sender: &str) -> Record {
    let content = Content { body: Some(content::Body::Text(text(seq))), ..Content::default() };
    let body = Message { body: Some(of_message::Body::Text(text(seq))), ..Message::default() };
    Record {
        sender: sender.into(),
        device: "phone".into(),
        client_mid: format!("fed-{seq}"),
        content_hash: record::content_hash(key, &content).to_vec().into(),
        receipt: true,
        countable: true,
        ..event(key, seq, n, Body::Message(body))
    }
}
