//! What the owner asks of a view, put to the model in memory that the contracts hold to the real scripts.

use lapwing_contracts::Piece;
use lapwing_model::{Bucket, ConversationKey, view::slices};
use lapwing_router_core::{Load, Loaded, io::LoadAsk};

/// As the services have it.
const WINDOW_MS: u64 = 2 * 3600 * 1000;

pub(crate) fn load(view: &Piece, key: &ConversationKey, bucket: Bucket, ask: &LoadAsk, wall_ms: u64) -> Load {
    let ask = lapwing_contracts::Load {
        key,
        bucket,
        lowest: ask.lowest,
        users: &ask.users,
        mid: ask.mid,
        slices: slices(wall_ms, WINDOW_MS),
    };
    view.load(&ask).map_or(Load::Unavailable, |found| {
        Load::Found(Box::new(Loaded {
            header: found.header,
            persisted: found.persisted,
            mid: found.mid,
            members: found.members,
        }))
    })
}
