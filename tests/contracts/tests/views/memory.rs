//! The model: the pieces of all partitions on two instances.

use std::collections::{BTreeMap, HashMap};

use lapwing_contracts::{Load, Owners, Piece};
use lapwing_model::{Family, PartitionId, Position, kind::KINDS, view::slices};
use lapwing_views::{
    Applied, Found, HotPage, LoadItem, LoadedItem, OwnItem, Owned, PageAsk, Section, UserConversation,
};

use crate::store::{INSTANCES, NOW, PARTITIONS, Store, WINDOW_MS, id_of};

type Place = (usize, PartitionId, Family);

#[derive(Default)]
pub(crate) struct Memory {
    pieces: BTreeMap<Place, Piece>,
    /// Where a reader has found markers.
    moved: HashMap<PartitionId, usize>,
    placed: HashMap<(usize, PartitionId), u64>,
    right: HashMap<(PartitionId, Family), u64>,
    owners: Owners,
}

impl Memory {
    fn commit(&mut self, id: &PartitionId, instance: usize) -> &mut Piece {
        self.pieces.entry((instance, id.clone(), Family::Commit)).or_default()
    }

    fn lowest(&self, id: &PartitionId, family: Family) -> u64 {
        self.right.get(&(id.clone(), family)).copied().unwrap_or_default()
    }
}

impl Store for Memory {
    async fn apply(&mut self, instance: usize, sections: &[Section]) -> Vec<Applied> {
        let take = |section: &Section| {
            let place = (instance, section.id.clone(), section.piece.family);
            self.pieces.entry(place).or_default().apply(&section.expect, &section.ops)
        };
        sections.iter().map(take).collect()
    }

    async fn load(&mut self, instance: usize, items: &[LoadItem]) -> Vec<Option<LoadedItem>> {
        let load = |item: &LoadItem| {
            let LoadItem { key, bucket, lowest, users, mid } = item;
            let (bucket, lowest, mid, slices) = (*bucket, *lowest, *mid, slices(NOW, WINDOW_MS));
            self.commit(&id_of(key), instance).load(&Load { key, bucket, lowest, users, mid, slices })
        };
        items.iter().map(load).collect()
    }

    async fn page(&mut self, ask: PageAsk<'_>) -> Option<HotPage> {
        let id = id_of(ask.key);
        let lowest = self.lowest(&id, Family::Commit);
        let mut instance = self.moved.get(&id).copied().unwrap_or_default();
        if let Applied::Moved(to) = self.found(&id, instance).await.at {
            instance = INSTANCES.iter().position(|name| *name == to)?;
            self.moved.insert(id.clone(), instance);
        }
        self.commit(&id, instance).page(ask, lowest)
    }

    async fn conversations(
        &mut self,
        tenant: &str,
        user: &str,
        most: usize,
    ) -> Option<Vec<UserConversation>> {
        let mut all = Vec::new();
        for kind in KINDS {
            for partition in 0..PARTITIONS {
                let id = PartitionId::new(kind.topic(), partition);
                let lowest = self.lowest(&id, Family::User);
                all.extend(self.pieces.get(&(0, id, Family::User))?.conversations(tenant, user, lowest)?);
            }
        }
        all.sort_unstable_by(|a, b| a.conversation.cmp(&b.conversation));
        all.truncate(most);
        Some(all)
    }

    async fn own(&mut self, items: &[OwnItem]) -> Vec<Owned> {
        let own = |OwnItem { tenant, sender, client_mid, content_hash }: &OwnItem| {
            self.owners.own(tenant, sender, client_mid, *content_hash)
        };
        items.iter().map(own).collect()
    }

    async fn told(&mut self, id: &PartitionId) -> Option<Position> {
        self.commit(id, 0).told
    }

    async fn found(&mut self, id: &PartitionId, instance: usize) -> Found {
        let probe = Section::probe(id, lapwing_views::Piece::commit(instance));
        let at = self.commit(id, instance).apply(&probe.expect, &probe.ops);
        Found { at, placed: self.placed.get(&(instance, id.clone())).copied() }
    }

    async fn clear(&mut self, id: &PartitionId, instance: usize) {
        self.placed.remove(&(instance, id.clone()));
        self.commit(id, instance).clear();
    }

    async fn place(&mut self, id: &PartitionId, instance: usize, version: u64) {
        self.placed.insert((instance, id.clone()), version);
    }

    async fn sweep(&mut self, id: &PartitionId, instance: usize) {
        self.commit(id, instance).sweep();
    }

    fn right_up_to(&mut self, id: &PartitionId, commit: u64, user: u64) {
        for (family, offset) in [(Family::Commit, commit), (Family::User, user)] {
            let known = self.right.entry((id.clone(), family)).or_default();
            *known = (*known).max(offset);
        }
    }
}
