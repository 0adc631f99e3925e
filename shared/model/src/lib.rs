//! What every service agrees on, free of IO: ids and kinds, buckets and range maps, the log's rule of validity,
//! events and their fold, outcomes and errors.

pub mod bucket;
pub mod event;
pub mod fold;
pub mod ids;
pub mod kind;
pub mod outcome;
pub mod position;
pub mod record;
pub mod trace;
pub mod view;

pub use bucket::{Bucket, PartitionId, RangeMap};
pub use fold::{Header, Member};
pub use ids::ConversationKey;
pub use kind::Kind;
pub use outcome::{Code, Refusal};
pub use position::{Position, Rule, Verdict, Void};
pub use view::{Family, MidEntry, Op};
