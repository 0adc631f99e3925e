//! The scripts by their typed functions, on a Redis of the test's own; its two instances are two databases of one server.

use std::time::Duration;

use lapwing_model::{PartitionId, Position};
use lapwing_runtime::{Health, SecretUrl, Tasks};
use lapwing_servers::{Infra, InfraOptions};
use lapwing_views::{
    Applied, Found, HotPage, LoadItem, LoadedItem, OwnItem, Owned, PageAsk, Places, Section, Settings,
    UserConversation, ViewError, Views,
};

use crate::store::{NOW, PARTITIONS, Store};

pub(crate) struct Real {
    pub(crate) views: Views,
    pub(crate) infra: Infra,
}

impl Real {
    pub(crate) async fn start() -> Self {
        let infra = Infra::prepare(InfraOptions::default()).await.unwrap();
        infra.redis().start().await.unwrap();
        let views = Self::connect(&infra);
        Self { views, infra }
    }

    fn connect(infra: &Infra) -> Views {
        let url = infra.redis().url();
        let other = url.strip_suffix("/0").unwrap();
        let settings = Settings {
            redis_url: SecretUrl::new(format!("one={url} two={other}/1")),
            redis_buckets: Some("0-255=one".to_owned()),
            redis_users: Some("0-63=one".to_owned()),
        };
        Views::new(Places::connect(&settings, PARTITIONS, &Tasks::new(), &Health::new()).unwrap())
    }

    /// Empty, and nobody knows how far it was.
    pub(crate) async fn renew(&mut self) {
        self.say(&["FLUSHALL"]).await;
        self.views = Self::connect(&self.infra);
    }

    /// As its operator.
    pub(crate) async fn say(&self, words: &[&str]) -> String {
        self.infra.redis().command(words).await.unwrap()
    }
}

fn ready<T>(answer: Result<T, ViewError>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(ViewError::NotReady(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

impl Store for Real {
    async fn apply(&mut self, instance: usize, sections: &[Section]) -> Vec<Applied> {
        self.views.apply(instance, sections).await.unwrap()
    }

    async fn load(&mut self, instance: usize, items: &[LoadItem]) -> Vec<Option<LoadedItem>> {
        self.views.load(instance, items, NOW).await.unwrap()
    }

    async fn page(&mut self, ask: PageAsk<'_>) -> Option<HotPage> {
        ready(self.views.hot_page(ask).await)
    }

    async fn conversations(
        &mut self,
        tenant: &str,
        user: &str,
        most: usize,
    ) -> Option<Vec<UserConversation>> {
        ready(self.views.user_conversations(tenant, user, most).await)
    }

    async fn own(&mut self, items: &[OwnItem]) -> Vec<Owned> {
        let owned = self.views.own(items, Duration::from_secs(1)).await;
        owned.into_iter().map(Option::unwrap).collect()
    }

    async fn told(&mut self, id: &PartitionId) -> Option<Position> {
        self.views.told(id, 0).await.unwrap()
    }

    async fn found(&mut self, id: &PartitionId, instance: usize) -> Found {
        self.views.found(id, instance).await.unwrap()
    }

    async fn clear(&mut self, id: &PartitionId, instance: usize) {
        self.views.clear(id, instance).await.unwrap();
    }

    async fn place(&mut self, id: &PartitionId, instance: usize, version: u64) {
        self.views.set_placed(id, instance, version).await.unwrap();
    }

    async fn sweep(&mut self, id: &PartitionId, instance: usize) {
        self.views.sweep(id, instance).await.unwrap();
    }

    fn right_up_to(&mut self, id: &PartitionId, commit: u64, user: u64) {
        self.views.places().right_up_to(id, commit, user);
    }
}
