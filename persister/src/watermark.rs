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

struct State {
    position: Position,
    changed: bool,
    /// Told for a while: a lost mark must not lose them.
    tombstones: VecDeque<(Instant, Tombstone)>,
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

    /// Everything of the partition below the position is in MySQL.
    pub(crate) fn reached(&self, partition: &PartitionId, position: Position, tombstones: Vec<Tombstone>) {
        let mut partitions = self.partitions.lock();
        let state = partitions.entry(partition.clone()).or_insert_with(|| State {
            position: Position::default(),
            changed: false,
            tombstones: VecDeque::new(),
        });
        state.changed |= state.position != position || !tombstones.is_empty();
        state.position = position;
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
        due.map(|(partition, state)| {
            state.changed = false;
            state.tombstones.retain(|(since, _)| since.elapsed() < TOMBSTONES_TOLD);
            bus::Mark {
                partition: Some(partition.into()),
                persisted: Some(state.position.into()),
                tombstones: state.tombstones.iter().map(|(_, tombstone)| tombstone.clone()).collect(),
                persister: self.persister.clone(),
            }
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
        marks.reached(&partition, at(5), Vec::new());
        marks.reached(&partition, at(9), vec![Tombstone { seq: 7, ..Tombstone::default() }]);
        let told = marks.take(false);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].persisted.unwrap().offset, 9);
        assert!(marks.take(false).is_empty());
        let again = marks.take(true);
        assert_eq!(again[0].tombstones[0].seq, 7, "a lost mark loses no tombstone");
        marks.forget(&partition);
        assert!(marks.take(true).is_empty());
    }
}
