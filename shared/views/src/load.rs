//! `load.lua`: cold loads of an owner, only from a view that is far enough (R-SEQ-9, I9).

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use lapwing_links::redis::{Script, Value};
use lapwing_model::{
    Bucket, ConversationKey, MidEntry,
    view::{LoadedItem, slices},
};

use crate::{
    Piece, TIMEOUT, ViewError, Views,
    apply::{number, text},
    keys, value,
};

static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new("load", include_str!("lua/load.lua")));

#[derive(Debug, Clone, PartialEq)]
pub struct LoadItem {
    pub key: ConversationKey,
    pub bucket: Bucket,
    /// The view must have applied everything below this offset.
    pub lowest: u64,
    pub users: Vec<Arc<str>>,
    pub mid: Option<[u8; 16]>,
}

impl Views {
    /// One call for all items, whose views are on this instance; None: that view is not far enough to say anything. `now_ms`: wall
    /// clock, for the window's slices.
    pub async fn load(
        &self,
        instance: usize,
        items: &[LoadItem],
        now_ms: u64,
    ) -> Result<Vec<Option<LoadedItem>>, ViewError> {
        let (mut keys, mut args) = (Vec::new(), Vec::new());
        for item in items {
            let id = self
                .partition(item.bucket, &item.key)
                .ok_or_else(|| ViewError::NotReady(item.key.to_string()))?;
            keys.push(Bytes::from(keys::applied(&id, &Piece::commit(instance))));
            keys.push(Bytes::from(keys::head(item.bucket, &item.key)));
            keys.push(Bytes::from(keys::members(item.bucket, &item.key)));
            let before = keys.len();
            if item.mid.is_some() {
                let slices = slices(now_ms, self.window_ms);
                keys.extend(slices.map(|slice| Bytes::from(keys::mid(item.bucket, slice))));
            }
            args.push(number(item.lowest));
            args.push(number((keys.len() - before) as u64));
            args.push(number(item.users.len() as u64));
            args.extend(item.users.iter().map(|user| text(user)));
            args.push(item.mid.map_or(Bytes::new(), |mid| Bytes::copy_from_slice(&mid)));
        }
        let answer = self.places.redis(instance).eval(&LOAD, &keys, &args, TIMEOUT).await?;
        let form = || value::form("load", &answer);
        let found = value::array(&answer).filter(|found| found.len() == items.len()).ok_or_else(form)?;
        found.iter().zip(items).map(|(found, item)| parse(found, item).ok_or_else(form)).collect()
    }
}

/// Outer None: another form than expected; inner None: not far enough.
fn parse(found: &Value, item: &LoadItem) -> Option<Option<LoadedItem>> {
    let fields = value::strings(found)?;
    if fields.len() == 1 {
        return Some(None);
    }
    if fields.len() != 7 + item.users.len() {
        return None;
    }
    let (header, persisted) = value::header(&fields[1..6])?;
    let mid = if fields[6].is_empty() { None } else { Some(MidEntry::decode(&fields[6])?) };
    let members = fields[7..].iter().map(value::member).collect::<Option<Vec<_>>>()?;
    Some(Some(LoadedItem { header, persisted, mid, members }))
}
