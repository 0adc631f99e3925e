//! A partition in this process's hands: consume → queue → write, for as long as the lease is held.

use std::sync::Arc;

use futures::FutureExt as _;
use lapwing_links::kafka::{Kafka, PartitionReader};
use lapwing_model::{PartitionId, Position};
use lapwing_persister_core::TopicReader;
use lapwing_runtime::{OnError, Tasks, queue::Queue};
use parking_lot::Mutex;

use crate::{consume::Consumer, persister::Persister, write::Writer};

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

    /// The graver reason stays, whichever of the two tasks ends first.
    fn ended(&self, end: End) {
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

pub(crate) struct Held {
    pub(crate) lease_epoch: i64,
    pub(crate) progress: Arc<Progress>,
    tasks: Tasks,
}

impl Held {
    pub(crate) fn start(
        persister: &Arc<Persister>,
        kafka: &Kafka,
        partition: &PartitionId,
        lease_epoch: i64,
        at: Position,
    ) -> anyhow::Result<Self> {
        let reader = TopicReader::of(&partition.topic, at)
            .ok_or_else(|| anyhow::anyhow!("{partition}: nothing of this topic goes to MySQL"))?;
        let tasks = persister.context.tasks.child();
        let progress = Progress::new(at);
        // A backlog fills it, which is not this process's illness.
        let (sender, queue) = Queue::named("consume")
            .items(persister.queue_rows)
            .bytes(persister.config.queue_bytes / 8)
            .budget(&persister.waiting)
            .of_one_peer()
            .open();
        let consumer = Consumer {
            persister: persister.clone(),
            partition: partition.clone(),
            log: PartitionReader::open(
                kafka,
                &partition.topic,
                i32::try_from(partition.partition)?,
                i64::try_from(at.offset)?,
            ),
            reader,
            progress: progress.clone(),
            queue: sender,
            stop: tasks.stopping(),
        };
        let writer = Writer {
            persister: persister.clone(),
            partition: partition.clone(),
            lease_epoch,
            stored: at,
            progress: progress.clone(),
            queue,
            stop: tasks.stopping(),
            time_marked: Default::default(),
        };
        let held = Self { lease_epoch, progress, tasks };
        held.spawn(format!("consume {partition}"), consumer.run());
        held.spawn(format!("write {partition}"), writer.run());
        Ok(held)
    }

    fn spawn(&self, name: String, work: impl Future<Output = End> + Send + 'static) {
        let (progress, tasks) = (self.progress.clone(), self.tasks.clone());
        self.tasks.spawn(name, OnError::StopService, async move {
            let end = work.await;
            if end == End::Fenced {
                tasks.stop();
            }
            progress.ended(end);
        });
    }

    /// Consuming ends now, writing after the transaction in hand.
    pub(crate) fn stop(&self) {
        self.tasks.stop();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.tasks.is_stopping()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.tasks.ended().now_or_never().is_some()
    }

    pub(crate) async fn ended(&self) {
        self.tasks.ended().await;
    }
}
