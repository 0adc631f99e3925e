//! One transaction, tried until its outcome is known: stored, refused by the data, or no longer ours to write.

use std::{sync::atomic::Ordering, time::Instant};

use lapwing_model::Position;
use lapwing_persister_core::{Class, Item, Plan, Row, Unreadable, class::backoff};
use lapwing_proto::{Message as _, record::Record};
use lapwing_runtime::{metrics as names, throttle::Throttle, time::now_ms};
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};

use super::{
    Writer,
    sql::{self, Dead},
};
use crate::{
    db::{self, Borrowed},
    partition::End,
};

/// What a transaction writes beside the position.
pub(super) enum Work<'a> {
    Items(&'a [Item]),
    Dead { item: &'a Item, dead: &'a Dead, tombstone: bool },
    Nothing,
}

pub(super) enum Outcome {
    Stored,
    /// The data itself was refused, the transaction rolled back.
    Refused(sqlx::Error),
}

/// What the offset row says after a transaction whose outcome is not known.
enum Look {
    Stored,
    NotYet,
    Taken,
}

const MINUTE_MS: u64 = 60_000;

static TROUBLE: Throttle = Throttle::every_ms(1000);

impl Writer {
    /// Tries for as long as needed; a transient error never ends in a dead letter.
    pub(super) async fn commit(&self, work: Work<'_>, to: Position) -> Result<Outcome, End> {
        let limit = self.persister.config.mysql_timeout();
        for attempt in 0.. {
            let since = Instant::now();
            let result = db::within(limit, "write", self.transaction(&work, to)).await;
            self.persister.pace_answered(self.db.instance, since.elapsed());
            let error = match result {
                Ok(true) => return Ok(Outcome::Stored),
                Ok(false) => None,
                Err(error) if db::class(&error) == Class::Permanent => return Ok(Outcome::Refused(error)),
                Err(error) => Some(error),
            };
            // A commit without an answer may have happened, and a transaction that was given up may have won its race.
            let look = db::within(limit, "read the offset row", self.look(to)).await;
            let error = match (look, error) {
                (Ok(Look::Stored), _) => return Ok(Outcome::Stored),
                (Ok(Look::Taken), _) => return Err(End::Fenced),
                (Ok(Look::NotYet), Some(error)) if db::class(&error) == Class::Duplicate => {
                    return Ok(Outcome::Refused(error));
                }
                (_, Some(error)) => error.to_string(),
                (Err(error), None) => error.to_string(),
                (Ok(Look::NotYet), None) => "the fence did not match".to_owned(),
            };
            self.wait_to_retry(attempt, &error).await?;
        }
        Err(End::Stopped)
    }

    async fn wait_to_retry(&self, attempt: u32, error: &str) -> Result<(), End> {
        metrics::counter!(names::PERSIST_TOTAL, "result" => "retry").increment(1);
        if let Some(suppressed) = TROUBLE.pass() {
            tracing::warn!(partition = %self.partition, instance = &*self.db.name, attempt, suppressed, "MySQL: a write is tried again: {error}");
        }
        tokio::select! {
            () = self.stop.cancelled() => Err(End::Stopped),
            () = tokio::time::sleep(backoff(attempt, rand::random())) => Ok(()),
        }
    }

    /// False: the fence did not match and everything was rolled back. Any error ends the whole transaction: after 1205 MySQL
    /// itself would go on with half of it.
    pub(super) async fn transaction(&self, work: &Work<'_>, to: Position) -> Result<bool, sqlx::Error> {
        let mut borrowed = Borrowed::from(&self.db.write, "write").await?;
        let connection = borrowed.get()?;
        let now = now_ms();
        let due = now.saturating_sub(self.time_marked.load(Ordering::Relaxed)) >= MINUTE_MS;
        let statements = async {
            let ours = self.statements(connection, work, to).await?;
            if ours && due {
                sql::time_mark(connection, &self.partition, to, now).await?;
            }
            Ok(ours)
        };
        match statements.await {
            Ok(true) => {
                connection.execute("COMMIT").await?;
                borrowed.give_back();
                if due {
                    self.time_marked.store(now, Ordering::Relaxed);
                }
                Ok(true)
            }
            Ok(false) => {
                connection.execute("ROLLBACK").await?;
                borrowed.give_back();
                Ok(false)
            }
            Err(error) => {
                if db::leaves_connection(&error) && connection.execute("ROLLBACK").await.is_ok() {
                    borrowed.give_back();
                }
                Err(error)
            }
        }
    }

    async fn statements(
        &self,
        connection: &mut MySqlConnection,
        work: &Work<'_>,
        to: Position,
    ) -> Result<bool, sqlx::Error> {
        connection.execute("START TRANSACTION").await?;
        match work {
            Work::Items(items) => {
                let plan = Plan { again: self.again, ..Plan::of(*items) };
                sql::plan(connection, &plan).await?;
            }
            Work::Dead { item, dead, tombstone } => {
                let row = match item {
                    Item::Row(row) => Some(&**row),
                    _ => None,
                };
                let place =
                    Unreadable { offset: item.offset(), raw: item.raw().clone(), problem: String::new() };
                sql::dead_letter(connection, &self.partition, row, &place, dead).await?;
                if let (true, Some(row)) = (*tombstone, row) {
                    sql::tombstone(connection, &self.partition, row).await?;
                }
            }
            Work::Nothing => {}
        }
        // Last, so that the lease's row is locked only for the commit.
        sql::advance(connection, &self.partition, self.lease_epoch, self.stored, to).await
    }

    async fn look(&self, to: Position) -> Result<Look, sqlx::Error> {
        let mut borrowed = Borrowed::from(&self.db.write, "write").await?;
        let (at, lease_epoch) = sql::position(borrowed.get()?, &self.partition).await?;
        borrowed.give_back();
        Ok(match at.offset {
            _ if lease_epoch != self.lease_epoch => Look::Taken,
            offset if offset == to.offset => Look::Stored,
            offset if offset == self.stored.offset => Look::NotYet,
            _ => Look::Taken,
        })
    }

    /// What stands at a row's place already.
    pub(super) async fn stored_record(&self, row: &Row) -> Result<Option<Record>, End> {
        let limit = self.persister.config.mysql_timeout();
        for attempt in 0.. {
            match db::within(limit, "read a row", self.read_record(row)).await {
                Ok(raw) => return Ok(raw.and_then(|raw| Record::decode(&raw[..]).ok())),
                Err(error) => self.wait_to_retry(attempt, &error.to_string()).await?,
            }
        }
        Err(End::Stopped)
    }

    async fn read_record(&self, row: &Row) -> Result<Option<Vec<u8>>, sqlx::Error> {
        let mut borrowed = Borrowed::from(&self.db.write, "write").await?;
        let table = row.table();
        let statement =
            format!("SELECT record FROM {table} WHERE tenant = ? AND conversation = ? AND seq = ?");
        let found = sqlx::query_scalar(AssertSqlSafe(statement))
            .bind(row.record.tenant.as_bytes())
            .bind(row.record.conversation.as_bytes())
            .bind(row.record.seq)
            .fetch_optional(borrowed.get()?)
            .await?;
        borrowed.give_back();
        Ok(found)
    }
}
