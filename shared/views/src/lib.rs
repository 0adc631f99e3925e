//! The Redis views: one file + one typed function + one test per script. Owners write them, owners and gateways read them.
//!
//! Every read checks that the partition's position is there: a missing key means "none" only then (I9).

mod apply;
mod conversations;
mod hot;
mod keys;
mod load;
mod merge;
mod moves;
mod own;
mod places;
mod rebuild;
mod value;
mod words;

use std::time::Duration;

use lapwing_links::redis::{Redis, RedisError};
use lapwing_model::{Bucket, ConversationKey, PartitionId};

pub use apply::{BATCH_BYTES, BATCH_RECORDS, Section};
pub use lapwing_model::view::{Applied, Expect, HotPage, LoadedItem, Owned, PageAsk, UserConversation};
pub use load::LoadItem;
pub use moves::Found;
pub use own::OwnItem;
pub use places::{Piece, Places, Settings};
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

/// The views on all Redis instances.
#[derive(Clone)]
pub struct Views {
    places: Places,
    window_ms: u64,
}

pub(crate) const TIMEOUT: Duration = Duration::from_millis(1000);

impl Views {
    pub fn new(places: Places) -> Self {
        Self { places, window_ms: 2 * 3600 * 1000 }
    }

    /// All on one instance.
    pub fn single(redis: Redis, partitions: u32) -> Self {
        Self::new(Places::single(redis, partitions))
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    pub fn with_window(mut self, window_ms: u64) -> Self {
        self.window_ms = window_ms;
        self
    }

    fn partition(&self, bucket: Bucket, key: &ConversationKey) -> Option<PartitionId> {
        let kind = lapwing_model::Kind::of_conversation(&key.conversation)?;
        let partition = lapwing_model::bucket::partition_of(bucket, self.places.partitions());
        Some(PartitionId::new(kind.topic(), partition))
    }
}
