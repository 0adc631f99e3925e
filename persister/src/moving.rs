//! Brings a partition's rows to another instance while users write (ADR 10). The holder of the lease does it, step by step; what is
//! done stands in `placements`, so whoever takes the partition next goes on from there.
//!
//! The new instance gets a position first, then copies of all rows, then the log from that position. A copy may be newer than the
//! position: the log brings it to the same state again. It is placed there once it has what the old one had.

use std::{sync::Arc, time::Duration};

use lapwing_model::{PartitionId, Position};
use lapwing_persister_core::{Placed, placement::AUTHORITY, side::CURSOR_TOPIC};
use lapwing_runtime::throttle::Throttle;
use tokio_util::sync::CancellationToken;

use crate::{
    db::{self, Borrowed, Db},
    persister::Persister,
    places, unit, write,
};

mod copy;
mod sweep;

const LIMIT: Duration = Duration::from_secs(10);
/// While something is waited for it is looked at this often.
const PAUSE: Duration = Duration::from_millis(200);
/// After an error, or a difference between the two sides.
const PATIENCE: Duration = Duration::from_secs(3);
/// Records by which the new instance may be late when the switch begins.
const NEAR: u64 = 2000;

pub(crate) struct Mover {
    pub(crate) persister: Arc<Persister>,
    pub(crate) partition: PartitionId,
    pub(crate) lease_epoch: i64,
    pub(crate) stop: CancellationToken,
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error("the lease is somebody else's")]
    Fenced,
    #[error("told to stop")]
    Stopped,
    #[error("{0}")]
    Different(String),
}

enum Step {
    Done,
    Went,
    Wait(&'static str),
}

/// Whether there is something to do for a partition.
pub(crate) fn is_due(placed: Placed) -> bool {
    placed.filling.is_some() || placed.sweeping.is_some()
}

impl Mover {
    pub(crate) async fn run(self) {
        static TROUBLE: Throttle = Throttle::every_ms(1000);
        loop {
            let pause = match self.step().await {
                Ok(Step::Done) | Err(Trouble::Fenced | Trouble::Stopped) => break,
                Ok(Step::Went) => Duration::ZERO,
                Ok(Step::Wait(what)) => {
                    tracing::debug!(partition = %self.partition, "the move waits for {what}");
                    PAUSE
                }
                Err(Trouble::Different(what)) => {
                    tracing::error!(partition = %self.partition, "ALARM: not switched, the two sides differ; copied again: {what}");
                    PATIENCE
                }
                Err(error) => {
                    if let Some(suppressed) = TROUBLE.pass() {
                        tracing::warn!(partition = %self.partition, suppressed, "the move is tried again: {error}");
                    }
                    PATIENCE
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.persister.closing.lock().remove(&self.partition);
    }

    async fn step(&self) -> Result<Step, Trouble> {
        let placed = self.persister.places.current().placed(&self.partition);
        match (placed.filling, placed.sweeping) {
            (Some(new), _) if !placed.filled => self.fill(placed.instance, new).await,
            (Some(new), _) => self.switch(placed.instance, new).await,
            (None, Some(old)) => sweep::run(self, old, placed.instance).await,
            (None, None) => Ok(Step::Done),
        }
    }

    fn db(&self, instance: usize) -> &Db {
        &self.persister.dbs[instance]
    }

    fn check_stop(&self) -> Result<(), Trouble> {
        if self.stop.is_cancelled() { Err(Trouble::Stopped) } else { Ok(()) }
    }

    async fn fill(&self, old: usize, new: usize) -> Result<Step, Trouble> {
        if self.persister.partitions.lock().contains_key(&(self.partition.clone(), new)) {
            return Ok(Step::Wait("the tenants' unit on the new instance to end"));
        }
        if !self.db(new).is_prepared() {
            return Ok(Step::Wait("the new instance"));
        }
        if !self.all_follow().await? {
            return Ok(Step::Wait("every persister to know of it"));
        }
        // From here on the cursors of this partition's conversations are written on both.
        let cursors = PartitionId::new(CURSOR_TOPIC, self.partition.partition);
        let Some(both_from) = self.fenced_position(&cursors, new).await? else {
            return Ok(Step::Wait("the holder of the cursors"));
        };
        if self.position(&cursors, old).await?.is_none_or(|at| at.offset < both_from.offset) {
            return Ok(Step::Wait("the cursors on the old instance"));
        }
        let Some(stands) = self.position(&self.partition, old).await? else { return Err(Trouble::Fenced) };
        let begin = self.begin(new, stands).await?;
        if stands.offset < begin.offset {
            return Ok(Step::Wait("the old instance"));
        }
        tracing::info!(
            partition = %self.partition, from = &*self.db(old).name, to = &*self.db(new).name,
            position = %begin.encode(), "rows are copied"
        );
        let sums = copy::run(self, old, new).await?;
        tracing::info!(
            partition = %self.partition, conversations = sums.conversations, rows = sums.rows, members = sums.members,
            "rows are copied and compared: the same on both sides"
        );
        self.change("filled = 1", &[], "filling = ? AND filled = 0", &[new]).await
    }

    /// The position from which the log is folded on the new instance. Where tenants have rows of their own it stays.
    async fn begin(&self, new: usize, stands: Position) -> Result<Position, Trouble> {
        let placement = self.persister.places.current();
        let tenants = placement.configured().tenants.values().any(|own| own.instance == new);
        let mut borrowed = Borrowed::from(&self.db(new).control, "control").await?;
        let setting = async {
            let connection = borrowed.get()?;
            unit::insert(connection, &self.partition, stands, self.lease_epoch).await?;
            if !tenants {
                set_position(connection, &self.partition, self.lease_epoch, stands).await?;
            }
            write::position(connection, &self.partition).await
        };
        let (at, lease_epoch) = db::within(LIMIT, "begin a move", setting).await?;
        borrowed.give_back();
        if lease_epoch == self.lease_epoch { Ok(at) } else { Err(Trouble::Fenced) }
    }

    async fn switch(&self, old: usize, new: usize) -> Result<Step, Trouble> {
        let Some(ahead) = self.position(&self.partition, old).await? else { return Err(Trouble::Fenced) };
        let late = |at: Option<Position>| ahead.offset.saturating_sub(at.map_or(0, |at| at.offset));
        if late(self.position(&self.partition, new).await?) > NEAR {
            return Ok(Step::Wait("the new instance to come near"));
        }
        // From here on nothing is told as stored that is not on both, and the old one stands still: no reader sees it go back.
        self.persister.closing.lock().insert(self.partition.clone());
        self.persister.expect_marks(&self.partition);
        if self.persister.partitions.lock().contains_key(&(self.partition.clone(), old)) {
            return Ok(Step::Wait("the old instance's unit to end"));
        }
        let Some(told) = self.position(&self.partition, old).await? else { return Err(Trouble::Fenced) };
        loop {
            let at = self.position(&self.partition, new).await?;
            if at.is_some_and(|at| at.offset >= told.offset) {
                break;
            }
            self.check_stop()?;
            tokio::time::sleep(PAUSE / 4).await;
        }
        places::mark(self.db(old), &self.partition, true).await?;
        let change = "instance = ?, filling = '', filled = 0, sweeping = ?";
        let step = self.change(change, &[new, old], "filling = ? AND filled = 1", &[new]).await?;
        self.persister.closing.lock().remove(&self.partition);
        self.persister.expect_marks(&self.partition);
        tracing::info!(partition = %self.partition, to = &*self.db(new).name, position = %told.encode(), "placed");
        Ok(step)
    }

    /// What an instance has stored.
    async fn position(
        &self,
        partition: &PartitionId,
        instance: usize,
    ) -> Result<Option<Position>, sqlx::Error> {
        let mut borrowed = Borrowed::from(&self.db(instance).control, "control").await?;
        let found = db::within(LIMIT, "read a position", write::stored(borrowed.get()?, partition)).await?;
        borrowed.give_back();
        Ok(found.map(|(at, _)| at))
    }

    /// A position behind which only the present holder of the lease writes, by the present placement. None: not yet.
    async fn fenced_position(
        &self,
        partition: &PartitionId,
        instance: usize,
    ) -> Result<Option<Position>, sqlx::Error> {
        let mut borrowed = Borrowed::from(&self.db(AUTHORITY).control, "control").await?;
        let asking = places::live_lease(borrowed.get()?, partition, self.persister.config.lease_ms);
        let lease = db::within(LIMIT, "read a lease", asking).await?;
        borrowed.give_back();
        let mut borrowed = Borrowed::from(&self.db(instance).control, "control").await?;
        let found = db::within(LIMIT, "read a position", write::stored(borrowed.get()?, partition)).await?;
        borrowed.give_back();
        Ok(found.filter(|(_, epoch)| Some(*epoch) == lease).map(|(at, _)| at))
    }

    /// No persister that lives works by an older placement.
    async fn all_follow(&self) -> Result<bool, sqlx::Error> {
        let version = self.persister.places.current().version;
        let mut borrowed = Borrowed::from(&self.db(AUTHORITY).control, "control").await?;
        let asking = places::all_have_seen(borrowed.get()?, version, self.persister.config.lease_ms);
        let all = db::within(LIMIT, "ask who follows", asking).await?;
        borrowed.give_back();
        Ok(all)
    }

    /// A change of the partition's row by the holder of its lease; everybody then has a new version to follow.
    async fn change(
        &self,
        set: &str,
        set_to: &[usize],
        only_if: &str,
        equal: &[usize],
    ) -> Result<Step, Trouble> {
        let names = set_to.iter().chain(equal).map(|instance| self.db(*instance).name.to_string()).collect();
        let change =
            places::Change { partition: &self.partition, set, only_if, names, lease_epoch: self.lease_epoch };
        let done = places::change(self.db(AUTHORITY), change).await?;
        self.persister.look_up_places().await?;
        if done { Ok(Step::Went) } else { Err(Trouble::Fenced) }
    }
}

async fn set_position(
    connection: &mut sqlx::MySqlConnection,
    partition: &PartitionId,
    lease_epoch: i64,
    at: Position,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE partition_offsets SET next_offset = ?, claim_epoch = ?, last_index = ? \
         WHERE topic = ? AND `partition` = ? AND lease_epoch = ?",
    )
    .bind(at.offset)
    .bind(at.epoch)
    .bind(at.index)
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(lease_epoch)
    .execute(connection)
    .await
    .map(|_| ())
}
