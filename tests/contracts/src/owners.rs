//! `own.lua` in memory: who used a client_mid first.

use std::collections::BTreeMap;

use lapwing_model::view::Owned;

/// Its keys end with the dedupe window, which nothing here outlives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Owners {
    hashes: BTreeMap<[String; 3], [u8; 16]>,
}

impl Owners {
    pub fn own(&mut self, tenant: &str, sender: &str, client_mid: &str, content_hash: [u8; 16]) -> Owned {
        let place = [tenant, sender, client_mid].map(str::to_owned);
        match self.hashes.get(&place) {
            None => {
                self.hashes.insert(place, content_hash);
                Owned::New
            }
            Some(known) if *known == content_hash => Owned::SameContent,
            Some(_) => Owned::OtherContent,
        }
    }

    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    pub fn forget_last(&mut self) {
        self.hashes.pop_last();
    }
}
