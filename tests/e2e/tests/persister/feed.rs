//! Writes the topics as an owner does: claims, then records with (epoch, index).

use lapwing_links::kafka::{Kafka, Producer, ProducerOptions};
use lapwing_model::{ConversationKey, PartitionId};
use lapwing_proto::{
    Message as _,
    record::{Claim, Created, MembersAdded, MembersRemoved, Message, Record, message, record::Body},
};

pub(crate) const TENANT: &str = "t";

#[derive(Clone)]
pub(crate) struct Feed {
    producer: Producer,
}

impl Feed {
    pub(crate) fn new(brokers: &str) -> Self {
        let producer = Producer::new(&Kafka::new(brokers, "test"), ProducerOptions::default()).unwrap();
        Self { producer }
    }

    pub(crate) async fn raw(&self, topic: &str, partition: u32, value: &[u8]) -> u64 {
        let delivery = self.producer.send(topic, partition as i32, b"key", &[], value).unwrap();
        delivery.await.unwrap() as u64
    }

    /// What a foreign tool may write: rskafka cannot decode a header without a value, nor anything else of its batch.
    pub(crate) async fn undecodable(&self, brokers: &str, topic: &str, partition: u32) {
        use rdkafka::{
            ClientConfig,
            message::{Header, OwnedHeaders},
            producer::{FutureProducer, FutureRecord},
        };
        let producer: FutureProducer =
            ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
        let headers = OwnedHeaders::new().insert(Header { key: "x", value: None::<&str> });
        let record = FutureRecord::<[u8], [u8]>::to(topic)
            .partition(partition as i32)
            .key(b"key")
            .payload(b"foreign")
            .headers(headers);
        producer.send(record, std::time::Duration::from_secs(10)).await.unwrap();
    }

    pub(crate) async fn record(&self, at: &PartitionId, record: &Record) -> u64 {
        self.raw(&at.topic, at.partition, &record.encode_to_vec()).await
    }

    /// A new owner of the partition that this conversation lives in.
    pub(crate) async fn claim(&self, conversation: &str) -> Owner {
        self.claim_of(TENANT, conversation).await
    }

    pub(crate) async fn claim_of(&self, tenant: &str, conversation: &str) -> Owner {
        let key = ConversationKey::new(tenant, conversation);
        let at = PartitionId::of(&key, 8).unwrap();
        let body = Body::Claim(Claim { nonce: 7, router: "r1".into() });
        let epoch = self.record(&at, &Record { body: Some(body), ..Record::default() }).await;
        Owner { feed: self.clone(), at, epoch, index: 0 }
    }
}

pub(crate) struct Owner {
    pub(crate) feed: Feed,
    pub(crate) at: PartitionId,
    pub(crate) epoch: u64,
    pub(crate) index: u64,
}

impl Owner {
    /// Appends the record as the next valid one.
    pub(crate) async fn send(&mut self, record: Record) -> u64 {
        self.index += 1;
        self.send_as(self.epoch, self.index, record).await
    }

    pub(crate) async fn send_as(&self, epoch: u64, index: u64, record: Record) -> u64 {
        self.feed.record(&self.at, &Record { epoch, index, ..record }).await
    }

    /// Many at once, in order.
    pub(crate) async fn send_all(&mut self, records: impl IntoIterator<Item = Record>) {
        let mut waiting = Vec::new();
        for record in records {
            self.index += 1;
            let record = Record { epoch: self.epoch, index: self.index, ..record };
            let (topic, partition) = (self.at.topic.clone(), self.at.partition as i32);
            waiting
                .push(self.feed.producer.send(&topic, partition, b"", &[], &record.encode_to_vec()).unwrap());
        }
        for delivery in waiting {
            delivery.await.unwrap();
        }
    }
}

pub(crate) fn text_of(conversation: &str, seq: u64) -> String {
    format!("{conversation} says {seq}")
}

fn event(conversation: &str, seq: u64, n: u64, body: Body) -> Record {
    Record {
        tenant: TENANT.into(),
        conversation: conversation.into(),
        seq,
        n,
        sent_at_ms: 1_700_000_000_000 + seq,
        body: Some(body),
        ..Record::default()
    }
}

/// `n`: the created event is not countable, so n = seq − 1 when only messages follow it.
pub(crate) fn message_with(conversation: &str, seq: u64, n: u64, sender: &str, text: &str) -> Record {
    let body = Message { body: Some(message::Body::Text(text.to_owned())), r#type: String::new() };
    Record {
        sender: sender.into(),
        device: "d1".into(),
        client_mid: format!("mid-{seq}"),
        content_hash: vec![text.len() as u8; 16].into(),
        countable: true,
        ..event(conversation, seq, n, Body::Message(body))
    }
}

pub(crate) fn message(conversation: &str, seq: u64) -> Record {
    message_with(conversation, seq, seq - 1, "alice", &text_of(conversation, seq))
}

pub(crate) fn created(conversation: &str, members: &[&str]) -> Record {
    let created = Created {
        kind: 2,
        members: members.iter().map(|user| (*user).to_owned()).collect(),
        member_count: members.len() as u32,
        ..Created::default()
    };
    event(conversation, 1, 0, Body::Created(created))
}

pub(crate) fn added(conversation: &str, seq: u64, n: u64, user: &str, from_seq: u64, count: u32) -> Record {
    let added = MembersAdded {
        users: vec![user.to_owned()],
        member_count: count,
        from_seq,
        ..MembersAdded::default()
    };
    event(conversation, seq, n, Body::MembersAdded(added))
}

pub(crate) fn removed(conversation: &str, seq: u64, n: u64, user: &str, count: u32) -> Record {
    let removed = MembersRemoved { users: vec![user.to_owned()], member_count: count };
    event(conversation, seq, n, Body::MembersRemoved(removed))
}
