//! A partition in this process's hands, for as long as the lease is held: consume → queue → write for each instance by itself.

use std::{collections::HashMap, sync::Arc};

use futures::FutureExt as _;
use lapwing_links::kafka::Kafka;
use lapwing_model::{PartitionId, Position};
use lapwing_persister_core::Placement;
use lapwing_runtime::{OnError, Tasks};
use parking_lot::Mutex;

use crate::{
    moving::{self, Mover},
    persister::Persister,
    unit::Opening,
};

/// Why a partition's work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Told to.
    Stopped,
    /// The lease or the position is somebody else's.
    Fenced,
    /// It cannot go on without losing something: a person has to look.
    Broken(String),
}

/// How far a partition has come, for leases, metrics and people.
#[derive(Default)]
pub(crate) struct Progress {
    inner: Mutex<State>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) stored: Position,
    /// Everything below is in MySQL, whether the position has been stored or not.
    pub(crate) reached: Position,
    /// The offset behind the newest record of the log, as last heard.
    pub(crate) high: u64,
    /// When the oldest record that is not in MySQL was written to the log.
    pub(crate) oldest_ms: Option<u64>,
    pub(crate) end: Option<End>,
}

impl State {
    pub(crate) fn lag(&self) -> u64 {
        self.high.saturating_sub(self.reached.offset)
    }
}

impl Progress {
    fn new(at: Position) -> Arc<Self> {
        let state = State { stored: at, reached: at, high: at.offset, ..State::default() };
        Arc::new(Self { inner: Mutex::new(state) })
    }

    pub(crate) fn state(&self) -> State {
        self.inner.lock().clone()
    }

    pub(crate) fn heard(&self, high: u64) {
        self.inner.lock().high = high;
    }

    /// A batch is in hand whose oldest record is from then.
    pub(crate) fn writing(&self, timestamp_ms: u64) {
        self.inner.lock().oldest_ms = Some(timestamp_ms);
    }

    pub(crate) fn stored(&self, at: Position) {
        self.inner.lock().stored = at;
        self.reached(at);
    }

    pub(crate) fn reached(&self, at: Position) {
        let mut state = self.inner.lock();
        state.reached = at;
        if state.lag() == 0 {
            state.oldest_ms = None;
        }
    }

    /// Where its work begins.
    pub(crate) fn opened(&self, at: Position) {
        let mut state = self.inner.lock();
        *state = State { stored: at, reached: at, high: at.offset, ..State::default() };
    }

    /// The graver reason stays, whichever of the tasks ends first.
    pub(crate) fn ended(&self, end: End) {
        let grave = |end: &End| match end {
            End::Stopped => 0,
            End::Broken(_) => 1,
            End::Fenced => 2,
        };
        let mut state = self.inner.lock();
        if state.end.as_ref().is_none_or(|known| grave(known) < grave(&end)) {
            state.end = Some(end);
        }
    }
}

/// A partition whose lease is held here, with a unit of work for each instance that gets rows from it.
pub(crate) struct Held {
    pub(crate) lease_epoch: i64,
    persister: Arc<Persister>,
    kafka: Kafka,
    partition: PartitionId,
    units: HashMap<usize, Unit>,
    /// What brings the partition elsewhere.
    mover: Option<Tasks>,
    tasks: Tasks,
}

impl Held {
    pub(crate) fn new(
        persister: &Arc<Persister>,
        kafka: &Kafka,
        partition: &PartitionId,
        lease_epoch: i64,
    ) -> Self {
        let tasks = persister.context.tasks.child();
        Self {
            lease_epoch,
            persister: persister.clone(),
            kafka: kafka.clone(),
            partition: partition.clone(),
            units: HashMap::new(),
            mover: None,
            tasks,
        }
    }

    /// Starts, ends and starts again what a placement asks for. A unit that takes the same goes on.
    pub(crate) fn follow(&mut self, placement: &Arc<Placement>) {
        if self.is_stopping() {
            return;
        }
        let mut wanted = placement.instances_of(&self.partition);
        if self.persister.closing.lock().contains(&self.partition) {
            wanted.retain(|instance| *instance != placement.placed(&self.partition).instance);
        }
        self.persister.expect_marks(&self.partition);
        let (persister, partition) = (&self.persister, &self.partition);
        self.units.retain(|instance, unit| {
            let rule = |placement: &Placement| placement.rule(partition, *instance);
            let same = wanted.contains(instance) && rule(placement) == rule(&unit.placement);
            if same && !unit.tasks.is_stopping() {
                unit.placement = placement.clone();
                return true;
            }
            unit.tasks.stop();
            let ended = unit.has_ended();
            if ended {
                persister.partitions.lock().remove(&(partition.clone(), *instance));
                persister.context.health.forget(&persister.check(partition, *instance));
            }
            !ended
        });
        for instance in wanted {
            if !self.units.contains_key(&instance) {
                let unit = self.start(instance, placement.clone());
                self.units.insert(instance, unit);
            }
        }
        let ended = self.mover.as_ref().is_none_or(|tasks| tasks.ended().now_or_never().is_some());
        if ended && moving::is_due(placement.placed(&self.partition)) {
            self.mover = Some(self.start_mover());
        }
    }

    fn start_mover(&self) -> Tasks {
        let tasks = self.tasks.child();
        let mover = Mover {
            persister: self.persister.clone(),
            partition: self.partition.clone(),
            lease_epoch: self.lease_epoch,
            stop: tasks.stopping(),
        };
        tasks.spawn(format!("move {}", self.partition), OnError::StopService, mover.run());
        tasks
    }

    fn start(&self, instance: usize, placement: Arc<Placement>) -> Unit {
        let (tasks, progress) = (self.tasks.child(), Progress::new(Position::default()));
        let key = (self.partition.clone(), instance);
        self.persister.partitions.lock().insert(key, progress.clone());
        let opening = Opening {
            persister: self.persister.clone(),
            kafka: self.kafka.clone(),
            partition: self.partition.clone(),
            instance,
            lease_epoch: self.lease_epoch,
            placement: placement.clone(),
            progress: progress.clone(),
            tasks: tasks.clone(),
        };
        opening.spawn();
        Unit { placement, progress, tasks }
    }

    pub(crate) fn ends(&self) -> Vec<(usize, End)> {
        let end = |(instance, unit): (&usize, &Unit)| unit.progress.state().end.map(|end| (*instance, end));
        self.units.iter().filter_map(end).collect()
    }

    /// The oldest placement that one of the units still works by.
    pub(crate) fn version(&self) -> Option<i64> {
        self.units.values().map(|unit| unit.placement.version).min()
    }

    /// Consuming ends now, writing after the transaction in hand.
    pub(crate) fn stop(&self) {
        self.tasks.stop();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.tasks.is_stopping()
    }

    /// Something is being let go, or restarted.
    pub(crate) fn is_changing(&self) -> bool {
        self.is_stopping() || self.units.values().any(|unit| unit.tasks.is_stopping())
    }

    pub(crate) fn has_ended(&self) -> bool {
        let ended = |tasks: &Tasks| tasks.ended().now_or_never().is_some();
        self.mover.iter().all(ended) && self.units.values().all(Unit::has_ended)
    }

    pub(crate) async fn ended(&self) {
        for unit in self.units.values() {
            unit.tasks.ended().await;
        }
        if let Some(mover) = &self.mover {
            mover.ended().await;
        }
    }

    /// Nothing of it is shown any more.
    pub(crate) fn forget(&self) {
        self.persister.marks.forget(&self.partition);
        for instance in self.units.keys() {
            self.persister.partitions.lock().remove(&(self.partition.clone(), *instance));
            self.persister.context.health.forget(&self.persister.check(&self.partition, *instance));
        }
    }
}

/// One partition's way into one instance.
struct Unit {
    placement: Arc<Placement>,
    progress: Arc<Progress>,
    tasks: Tasks,
}

impl Unit {
    fn has_ended(&self) -> bool {
        self.tasks.ended().now_or_never().is_some()
    }
}
