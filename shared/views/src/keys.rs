//! Names of the keys. A `{…}` would be a Redis Cluster hash tag: these are single instances, ids are charset-checked.

use lapwing_model::{Bucket, ConversationKey, Family, PartitionId, bucket};

use crate::Piece;

pub(crate) fn applied(id: &PartitionId, piece: &Piece) -> String {
    let Piece { family, first, last, .. } = piece;
    let of = match family {
        Family::Commit => "",
        Family::User => "u",
    };
    format!("applied:{}:{}:{of}{first}-{last}", id.topic, id.partition)
}

/// Up to where senders were told that MySQL has their messages.
pub(crate) fn told(id: &PartitionId) -> String {
    format!("told:{}:{}", id.topic, id.partition)
}

/// How often the commit view was moved before it came to this instance.
pub(crate) fn placed(id: &PartitionId) -> String {
    format!("placed:{}:{}", id.topic, id.partition)
}

pub(crate) fn head(bucket: Bucket, key: &ConversationKey) -> String {
    format!("head:{bucket}:{}:{}", key.tenant, key.conversation)
}

pub(crate) fn hot(bucket: Bucket, key: &ConversationKey) -> String {
    format!("hot:{bucket}:{}:{}", key.tenant, key.conversation)
}

pub(crate) fn members(bucket: Bucket, key: &ConversationKey) -> String {
    format!("members:{bucket}:{}:{}", key.tenant, key.conversation)
}

/// Buckets whose dedupe windows lie together: a batch then has several entries for one command.
const MID_BUCKETS: u32 = 8;

pub(crate) fn mid_group(bucket: Bucket) -> u32 {
    bucket / MID_BUCKETS
}

/// One slice of the dedupe window of some buckets.
pub(crate) fn mid(bucket: Bucket, slice: u64) -> String {
    format!("mid:{}:{slice}", mid_group(bucket))
}

pub(crate) fn cmidown(tenant: &str, sender: &str, client_mid: &str) -> String {
    let bucket = bucket::mid_bucket(tenant, sender, client_mid);
    format!("cmidown:{bucket}:{tenant}:{sender}:{client_mid}")
}

pub(crate) fn convs(tenant: &str, user: &str) -> String {
    format!("convs:{}:{tenant}:{user}", bucket::user_shard(tenant, user))
}

/// Beside the cursor of a conversation: the user's own newest message.
pub(crate) fn sent(conversation: &str) -> String {
    format!(">{conversation}")
}

pub(crate) fn cursor(tenant: &str, user: &str) -> String {
    format!("cursor:{}:{tenant}:{user}", bucket::user_shard(tenant, user))
}
