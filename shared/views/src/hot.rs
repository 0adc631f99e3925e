//! `hot.lua`: a page of the hot window with what decides who may see it (R-PST-9, I9).

use std::sync::LazyLock;

use bytes::Bytes;
use lapwing_links::redis::Script;
use lapwing_model::{
    Family, bucket,
    view::{HotPage, PageAsk},
};

use crate::{
    Piece, TIMEOUT, ViewError, Views,
    apply::{number, text},
    keys, value,
};

static HOT: LazyLock<Script> = LazyLock::new(|| Script::new("hot", include_str!("lua/hot.lua")));

impl Views {
    pub async fn hot_page(&self, ask: PageAsk<'_>) -> Result<HotPage, ViewError> {
        let not_ready = || ViewError::NotReady(ask.key.to_string());
        let bucket = bucket::bucket_of(ask.key).ok_or_else(not_ready)?;
        let id = self.partition(bucket, ask.key).ok_or_else(not_ready)?;
        let keys = [
            keys::applied(&id, &Piece::commit(0)),
            keys::head(bucket, ask.key),
            keys::hot(bucket, ask.key),
            keys::members(bucket, ask.key),
        ]
        .map(Bytes::from);
        let newest = Bytes::from_static(if ask.newest { b"1" } else { b"0" });
        let user = text(ask.user.unwrap_or_default());
        let lowest = number(self.places.lowest(&id, Family::Commit));
        let args = [user, number(ask.from), number(ask.to), number(ask.limit.into()), newest, lowest];
        let mut instance = self.places.commit(&id);
        let mut answer = self.places.redis(instance).eval(&HOT, &keys, &args, TIMEOUT).await?;
        if let Some(to) = self.moved_to(&answer) {
            self.places.moved(&id, to);
            instance = to;
            answer = self.places.redis(instance).eval(&HOT, &keys, &args, TIMEOUT).await?;
        }
        let form = || value::form("hot", &answer);
        let fields = value::strings(&answer).ok_or_else(form)?;
        match fields.len() {
            1 => return Err(not_ready()),
            0 | 2..=7 => return Err(form()),
            _ => {}
        }
        let (header, persisted_seq) = value::header(&fields[1..6]).ok_or_else(form)?;
        let member = value::member(&fields[6]).ok_or_else(form)?;
        let lowest = value::number(&fields[7]).ok_or_else(form)?;
        let events = fields[8..].to_vec();
        Ok(HotPage { header, persisted_seq, member, lowest, events })
    }

    /// A marker of a move instead of a position.
    fn moved_to(&self, answer: &lapwing_links::redis::Value) -> Option<usize> {
        let fields = value::strings(answer)?;
        let name = fields.first()?.strip_prefix(b"@")?;
        self.places.instance_named(std::str::from_utf8(name).ok()?)
    }
}
