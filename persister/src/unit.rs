//! A unit of work: one partition into one instance. Opened by setting the lease's epoch there, so that whoever had the lease before
//! writes nothing there any more; an instance that is away holds up only its own units.

use std::{sync::Arc, time::Duration};

use lapwing_links::kafka::{Kafka, PartitionReader};
use lapwing_model::{PartitionId, Position};
use lapwing_persister_core::{Placement, TopicReader, class::backoff, placement::AUTHORITY};
use lapwing_runtime::{OnError, Tasks, queue::Queue, throttle::Throttle};
use sqlx::MySqlConnection;

use crate::{
    consume::Consumer,
    db::{self, Borrowed},
    partition::{End, Progress},
    persister::Persister,
    write::{self, Writer},
};

const LIMIT: Duration = Duration::from_secs(5);

pub(crate) struct Opening {
    pub(crate) persister: Arc<Persister>,
    pub(crate) kafka: Kafka,
    pub(crate) partition: PartitionId,
    pub(crate) instance: usize,
    pub(crate) lease_epoch: i64,
    pub(crate) placement: Arc<Placement>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) tasks: Tasks,
}

impl Opening {
    pub(crate) fn spawn(self) {
        let (tasks, progress) = (self.tasks.clone(), self.progress.clone());
        let name = format!("open {} {}", self.partition, self.persister.dbs[self.instance].name);
        tasks.clone().spawn(name, OnError::StopService, async move {
            let end = match self.open().await {
                Ok(at) => self.start(at),
                Err(end) => Err(end),
            };
            if let Err(end) = end {
                finish(&tasks, &progress, end);
            }
        });
    }

    /// Tries until the instance answers.
    async fn open(&self) -> Result<Position, End> {
        static WAITING: Throttle = Throttle::every_ms(1000);
        let (db, stop) = (&self.persister.dbs[self.instance], self.tasks.stopping());
        for attempt in 0.. {
            let error = if db.is_prepared() {
                match db::within(LIMIT, "open a partition", self.fence_and_read()).await {
                    Ok(Some(at)) => return Ok(at),
                    Ok(None) => return Err(End::Fenced),
                    Err(error) => error.to_string(),
                }
            } else {
                "its schema has not been looked at yet".to_owned()
            };
            if let Some(suppressed) = WAITING.pass() {
                tracing::warn!(partition = %self.partition, instance = &*db.name, suppressed, "waits for MySQL: {error}");
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(backoff(attempt, rand::random())) => {}
            }
        }
        Err(End::Stopped)
    }

    /// None: a later lease has been here.
    async fn fence_and_read(&self) -> Result<Option<Position>, sqlx::Error> {
        let mut borrowed = Borrowed::from(&self.persister.dbs[self.instance].control, "control").await?;
        let connection = borrowed.get()?;
        if self.instance != AUTHORITY {
            fence(connection, &self.partition, self.lease_epoch).await?;
        }
        if write::stored(connection, &self.partition).await?.is_none() {
            let begin = self.begin().await?;
            insert(connection, &self.partition, begin, self.lease_epoch).await?;
        }
        let (at, lease_epoch) = write::position(connection, &self.partition).await?;
        borrowed.give_back();
        Ok((lease_epoch == self.lease_epoch).then_some(at))
    }

    /// An instance that gets its first rows of this partition begins where the partition's own one stands: what was before is there.
    async fn begin(&self) -> Result<Position, sqlx::Error> {
        let others = self.placement.instances_of(&self.partition);
        for instance in others.into_iter().filter(|instance| *instance != self.instance).chain([AUTHORITY]) {
            let mut borrowed = Borrowed::from(&self.persister.dbs[instance].control, "control").await?;
            let found = write::stored(borrowed.get()?, &self.partition).await?;
            borrowed.give_back();
            if let Some((at, _)) = found {
                return Ok(at);
            }
        }
        Ok(Position::default())
    }

    fn start(self, at: Position) -> Result<(), End> {
        let (persister, partition) = (self.persister, self.partition);
        let broken = |why: String| End::Broken(why);
        let reader = TopicReader::of(&partition.topic, at)
            .ok_or_else(|| broken(format!("{partition}: nothing of this topic goes to MySQL")))?;
        let number = i32::try_from(partition.partition).map_err(|error| broken(error.to_string()))?;
        let offset = i64::try_from(at.offset).map_err(|error| broken(error.to_string()))?;
        let db = persister.dbs[self.instance].clone();
        tracing::info!(%partition, instance = &*db.name, position = %at.encode(), "partition opened");
        self.progress.opened(at);
        persister.marks.reached(&partition, self.instance, at, Vec::new());
        // A backlog fills it, which is not this process's illness.
        let (sender, queue) = Queue::named("consume")
            .items(persister.queue_rows)
            .bytes(persister.config.queue_bytes / 8)
            .budget(&persister.waiting[self.instance])
            .of_one_peer()
            .open();
        let again = self.placement.placed(&partition).filling == Some(self.instance);
        let consumer = Consumer {
            persister: persister.clone(),
            partition: partition.clone(),
            instance: self.instance,
            placement: self.placement,
            log: PartitionReader::open(&self.kafka, &partition.topic, number, offset),
            reader,
            progress: self.progress.clone(),
            queue: sender,
            stop: self.tasks.stopping(),
        };
        let writer = Writer {
            persister,
            db,
            partition: partition.clone(),
            lease_epoch: self.lease_epoch,
            again,
            stored: at,
            progress: self.progress.clone(),
            queue,
            stop: self.tasks.stopping(),
            time_marked: Default::default(),
        };
        let name = &writer.db.name;
        let (consume, write) = (format!("consume {partition} {name}"), format!("write {partition} {name}"));
        spawn(&self.tasks, &self.progress, consume, consumer.run());
        spawn(&self.tasks, &self.progress, write, writer.run());
        Ok(())
    }
}

fn spawn(
    tasks: &Tasks,
    progress: &Arc<Progress>,
    name: String,
    work: impl Future<Output = End> + Send + 'static,
) {
    let (group, progress) = (tasks.clone(), progress.clone());
    tasks.spawn(name, OnError::StopService, async move {
        let end = work.await;
        finish(&group, &progress, end);
    });
}

fn finish(tasks: &Tasks, progress: &Progress, end: End) {
    if end == End::Fenced {
        tasks.stop();
    }
    progress.ended(end);
}

/// From here on no transaction under an earlier lease commits on this instance.
pub(crate) async fn fence(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
    lease_epoch: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE partition_offsets SET lease_epoch = ? WHERE topic = ? AND `partition` = ? AND lease_epoch < ?",
    )
    .bind(lease_epoch)
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(lease_epoch)
    .execute(connection)
    .await
    .map(|_| ())
}

pub(crate) async fn insert(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
    at: Position,
    lease_epoch: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO partition_offsets (topic, `partition`, next_offset, claim_epoch, last_index, lease_owner, lease_epoch, \
         lease_until) VALUES (?, ?, ?, ?, ?, '', ?, NOW(3)) \
         ON DUPLICATE KEY UPDATE lease_epoch = GREATEST(lease_epoch, VALUES(lease_epoch))",
    )
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(at.offset)
    .bind(at.epoch)
    .bind(at.index)
    .bind(lease_epoch)
    .execute(connection)
    .await
    .map(|_| ())
}
