//! The views' part of ① admit: lookups of all partitions, joined into few script calls.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use lapwing_model::{PartitionId, view::Family};
use lapwing_router_core::{Load, Loaded, Lookup, LookupAnswer, Own};
use lapwing_runtime::{
    OnError, metrics,
    queue::{Queue, Receiver, Sender},
};
use lapwing_views::{LoadItem, OwnItem, Owned};
use tokio::sync::Semaphore;

use crate::{cold, router::Router, sequence::Event};

/// R-SEQ-7: slower than this it is skipped and counted.
const OWN_DEADLINE: Duration = Duration::from_millis(20);
const BATCH: usize = 128;
const IN_FLIGHT: usize = 4;

#[derive(Clone)]
pub(crate) struct Handle {
    queue: Sender<(PartitionId, Lookup)>,
}

pub(crate) struct Stage {
    queue: Receiver<(PartitionId, Lookup)>,
}

pub(crate) fn open() -> (Handle, Stage) {
    let (sender, receiver) = Queue::named("lookup").items(65_536).bytes(64 << 20).open();
    (Handle { queue: sender }, Stage { queue: receiver })
}

impl Handle {
    /// The answer at once when the queue is full: as if the views were down.
    pub(crate) fn ask(&self, id: &PartitionId, lookup: Lookup) -> Option<LookupAnswer> {
        let ticket = lookup.ticket;
        let own = if lookup.own.is_some() { Own::Skipped } else { Own::NotAsked };
        let load = if lookup.load.is_some() { Load::Unavailable } else { Load::NotAsked };
        let full = self.queue.try_push((id.clone(), lookup), 256).is_err();
        full.then_some(LookupAnswer { ticket, load, own })
    }
}

impl Stage {
    pub(crate) async fn run(mut self, router: Arc<Router>) {
        // Apart, so that with a slow or absent Redis what needs no load waits only for its short deadline.
        let instances = router.views.places().instances().len();
        let (light_places, heavy_places) = (places(), (0..instances).map(|_| places()).collect::<Vec<_>>());
        let stopping = router.context.stopping();
        loop {
            let batch = tokio::select! {
                () = stopping.cancelled() => return,
                batch = self.queue.pop_up_to(BATCH, 1 << 20) => batch,
            };
            if batch.is_empty() {
                return;
            }
            let (mut light, mut heavy) = (Vec::new(), BTreeMap::<usize, Vec<_>>::new());
            for (id, lookup) in batch {
                match lookup.load {
                    None => light.push((id, lookup)),
                    Some(_) => heavy.entry(router.views.places().commit(&id)).or_default().push((id, lookup)),
                }
            }
            start(&router, &light_places, 0, light).await;
            for (instance, batch) in heavy {
                start(&router, &heavy_places[instance], instance, batch).await;
            }
        }
    }
}

fn places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(IN_FLIGHT))
}

/// Waits for a place only while this kind of lookup has none.
async fn start(
    router: &Arc<Router>,
    places: &Arc<Semaphore>,
    instance: usize,
    batch: Vec<(PartitionId, Lookup)>,
) {
    if batch.is_empty() {
        return;
    }
    let Ok(place) = places.clone().acquire_owned().await else { return };
    let router = router.clone();
    let tasks = router.context.tasks.clone();
    tasks.spawn("lookup batch", OnError::Log, async move {
        look_up(&router, instance, batch).await;
        drop(place);
    });
}

async fn look_up(router: &Router, instance: usize, batch: Vec<(PartitionId, Lookup)>) {
    let stage = metrics::stage("admit");
    let (loads, owns) = tokio::join!(load(router, instance, &batch), own(router, &batch));
    stage.done("ok");
    // Together for each partition: a message each would wake its task as often.
    let mut told: HashMap<PartitionId, Vec<LookupAnswer>> = HashMap::new();
    for (((id, lookup), load), own) in batch.into_iter().zip(loads).zip(owns) {
        told.entry(id).or_default().push(LookupAnswer { ticket: lookup.ticket, load, own });
    }
    for (id, answers) in told {
        let events = router.partitions.read().get(&id).map(|handle| handle.events.clone());
        if let Some(events) = events {
            let _gone = events.send(Event::LookedUp(answers)).await;
        }
    }
}

async fn load(router: &Router, instance: usize, batch: &[(PartitionId, Lookup)]) -> Vec<Load> {
    let asked: Vec<_> = batch
        .iter()
        .filter_map(|(_, lookup)| {
            let load = lookup.load.as_ref()?;
            Some(LoadItem {
                key: lookup.key.clone(),
                bucket: lookup.bucket,
                lowest: load.lowest,
                users: load.users.clone(),
                mid: load.mid,
            })
        })
        .collect();
    let found = match asked.is_empty() {
        true => Ok(Vec::new()),
        false => router.views.load(instance, &asked, lapwing_runtime::time::now_ms()).await,
    };
    let mut found = match found {
        Ok(found) => found.into_iter(),
        Err(error) => {
            tracing::debug!(%error, "cold loads failed");
            return cold::load(router, batch).await;
        }
    };
    batch
        .iter()
        .map(|(id, lookup)| match &lookup.load {
            None => Load::NotAsked,
            Some(_) => match found.next().flatten() {
                Some(item) => Load::Found(Box::new(Loaded {
                    header: item.header,
                    persisted: item.persisted,
                    mid: item.mid,
                    members: item.members,
                })),
                None => {
                    // Perhaps it moved back: the next empty apply tells, and replays it.
                    router.apply.check(id.clone(), Family::Commit);
                    Load::Unavailable
                }
            },
        })
        .collect()
}

async fn own(router: &Router, batch: &[(PartitionId, Lookup)]) -> Vec<Own> {
    let asked: Vec<_> = batch
        .iter()
        .filter_map(|(_, lookup)| {
            let own = lookup.own.as_ref()?;
            Some(OwnItem {
                tenant: lookup.key.tenant.clone(),
                sender: own.sender.clone(),
                client_mid: own.client_mid.clone(),
                content_hash: own.content_hash,
            })
        })
        .collect();
    let owned = match asked.is_empty() {
        true => Vec::new(),
        false => router.views.own(&asked, OWN_DEADLINE).await,
    };
    let skipped = owned.iter().filter(|owned| owned.is_none()).count();
    if skipped > 0 {
        ::metrics::counter!(metrics::CMIDOWN_SKIPPED_TOTAL).increment(skipped as u64);
    }
    let mut owned = owned.into_iter();
    let answer = |(_, lookup): &(PartitionId, Lookup)| match &lookup.own {
        None => Own::NotAsked,
        Some(_) => match owned.next().flatten() {
            Some(Owned::New) => Own::New,
            Some(Owned::SameContent) => Own::SameContent,
            Some(Owned::OtherContent) => Own::OtherContent,
            None => Own::Skipped,
        },
    };
    batch.iter().map(answer).collect()
}
