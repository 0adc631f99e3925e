//! ⑩ write: rows and the partition's next offset in one transaction, fenced by the lease's epoch.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use lapwing_model::{Kind, PartitionId, Position};
use lapwing_persister_core::{Class, Item, batch::same_content, class};
use lapwing_proto::bus::Tombstone;
use lapwing_runtime::{fail_point, metrics as names, queue::Receiver};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug_span};

use crate::{
    consume::Taken,
    db::{self, Db},
    partition::{End, Progress},
    persister::Persister,
};

mod sql;
mod transaction;

pub(crate) use sql::{insert, position, stored};

use sql::Dead;
use transaction::{Outcome, Work};

/// Writes one partition for as long as this process holds its lease.
pub(crate) struct Writer {
    pub(crate) persister: Arc<Persister>,
    pub(crate) db: Db,
    pub(crate) partition: PartitionId,
    pub(crate) lease_epoch: i64,
    /// The partition is being brought here: its rows may be here already.
    pub(crate) again: bool,
    pub(crate) stored: Position,
    pub(crate) progress: Arc<Progress>,
    pub(crate) queue: Receiver<Taken>,
    pub(crate) stop: CancellationToken,
    /// When the position was last kept with its time, in ms.
    pub(crate) time_marked: AtomicU64,
}

impl Writer {
    /// Ends after the transaction in hand when told to stop, or when the partition is no longer ours.
    pub(crate) async fn run(mut self) -> End {
        let end = match self.write_until_stopped().await {
            Ok(()) => End::Stopped,
            Err(end) => end,
        };
        // Not a drop: whoever takes the partition next reads them from the log again.
        self.queue.close();
        drop(self.queue.try_pop_up_to(usize::MAX, usize::MAX));
        end
    }

    async fn write_until_stopped(&mut self) -> Result<(), End> {
        let idle_flush = Duration::from_millis(self.persister.config.idle_flush_ms);
        let mut reached = self.stored;
        let mut flushed = Instant::now();
        loop {
            let Some(steps) = self.collect(idle_flush).await else { return self.flush(reached).await };
            let oldest_ms = steps.first().map(|taken| taken.timestamp_ms);
            let items: Vec<Item> = steps
                .into_iter()
                .flat_map(|taken| {
                    reached = taken.step.position;
                    taken.step.items
                })
                .collect();
            if items.is_empty() {
                if flushed.elapsed() >= idle_flush {
                    self.commit_position(reached).await?;
                    flushed = Instant::now();
                }
                self.progress.reached(reached);
                self.persister.marks.reached(&self.partition, self.db.instance, reached, Vec::new());
                continue;
            }
            if let Some(oldest_ms) = oldest_ms {
                self.progress.writing(oldest_ms);
            }
            self.wait_for_pace(items.len()).await?;
            let span = debug_span!("write", partition = %self.partition, rows = items.len());
            let tombstones = self.persist(&items, reached).instrument(span).await?;
            fail_point("write.after");
            flushed = Instant::now();
            self.progress.stored(reached);
            self.persister.marks.reached(&self.partition, self.db.instance, reached, tombstones);
        }
    }

    /// A batch: what is there, and what comes within its short wait. Empty when nothing came for `idle`; None: stop.
    async fn collect(&mut self, idle: Duration) -> Option<Vec<Taken>> {
        let config = self.persister.config.clone();
        let first = tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            first = tokio::time::timeout(idle, self.queue.pop()) => first,
        };
        let mut steps = match first {
            Err(_) => return Some(Vec::new()),
            Ok(None) => return None,
            Ok(Some(step)) => vec![step],
        };
        let deadline = tokio::time::Instant::now() + Duration::from_millis(config.batch_ms);
        let bytes_of = |steps: &[Taken]| -> usize {
            steps.iter().flat_map(|taken| &taken.step.items).map(|item| item.raw().len()).sum()
        };
        let mut bytes = bytes_of(&steps);
        while steps.len() < config.batch_rows && bytes < config.batch_bytes {
            let more = self.queue.pop_up_to(config.batch_rows - steps.len(), config.batch_bytes - bytes);
            let more = tokio::select! {
                biased;
                more = more => more,
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep_until(deadline) => break,
            };
            if more.is_empty() {
                break;
            }
            bytes += bytes_of(&more);
            steps.extend(more);
        }
        Some(steps)
    }

    async fn wait_for_pace(&self, rows: usize) -> Result<(), End> {
        let wait = self.persister.pace_wait(self.db.instance, rows);
        if wait.is_zero() {
            return Ok(());
        }
        tokio::select! {
            () = self.stop.cancelled() => Err(End::Stopped),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    async fn persist(&mut self, items: &[Item], to: Position) -> Result<Vec<Tombstone>, End> {
        let since = Instant::now();
        // Shown in each sampled message's own trace; the batch has a span of its own.
        let _spans = self.persister.record_spans(items);
        let unreadable = items.iter().any(|item| matches!(item, Item::Unreadable(_)));
        let mut tombstones = Vec::new();
        let mut result = "batch_ok";
        fail_point("write.before");
        match if unreadable { None } else { Some(self.commit(Work::Items(items), to).await?) } {
            Some(Outcome::Stored) => {
                self.stored = to;
                metrics::counter!(names::PERSIST_TOTAL, "result" => "batch_ok").increment(items.len() as u64);
            }
            refused => {
                if let Some(Outcome::Refused(error)) = refused {
                    tracing::warn!(partition = %self.partition, rows = items.len(), "batch refused, going row by row: {error}");
                }
                result = "single_ok";
                tombstones = self.one_by_one(items).await?;
                self.commit_position(to).await?;
            }
        }
        metrics::histogram!(names::PERSIST_SECONDS).record(since.elapsed().as_secs_f64());
        let kind = Kind::of_topic(&self.partition.topic).map_or("none", Kind::name);
        names::stage("write").kind(kind).since(since).done(result);
        Ok(tombstones)
    }

    async fn one_by_one(&mut self, items: &[Item]) -> Result<Vec<Tombstone>, End> {
        let mut tombstones = Vec::new();
        for item in items {
            let behind = item.behind(self.stored);
            let dead = match item {
                Item::Unreadable(unreadable) => Some(Dead { code: 0, error: unreadable.problem.clone() }),
                _ => match self.commit(Work::Items(std::slice::from_ref(item)), behind).await? {
                    Outcome::Stored => None,
                    Outcome::Refused(error) => {
                        let dead = self.judge_refusal(item, &error).await?;
                        if dead.is_none() {
                            self.commit_position(behind).await?;
                        }
                        dead
                    }
                },
            };
            match dead {
                None => metrics::counter!(names::PERSIST_TOTAL, "result" => "single_ok").increment(1),
                Some(dead) => tombstones.extend(self.bury(item, &dead, behind).await?),
            }
            self.stored = behind;
        }
        Ok(tombstones)
    }

    /// None: the same row is in MySQL already.
    async fn judge_refusal(&self, item: &Item, error: &sqlx::Error) -> Result<Option<Dead>, End> {
        let dead = Dead { code: db::number(error), error: error.to_string() };
        let (Class::Duplicate, Item::Row(row)) = (db::class(error), item) else { return Ok(Some(dead)) };
        match self.stored_record(row).await? {
            Some(stored) if same_content(&stored, &row.record) => Ok(None),
            _ => {
                metrics::counter!("lapwing_seq_collisions_total").increment(1);
                let record = &row.record;
                tracing::error!(
                    tenant = record.tenant, conversation = record.conversation, seq = record.seq, partition = %self.partition,
                    offset = row.offset, "ALARM: another message stands at this seq in MySQL; this one becomes a dead letter"
                );
                Ok(Some(dead))
            }
        }
    }

    async fn bury(&mut self, item: &Item, dead: &Dead, behind: Position) -> Result<Option<Tombstone>, End> {
        let collision = matches!(class::of_number(dead.code), Class::Duplicate);
        let row = match item {
            Item::Row(row) => Some(row),
            _ => None,
        };
        let mut buried = None;
        // Where another message stands there is no hole to mark.
        if let (Some(row), false) = (row, collision) {
            let work = Work::Dead { item, dead, tombstone: true };
            if let Outcome::Stored = self.commit(work, behind).await? {
                let record = &row.record;
                buried = Some(Tombstone {
                    tenant: record.tenant.clone(),
                    conversation: record.conversation.clone(),
                    seq: record.seq,
                    offset: row.offset,
                });
            }
        }
        if buried.is_none() {
            let work = Work::Dead { item, dead, tombstone: false };
            if let Outcome::Refused(error) = self.commit(work, behind).await? {
                return Err(End::Broken(format!(
                    "offset {} can be stored neither as a row nor as a dead letter: {error}",
                    item.offset()
                )));
            }
        }
        metrics::counter!(names::PERSIST_TOTAL, "result" => "dead").increment(1);
        metrics::counter!(names::DEAD_LETTERS_TOTAL).increment(1);
        let (tenant, conversation, seq) = row.map_or(("", "", 0), |row| {
            (row.record.tenant.as_str(), row.record.conversation.as_str(), row.record.seq)
        });
        let state_event = row.is_some_and(|row| !row.record.countable);
        tracing::error!(
            partition = %self.partition, offset = item.offset(), tenant, conversation, seq, state_event, code = dead.code,
            "dead letter: {}", dead.error
        );
        Ok(buried)
    }

    async fn flush(&mut self, reached: Position) -> Result<(), End> {
        if reached.offset > self.stored.offset {
            // One try: a stop does not wait for a database that is away.
            let limit = self.persister.config.mysql_timeout().min(Duration::from_secs(2));
            let _ = db::within(limit, "flush", self.transaction(&Work::Nothing, reached)).await;
        }
        Ok(())
    }

    async fn commit_position(&mut self, to: Position) -> Result<(), End> {
        if to.offset == self.stored.offset {
            return Ok(());
        }
        match self.commit(Work::Nothing, to).await? {
            Outcome::Stored => {
                self.stored = to;
                self.progress.stored(to);
                Ok(())
            }
            Outcome::Refused(error) => Err(End::Broken(format!("position {to:?} cannot be stored: {error}"))),
        }
    }
}
