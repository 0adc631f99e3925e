//! ⑪ watermark: how far each partition of this process is in MySQL, told after each commit and again each second.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lapwing_links::nats::Nats;
use lapwing_model::{PartitionId, Position};
use lapwing_proto::{
    Message as _,
    bus::{self, Tombstone},
};
use lapwing_runtime::metrics::stage;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) const SUBJECT: &str = "lw.p.mark";

/// Marks are cumulative, so only the newest of each partition is kept: nothing here can grow with the rate.
pub(crate) struct Marks {
    persister: String,
    partitions: Mutex<HashMap<PartitionId, State>>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// The instances that the partition is read from; nothing is told before all of them have been heard.
    expected: Vec<usize>,
    positions: HashMap<usize, Position>,
    changed: bool,
    /// Told for a while: a lost mark must not lose them.
    tombstones: VecDeque<(Instant, Tombstone)>,
}

impl State {
    /// Everything below is in MySQL, on whichever instance.
    fn position(&self) -> Option<Position> {
        let known = self.expected.iter().map(|instance| self.positions.get(instance).copied());
        known.collect::<Option<Vec<_>>>()?.into_iter().min_by_key(|at| at.offset)
    }
}

const TOMBSTONES_TOLD: Duration = Duration::from_secs(10);
const TOMBSTONES_KEPT: usize = 1000;

impl Marks {
    pub(crate) fn new(persister: &str) -> Arc<Self> {
        Arc::new(Self {
            persister: persister.to_owned(),
            partitions: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// What counts as the partition's rows is on these instances.
    pub(crate) fn expect(&self, partition: &PartitionId, instances: Vec<usize>) {
        let mut partitions = self.partitions.lock();
        let state = partitions.entry(partition.clone()).or_default();
        state.changed |= state.expected != instances;
        state.expected = instances;
    }

    /// Everything of the partition below the position is on the instance. One that nobody reads from says nothing.
    pub(crate) fn reached(
        &self,
        partition: &PartitionId,
        instance: usize,
        position: Position,
        tombstones: Vec<Tombstone>,
    ) {
        let mut partitions = self.partitions.lock();
        let Some(state) = partitions.get_mut(partition) else { return };
        state.changed |=
            state.positions.insert(instance, position) != Some(position) || !tombstones.is_empty();
        let now = Instant::now();
        state.tombstones.extend(tombstones.into_iter().map(|tombstone| (now, tombstone)));
        while state.tombstones.len() > TOMBSTONES_KEPT {
            state.tombstones.pop_front();
        }
        let changed = state.changed;
        drop(partitions);
        if changed {
            self.changed.notify_one();
        }
    }

    pub(crate) fn forget(&self, partition: &PartitionId) {
        self.partitions.lock().remove(partition);
    }

    /// What is to be told now; `all`: every partition, changed or not.
    fn take(&self, all: bool) -> Vec<bus::Mark> {
        let mut partitions = self.partitions.lock();
        let due = partitions.iter_mut().filter(|(_, state)| all || state.changed);
        due.filter_map(|(partition, state)| {
            let position = state.position()?;
            state.changed = false;
            // One behind the mark, since another instance is late, is told until the mark has passed it.
            state.tombstones.retain(|(since, tombstone)| {
                since.elapsed() < TOMBSTONES_TOLD || tombstone.offset >= position.offset
            });
            Some(bus::Mark {
                partition: Some(partition.into()),
                persisted: Some(position.into()),
                tombstones: state.tombstones.iter().map(|(_, tombstone)| tombstone.clone()).collect(),
                persister: self.persister.clone(),
            })
        })
        .collect()
    }
}

pub(crate) async fn run(marks: Arc<Marks>, nats: Nats, stop: CancellationToken) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        let all = tokio::select! {
            () = stop.cancelled() => return,
            _ = second.tick() => true,
            () = marks.changed.notified() => false,
        };
        for mark in marks.take(all) {
            let timer = stage("watermark");
            // A lost one is healed by the next: they are cumulative and told each second.
            let told = nats.publish(SUBJECT, &[], Bytes::from(mark.encode_to_vec())).await;
            timer.done(if told.is_ok() { "ok" } else { "lost" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-ACK-3
    #[test]
    fn the_newest_position_of_each_partition_is_told_once_and_then_each_second() {
        let marks = Marks::new("p1");
        let partition = PartitionId::new("lapwing.p2p", 3);
        let at = |offset| Position { offset, epoch: 0, index: offset };
        marks.expect(&partition, vec![0]);
        marks.reached(&partition, 0, at(5), Vec::new());
        marks.reached(&partition, 0, at(9), vec![Tombstone { seq: 7, ..Tombstone::default() }]);
        let told = marks.take(false);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].persisted.unwrap().offset, 9);
        assert!(marks.take(false).is_empty());
        let again = marks.take(true);
        assert_eq!(again[0].tombstones[0].seq, 7, "a lost mark loses no tombstone");
        marks.forget(&partition);
        assert!(marks.take(true).is_empty());
    }

    // R-PST-12: a receipt says that the row is there, so the slowest instance decides, and one not heard yet keeps it back.
    #[test]
    fn the_least_position_of_all_instances_is_told() {
        let marks = Marks::new("p1");
        let partition = PartitionId::new("lapwing.p2p", 3);
        let at = |offset| Position { offset, epoch: 0, index: offset };
        let told = || marks.take(false).first().and_then(|mark| mark.persisted).map(|at| at.offset);
        marks.expect(&partition, vec![0, 1]);
        marks.reached(&partition, 0, at(9), Vec::new());
        assert_eq!(told(), None);
        marks.reached(&partition, 1, at(4), Vec::new());
        assert_eq!(told(), Some(4));
        marks.reached(&partition, 2, at(1), Vec::new());
        assert_eq!(told(), Some(4), "nobody reads there");
        marks.expect(&partition, vec![0]);
        assert_eq!(told(), Some(9));
    }
}
