//! Leases on partitions: rows in MySQL, by MySQL's clock. Taken, renewed, released and lost here; the fence in each write
//! transaction is what makes a late or paused process harmless.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_links::kafka::Kafka;
use lapwing_model::PartitionId;
use lapwing_persister_core::lease::{self as rule, Decision, Lease};
use sqlx::MySqlConnection;

use crate::{
    db::{self, Borrowed},
    partition::{End, Held},
    persister::Persister,
    schema, write,
};

/// Longer than any healthy answer, shorter than a lease.
const LIMIT: Duration = Duration::from_secs(2);
/// While a partition is being let go, its end is looked for this often.
const HASTE: Duration = Duration::from_millis(50);
const BUDGET_EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Leases {
    persister: Arc<Persister>,
    kafka: Kafka,
    held: HashMap<PartitionId, Held>,
    budget_checked: Option<Instant>,
    /// The version of the placement that everything here works by, as last told.
    acknowledged: Option<i64>,
}

pub(crate) async fn run(persister: Arc<Persister>, kafka: Kafka) -> anyhow::Result<()> {
    let stop = persister.context.stopping();
    let beat = Duration::from_millis(persister.config.lease_beat_ms);
    let mut leases =
        Leases { persister, kafka, held: HashMap::new(), budget_checked: None, acknowledged: None };
    let mut next_beat = tokio::time::Instant::now();
    loop {
        let hurry = leases.held.values().any(Held::is_changing);
        let wake = if hurry { next_beat.min(tokio::time::Instant::now() + HASTE) } else { next_beat };
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep_until(wake) => {}
        }
        leases.stop_fenced();
        leases.release_ended().await;
        leases.follow();
        if tokio::time::Instant::now() >= next_beat {
            leases.beat().await;
            next_beat = tokio::time::Instant::now() + beat;
        }
    }
    leases.release_all().await;
    Ok(())
}

impl Leases {
    fn me(&self) -> &str {
        self.persister.context.node()
    }

    async fn beat(&mut self) {
        let since = Instant::now();
        let decided = db::within(LIMIT, "lease", self.renew_and_decide()).await;
        metrics::histogram!("lapwing_lease_beat_seconds").record(since.elapsed().as_secs_f64());
        let health = &self.persister.context.health;
        let decision = match decided {
            Ok(decision) => {
                health.set("mysql", Ok(()));
                decision
            }
            Err(error) => {
                // Writers go on: the fence, not this clock, decides whose a partition is.
                health.set("mysql", Err(format!("{}: {error}", self.persister.db.url)));
                return;
            }
        };
        for partition in &decision.lost {
            tracing::warn!(%partition, "lease lost: another persister has taken it");
        }
        for partition in decision.lost.iter().chain(&decision.release) {
            if let Some(held) = self.held.get(partition) {
                held.stop();
            }
        }
        for (partition, seen_epoch) in decision.acquire {
            if let Err(error) = self.acquire(&partition, seen_epoch).await {
                tracing::warn!(%partition, "lease not taken: {error:#}");
            }
        }
        metrics::gauge!("lapwing_partitions_held").set(self.held.len() as f64);
    }

    async fn renew_and_decide(&mut self) -> Result<Decision, sqlx::Error> {
        let lease_us = self.persister.config.lease_ms * 1000;
        let me = self.me().to_owned();
        let mut borrowed = Borrowed::from(&self.persister.db.control, "control").await?;
        let connection = borrowed.get()?;
        sqlx::query(
            "INSERT INTO persisters (name, seen_at) VALUES (?, NOW(3)) ON DUPLICATE KEY UPDATE seen_at = VALUES(seen_at)",
        )
        .bind(me.as_bytes())
        .execute(&mut *connection)
        .await?;
        sqlx::query(
            "UPDATE partition_offsets SET lease_until = NOW(3) + INTERVAL ? MICROSECOND WHERE lease_owner = ?",
        )
        .bind(lease_us)
        .bind(me.as_bytes())
        .execute(&mut *connection)
        .await?;
        let live: Vec<(Vec<u8>,)> =
            sqlx::query_as("SELECT name FROM persisters WHERE seen_at > NOW(3) - INTERVAL ? MICROSECOND")
                .bind(lease_us)
                .fetch_all(&mut *connection)
                .await?;
        let leases = rows(connection).await?;
        self.persister.places.refresh(connection).await?;
        self.acknowledge(connection).await?;
        if self.budget_checked.is_none_or(|at| at.elapsed() > BUDGET_EVERY) {
            let state = schema::watch_budget(connection, &self.persister.config, &me).await?;
            self.persister.context.health.set("connections", state);
            self.budget_checked = Some(Instant::now());
        }
        borrowed.give_back();
        let live: Vec<String> = live.into_iter().map(|(name,)| text(name)).collect();
        let leases: Vec<Lease> = leases.into_iter().map(|row| row.lease).collect();
        let held = self.held.iter().map(|(partition, held)| (partition.clone(), held.lease_epoch)).collect();
        Ok(rule::decide(&me, &live, &leases, &held))
    }

    /// Says up to which version nothing here works by an older placement any more.
    async fn acknowledge(&mut self, connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        let units = self.held.values().filter_map(Held::version).min();
        let current = self.persister.places.current().version;
        let version = units.map_or(current, |oldest| oldest.min(current));
        if self.acknowledged == Some(version) {
            return Ok(());
        }
        sqlx::query(
            "INSERT INTO placement_seen (name, version) VALUES (?, ?) ON DUPLICATE KEY UPDATE version = VALUES(version)",
        )
        .bind(self.me().as_bytes())
        .bind(version)
        .execute(connection)
        .await?;
        self.acknowledged = Some(version);
        Ok(())
    }

    async fn acquire(&mut self, partition: &PartitionId, seen_epoch: i64) -> anyhow::Result<()> {
        let taking = db::within(LIMIT, "take a lease", self.take(partition, seen_epoch)).await?;
        let Some(lease_epoch) = taking else { return Ok(()) };
        tracing::info!(%partition, lease_epoch, "lease taken");
        let mut held = Held::new(&self.persister, &self.kafka, partition, lease_epoch);
        held.follow(&self.persister.places.current());
        self.held.insert(partition.clone(), held);
        Ok(())
    }

    /// Each unit works by the newest placement that is known here.
    fn follow(&mut self) {
        let placement = self.persister.places.current();
        for held in self.held.values_mut() {
            held.follow(&placement);
        }
    }

    /// None: somebody else was quicker. Positions are read after the take, so what a predecessor committed is in them.
    async fn take(&self, partition: &PartitionId, seen_epoch: i64) -> Result<Option<i64>, sqlx::Error> {
        let mut borrowed = Borrowed::from(&self.persister.db.control, "control").await?;
        let connection = borrowed.get()?;
        let done = sqlx::query(
            "UPDATE partition_offsets SET lease_owner = ?, lease_epoch = lease_epoch + 1, \
             lease_until = NOW(3) + INTERVAL ? MICROSECOND \
             WHERE topic = ? AND `partition` = ? AND lease_epoch = ? AND (lease_until < NOW(3) OR lease_owner IN ('', ?))",
        )
        .bind(self.me().as_bytes())
        .bind(self.persister.config.lease_ms * 1000)
        .bind(partition.topic.as_bytes())
        .bind(partition.partition)
        .bind(seen_epoch)
        .bind(self.me().as_bytes())
        .execute(&mut *connection)
        .await?;
        let taken = if done.rows_affected() == 1 {
            let (_, lease_epoch) = write::position(connection, partition).await?;
            (lease_epoch == seen_epoch + 1).then_some(lease_epoch)
        } else {
            None
        };
        borrowed.give_back();
        Ok(taken)
    }

    fn stop_fenced(&self) {
        for (partition, held) in &self.held {
            for (instance, end) in held.ends() {
                match end {
                    End::Fenced if !held.is_stopping() => held.stop(),
                    End::Broken(why) => {
                        let check = self.persister.check(partition, instance);
                        self.persister.context.health.set(&check, Err(why));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Gives back the leases of partitions whose work has ended after being told to stop.
    async fn release_ended(&mut self) {
        let ended: Vec<PartitionId> = self
            .held
            .iter()
            .filter(|(_, held)| held.is_stopping() && held.has_ended())
            .map(|(partition, _)| partition.clone())
            .collect();
        for partition in ended {
            self.forget(&partition).await;
        }
    }

    async fn forget(&mut self, partition: &PartitionId) {
        let Some(held) = self.held.remove(partition) else { return };
        held.forget();
        let released = db::within(LIMIT, "release", self.release(partition, held.lease_epoch)).await;
        match released {
            Ok(()) => tracing::info!(%partition, lease_epoch = held.lease_epoch, "lease released"),
            Err(error) => tracing::warn!(%partition, "lease not released, it will expire: {error}"),
        }
    }

    async fn release(&self, partition: &PartitionId, lease_epoch: i64) -> Result<(), sqlx::Error> {
        let mut borrowed = Borrowed::from(&self.persister.db.control, "control").await?;
        sqlx::query(
            "UPDATE partition_offsets SET lease_owner = '', lease_until = NOW(3) \
             WHERE topic = ? AND `partition` = ? AND lease_owner = ? AND lease_epoch = ?",
        )
        .bind(partition.topic.as_bytes())
        .bind(partition.partition)
        .bind(self.me().as_bytes())
        .bind(lease_epoch)
        .execute(borrowed.get()?)
        .await?;
        borrowed.give_back();
        Ok(())
    }

    /// The graceful stop: every transaction in hand ends, then all leases go at once.
    async fn release_all(&mut self) {
        for held in self.held.values() {
            held.stop();
        }
        for (partition, held) in &self.held {
            held.ended().await;
            self.persister.marks.forget(partition);
        }
        match db::within(LIMIT, "release all", self.unregister()).await {
            Ok(()) => tracing::info!(partitions = self.held.len(), "leases released"),
            Err(error) => tracing::warn!("leases not released, they will expire: {error}"),
        }
        self.held.clear();
        self.persister.partitions.lock().clear();
    }

    async fn unregister(&self) -> Result<(), sqlx::Error> {
        let mut borrowed = Borrowed::from(&self.persister.db.control, "control").await?;
        let connection = borrowed.get()?;
        sqlx::query(
            "UPDATE partition_offsets SET lease_owner = '', lease_until = NOW(3) WHERE lease_owner = ?",
        )
        .bind(self.me().as_bytes())
        .execute(&mut *connection)
        .await?;
        schema::unregister(connection, self.me()).await?;
        borrowed.give_back();
        Ok(())
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A lease with the position that stands beside it.
pub(crate) struct LeaseRow {
    pub(crate) lease: Lease,
    pub(crate) position: lapwing_model::Position,
}

pub(crate) async fn rows(connection: &mut MySqlConnection) -> Result<Vec<LeaseRow>, sqlx::Error> {
    type Row = (Vec<u8>, i32, Vec<u8>, i64, i8, i64, i64, i64);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT topic, `partition`, lease_owner, lease_epoch, CAST(lease_until < NOW(3) AS SIGNED INTEGER), next_offset, \
         claim_epoch, last_index FROM partition_offsets ORDER BY topic, `partition`",
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|(topic, partition, owner, epoch, expired, offset, claim, index)| LeaseRow {
            lease: Lease {
                partition: PartitionId::new(text(topic), partition.max(0) as u32),
                owner: text(owner),
                epoch,
                expired: expired != 0,
            },
            position: lapwing_model::Position {
                offset: offset.max(0) as u64,
                epoch: claim,
                index: index.max(0) as u64,
            },
        })
        .collect())
}
