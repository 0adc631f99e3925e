//! The Redis views: one file + one typed function + one test per script. Owners write them, owners and gateways read them.
//!
//! Every read checks that the partition's position is there: a missing key means "none" only then (I9).

mod apply;
mod conversations;
mod hot;
mod keys;
mod load;
mod merge;
mod own;
mod rebuild;
mod value;
mod words;

use std::time::Duration;

use lapwing_links::redis::{Redis, RedisError};
use lapwing_model::{Bucket, ConversationKey, PartitionId, Position};

pub use apply::{Applied, BATCH_BYTES, BATCH_RECORDS, Expect, Section};
pub use conversations::UserConversation;
pub use hot::{HotPage, PageAsk};
pub use load::LoadItem;
pub use own::{OwnItem, Owned};
pub use rebuild::ops_of_row;

#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The view has no position for this partition: it says nothing about what is absent.
    #[error("the view of {0} has no position yet")]
    NotReady(String),
    #[error(transparent)]
    Redis(#[from] RedisError),
    #[error("script {script} answered in another form than expected: {answer}")]
    Form { script: &'static str, answer: String },
}

/// The views on one Redis instance. (Several instances by range map come behind this same type.)
#[derive(Clone)]
pub struct Views {
    redis: Redis,
    partitions: u32,
    window_ms: u64,
}

pub(crate) const TIMEOUT: Duration = Duration::from_millis(1000);

impl Views {
    pub fn new(redis: Redis, partitions: u32) -> Self {
        Self { redis, partitions, window_ms: 2 * 3600 * 1000 }
    }

    pub fn with_window(mut self, window_ms: u64) -> Self {
        self.window_ms = window_ms;
        self
    }

    fn partition(&self, bucket: Bucket, key: &ConversationKey) -> Option<PartitionId> {
        let kind = lapwing_model::Kind::of_conversation(&key.conversation)?;
        Some(PartitionId::new(kind.topic(), lapwing_model::bucket::partition_of(bucket, self.partitions)))
    }

    /// Where the views of a partition stand: by conversation bucket, by user shard; None = nothing stored.
    pub async fn positions(&self, id: &PartitionId) -> Result<[Option<Position>; 2], ViewError> {
        let mut found = [None; 2];
        for (place, family) in found.iter_mut().zip(lapwing_model::view::FAMILIES) {
            *place =
                self.apply(&[Section::probe(id, family)]).await.map(|answers| match answers.first() {
                    Some(Applied::At(position)) => *position,
                    _ => None,
                })?;
        }
        Ok(found)
    }
}
