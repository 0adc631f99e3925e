//! `own.lua`: a client_mid belongs to the first conversation and content that used it (R-SEQ-7).

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use futures::future::join_all;
use lapwing_links::redis::Script;
use lapwing_model::{bucket::mid_bucket, view::Owned};

use crate::{ViewError, Views, apply::number, keys, value};

static OWN: LazyLock<Script> = LazyLock::new(|| Script::new("own", include_str!("lua/own.lua")));

#[derive(Debug, Clone, PartialEq)]
pub struct OwnItem {
    pub tenant: Arc<str>,
    pub sender: Arc<str>,
    pub client_mid: Arc<str>,
    pub content_hash: [u8; 16],
}

impl Views {
    /// One call an instance; None: it did not answer in time.
    pub async fn own(&self, items: &[OwnItem], deadline: Duration) -> Vec<Option<Owned>> {
        let mut by_instance: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, item) in items.iter().enumerate() {
            let bucket = mid_bucket(&item.tenant, &item.sender, &item.client_mid);
            by_instance.entry(self.places.mid(bucket)).or_default().push(place);
        }
        let mut owned = vec![None; items.len()];
        let asked = by_instance.into_iter().map(|(instance, places)| async move {
            let of: Vec<_> = places.iter().map(|place| &items[*place]).collect();
            (self.own_on(instance, &of, deadline).await, places)
        });
        for (answer, places) in join_all(asked).await {
            for (letter, place) in answer.unwrap_or_default().into_iter().zip(places) {
                owned[place] = Some(letter);
            }
        }
        owned
    }

    async fn own_on(
        &self,
        instance: usize,
        items: &[&OwnItem],
        deadline: Duration,
    ) -> Result<Vec<Owned>, ViewError> {
        let keys: Vec<_> = items
            .iter()
            .map(|item| Bytes::from(keys::cmidown(&item.tenant, &item.sender, &item.client_mid)))
            .collect();
        let mut args = vec![number(self.window_ms)];
        args.extend(items.iter().map(|item| Bytes::copy_from_slice(&item.content_hash)));
        let answer = self.places.redis(instance).eval(&OWN, &keys, &args, deadline).await?;
        let letters = value::strings(&answer).ok_or_else(|| value::form("own", &answer))?;
        letters
            .iter()
            .map(|letter| match letter.as_ref() {
                b"N" => Ok(Owned::New),
                b"S" => Ok(Owned::SameContent),
                b"O" => Ok(Owned::OtherContent),
                _ => Err(value::form("own", &answer)),
            })
            .collect()
    }
}
