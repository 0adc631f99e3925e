//! A dead letter back into its table (R-PST-5): one transaction each, which may be run again at any time.

use std::time::{Duration, Instant};

use lapwing_persister_core::{
    Class, Item, Plan, Row,
    batch::same_content,
    class::{self, backoff},
    replay::{Refold, revive},
    shard,
};
use lapwing_proto::{Message as _, record::Record};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};

use super::table::{self, Filter, Letter};
use crate::{
    db::{self, Borrowed},
    persister::Persister,
    write::sql::{self, Dead},
};

/// What became of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    Replayed,
    /// The same row is there already.
    Stored,
    /// It was replayed before.
    Already,
    Gone,
    /// Another message stands at its seq: it stays dead.
    Collision,
    /// It cannot become a row.
    Never(String),
    /// MySQL still refuses it: it stays dead.
    Refused(String),
    /// MySQL or somebody's lock was in the way.
    Later(String),
}

impl Fate {
    fn name(&self) -> &'static str {
        match self {
            Self::Replayed => "replayed",
            Self::Stored => "stored_already",
            Self::Already => "replayed_before",
            Self::Gone => "gone",
            Self::Collision => "collision",
            Self::Never(_) => "never",
            Self::Refused(_) => "refused",
            Self::Later(_) => "later",
        }
    }

    fn why(&self) -> &str {
        match self {
            Self::Collision => COLLISION,
            Self::Gone => "there is no such dead letter",
            Self::Never(why) | Self::Refused(why) | Self::Later(why) => why,
            _ => "",
        }
    }
}

const COLLISION: &str = "another message stands at its seq";
/// MySQL's number for it.
const DUPLICATE: u16 = 1062;
const TRIES: u32 = 6;
/// Below the time that an admin call may take.
const LIMIT: Duration = Duration::from_secs(20);
/// Longer than the wait for another transaction's lock.
const TRY: Duration = Duration::from_secs(8);
/// Newer state events of a conversation that are read at a time.
const NEWER: u32 = 200;

/// The next ones of the filter. `dry`: all of it but the commit.
pub(crate) async fn batch(persister: &Persister, filter: &Filter, dry: bool) -> Result<Value, sqlx::Error> {
    let limit = persister.config.mysql_timeout();
    let finding = async {
        let mut borrowed = Borrowed::from(&persister.db.write, "write").await?;
        let ids = table::ids(borrowed.get()?, filter).await?;
        borrowed.give_back();
        Ok(ids)
    };
    let ids = db::within(limit, "find dead letters", finding).await?;
    let (begin, full) = (Instant::now(), ids.len() == filter.limit());
    let result = |id: &u64, fate: &Fate| json!({ "id": id, "result": fate.name(), "error": fate.why() });
    let missing = filter.ids.iter().filter(|id| filter.after == 0 && !ids.contains(id));
    let mut results: Vec<Value> = missing.map(|id| result(id, &Fate::Gone)).collect();
    let mut next = None;
    for (index, id) in ids.iter().enumerate() {
        let fate = one(persister, *id, dry, begin + LIMIT).await;
        results.push(result(id, &fate));
        if begin.elapsed() > LIMIT || matches!(fate, Fate::Later(_)) {
            next = (full || index + 1 < ids.len()).then_some(*id);
            break;
        }
        next = full.then_some(*id);
    }
    Ok(json!({ "dry_run": dry, "results": results, "next": next }))
}

async fn one(persister: &Persister, id: u64, dry: bool, end: Instant) -> Fate {
    let limit = persister.config.mysql_timeout().min(TRY);
    let mut last = String::new();
    for attempt in 0..TRIES {
        match db::within(limit, "replay", transaction(persister, id, dry)).await {
            Ok((Fate::Collision, Some(letter))) if !dry => {
                collided(&letter);
                let dead = Dead { code: DUPLICATE, error: COLLISION.to_owned() };
                return kept(persister, id, &dead, Fate::Collision).await;
            }
            Ok((fate, _)) => return fate,
            Err(error) if db::class(&error) == Class::Permanent => {
                let fate = Fate::Refused(error.to_string());
                if dry {
                    return fate;
                }
                let dead = Dead { code: db::number(&error), error: error.to_string() };
                return kept(persister, id, &dead, fate).await;
            }
            // 1062 among them: a writer was quicker, the next try sees its row.
            Err(error) => last = error.to_string(),
        }
        if Instant::now() > end {
            break;
        }
        tokio::time::sleep(backoff(attempt, rand::random())).await;
    }
    Fate::Later(last)
}

fn collided(letter: &Letter) {
    if class::of_number(u16::try_from(letter.code).unwrap_or(0)) == Class::Duplicate {
        return;
    }
    metrics::counter!("lapwing_seq_collisions_total").increment(1);
    tracing::error!(
        tenant = letter.tenant, conversation = letter.conversation, seq = letter.seq, partition = %letter.partition,
        offset = letter.offset, "ALARM: another message stands at this seq in MySQL; the dead letter stays one"
    );
}

/// It stays dead: the new reason is written down.
async fn kept(persister: &Persister, id: u64, dead: &Dead, fate: Fate) -> Fate {
    let writing = async {
        let mut borrowed = Borrowed::from(&persister.db.write, "write").await?;
        table::still_dead(borrowed.get()?, id, dead).await?;
        borrowed.give_back();
        Ok(())
    };
    match db::within(persister.config.mysql_timeout(), "keep a dead letter", writing).await {
        Ok(()) => fate,
        Err(error) => Fate::Later(error.to_string()),
    }
}

async fn transaction(
    persister: &Persister,
    id: u64,
    dry: bool,
) -> Result<(Fate, Option<Letter>), sqlx::Error> {
    let mut borrowed = Borrowed::from(&persister.db.write, "write").await?;
    let connection = borrowed.get()?;
    let work = async {
        connection.execute("START TRANSACTION").await?;
        let found = statements(connection, id).await?;
        let stands = matches!(found.0, Fate::Replayed | Fate::Stored) && !dry;
        connection.execute(if stands { "COMMIT" } else { "ROLLBACK" }).await?;
        Ok(found)
    };
    match work.await {
        Ok(found) => {
            borrowed.give_back();
            Ok(found)
        }
        Err(error) => {
            if db::leaves_connection(&error) && borrowed.get()?.execute("ROLLBACK").await.is_ok() {
                borrowed.give_back();
            }
            Err(error)
        }
    }
}

async fn statements(
    connection: &mut MySqlConnection,
    id: u64,
) -> Result<(Fate, Option<Letter>), sqlx::Error> {
    let Some((letter, payload)) = table::whole(connection, id, true).await? else {
        return Ok((Fate::Gone, None));
    };
    if letter.replayed_at.is_some() {
        return Ok((Fate::Already, None));
    }
    let item = match revive(&letter.partition.topic, letter.offset, letter.seq.is_some(), payload) {
        Ok(item) => item,
        Err(why) => return Ok((Fate::Never(why), None)),
    };
    let mut fate = Fate::Replayed;
    match &item {
        Item::Row(row) => {
            // First of all: a writer that has newer events of this conversation waits here, or is through and its rows are seen.
            sql::head(connection, row).await?;
            match stored(connection, row).await? {
                Some(stored) if same_content(&stored, &row.record) => fate = Fate::Stored,
                Some(_) => return Ok((Fate::Collision, Some(letter))),
                None if row.record.countable => sql::plan(connection, &Plan::of([&item])).await?,
                None => {
                    let mut refold = Refold::new(row);
                    newer(connection, row, &mut refold).await?;
                    sql::plan(connection, &refold.plan()).await?;
                }
            }
            sql::remove_tombstone(connection, &letter.partition, row).await?;
        }
        _ => sql::state(connection, &Plan::of([&item])).await?,
    }
    table::replayed(connection, id).await?;
    Ok((fate, Some(letter)))
}

async fn stored(connection: &mut MySqlConnection, row: &Row) -> Result<Option<Record>, sqlx::Error> {
    let table = shard::table(row.shard);
    let statement = format!("SELECT record FROM {table} WHERE tenant = ? AND conversation = ? AND seq = ?");
    let raw: Option<Vec<u8>> = sqlx::query_scalar(AssertSqlSafe(statement))
        .bind(row.record.tenant.as_bytes())
        .bind(row.record.conversation.as_bytes())
        .bind(row.record.seq)
        .fetch_optional(connection)
        .await?;
    raw.map(|raw| decoded(&raw)).transpose()
}

/// State events have no client_mid, which spares the bodies of all messages behind this one.
async fn newer(
    connection: &mut MySqlConnection,
    row: &Row,
    refold: &mut Refold<'_>,
) -> Result<(), sqlx::Error> {
    let table = shard::table(row.shard);
    let statement = format!(
        "SELECT seq, record FROM {table} WHERE tenant = ? AND conversation = ? AND seq > ? AND client_mid = '' \
         ORDER BY seq LIMIT ?"
    );
    let mut after = row.record.seq;
    loop {
        let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(AssertSqlSafe(statement.clone()))
            .bind(row.record.tenant.as_bytes())
            .bind(row.record.conversation.as_bytes())
            .bind(after)
            .bind(NEWER)
            .fetch_all(&mut *connection)
            .await?;
        for (seq, raw) in &rows {
            after = seq.max(&0).unsigned_abs();
            refold.newer(&decoded(raw)?);
        }
        if rows.len() < NEWER as usize {
            return Ok(());
        }
    }
}

fn decoded(raw: &[u8]) -> Result<Record, sqlx::Error> {
    Record::decode(raw).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}
