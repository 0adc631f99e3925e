//! Released records as a router hands them to its apply stage: 300 B messages over many p2p conversations.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use lapwing_model::{ConversationKey, PartitionId, Position, event, kind, record::content_hash};
use lapwing_proto::{
    Message as _, client,
    record::{Record, record::Body},
};
use lapwing_router_core::{FanOut, Released};

/// One released record, where it stands and what stands before it.
pub(crate) struct Placed {
    pub(crate) id: PartitionId,
    pub(crate) before: Position,
    pub(crate) released: Arc<Released>,
}

pub(crate) struct Shape {
    pub(crate) conversations: usize,
    pub(crate) body: usize,
    pub(crate) partitions: u32,
}

pub(crate) struct Conversation {
    pub(crate) key: ConversationKey,
    pub(crate) id: PartitionId,
    pub(crate) bucket: u32,
    pub(crate) users: [String; 2],
    pub(crate) seq: u64,
}

/// In log order; the conversations take turns in no regular order.
pub(crate) fn of(tenant: &str, count: usize, shape: &Shape) -> Vec<Placed> {
    let Shape { conversations, body, partitions } = *shape;
    let mut all: Vec<Conversation> =
        (0..conversations).map(|number| conversation(tenant, number, partitions)).collect();
    let mut at: HashMap<PartitionId, Position> = HashMap::new();
    let now = lapwing_runtime::time::now_ms();
    (0..count)
        .map(|number| {
            let of = &mut all[mixed(number) as usize % conversations];
            let before = *at.entry(of.id.clone()).or_default();
            // Epoch −1 is "no claim yet": these tests start behind a claim at offset 0.
            let start = before.epoch < 0;
            let offset = if start { 1 } else { before.offset };
            let index = if start { 1 } else { before.index + 1 };
            of.seq += 1;
            let record = record(of, number, body, index, now);
            let after = Position { offset: offset + 1, epoch: 0, index };
            at.insert(of.id.clone(), after);
            let event: Bytes = event::of_record(&record).unwrap_or_default().encode_to_vec().into();
            let released = Released {
                offset,
                after,
                key: of.key.clone(),
                record: Arc::new(record),
                event,
                fan_out: FanOut::default(),
            };
            Placed { id: of.id.clone(), before, released: Arc::new(released) }
        })
        .collect()
}

/// `bucket:tenant:conversation` → the seq that its head has to be.
pub(crate) fn heads(records: &[Placed]) -> Vec<(String, u64)> {
    let mut heads: HashMap<String, u64> = HashMap::new();
    for Placed { released, .. } in records {
        let place =
            format!("{}:{}:{}", released.record.bucket, released.key.tenant, released.key.conversation);
        heads.insert(place, released.record.seq);
    }
    heads.into_iter().collect()
}

pub(crate) fn conversation(tenant: &str, number: usize, partitions: u32) -> Conversation {
    let users = [format!("user{number:04}a"), format!("user{number:04}b")];
    let key = ConversationKey::new(tenant, kind::p2p_id(tenant, &users[0], &users[1]));
    let bucket = lapwing_model::bucket::bucket_of(&key).unwrap_or_default();
    let partition = lapwing_model::bucket::partition_of(bucket, partitions);
    let id = PartitionId::new(lapwing_model::Kind::P2p.topic(), partition);
    Conversation { key, id, bucket, users, seq: 0 }
}

pub(crate) fn record(of: &Conversation, number: usize, body: usize, index: u64, now: u64) -> Record {
    let text = format!("{number:010} {}", "lorem ipsum dolor sit amet ".repeat(body / 27 + 1));
    let content = client::Content {
        body: Some(client::content::Body::Text(text[..body.min(text.len())].to_owned())),
        ..client::Content::default()
    };
    Record {
        epoch: 0,
        index,
        bucket: of.bucket,
        tenant: of.key.tenant.to_string(),
        conversation: of.key.conversation.to_string(),
        seq: of.seq,
        n: of.seq,
        sender: of.users[number % 2].clone(),
        device: "d1".to_owned(),
        client_mid: format!("{:016x}{number:010}", mixed(number)),
        content_hash: Bytes::copy_from_slice(&content_hash(&of.key, &content)),
        sent_at_ms: now,
        countable: true,
        body: Some(Body::Message(event::of_client(content))),
        ..Record::default()
    }
}

fn mixed(number: usize) -> u64 {
    let mut x = (number as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
