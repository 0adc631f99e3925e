//! `own.lua`: a client_mid belongs to the first conversation and content that used it (R-SEQ-7).

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use lapwing_links::redis::Script;

use crate::{ViewError, Views, apply::number, keys, value};

static OWN: LazyLock<Script> = LazyLock::new(|| Script::new("own", include_str!("lua/own.lua")));

#[derive(Debug, Clone, PartialEq)]
pub struct OwnItem {
    pub tenant: Arc<str>,
    pub sender: Arc<str>,
    pub client_mid: Arc<str>,
    pub content_hash: [u8; 16],
}

/// Who has the client_mid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owned {
    New,
    SameContent,
    OtherContent,
}

impl Views {
    pub async fn own(&self, items: &[OwnItem], deadline: Duration) -> Result<Vec<Owned>, ViewError> {
        let keys: Vec<_> = items
            .iter()
            .map(|item| Bytes::from(keys::cmidown(&item.tenant, &item.sender, &item.client_mid)))
            .collect();
        let mut args = vec![number(self.window_ms)];
        args.extend(items.iter().map(|item| Bytes::copy_from_slice(&item.content_hash)));
        let answer = self.redis.eval(&OWN, &keys, &args, deadline).await?;
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
