//! Where things are, as the authority has it (ADR 10): read at the start, followed with each beat of the leases, and looked up
//! again by a reader who finds that the rows have gone.

use std::{collections::HashMap, sync::Arc, time::Duration};

use lapwing_model::{Kind, PartitionId};
use lapwing_persister_core::{Placed, Placement, placement::AUTHORITY};
use parking_lot::RwLock;
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};

use crate::{
    db::{self, Borrowed, Db},
    persister::Persister,
};

const LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Places {
    current: RwLock<Arc<Placement>>,
}

impl Places {
    /// Gives partitions that have no place yet the configured one. What was written before there were several instances stays on
    /// the first.
    pub(crate) async fn begin(
        db: &Db,
        placement: Placement,
        partitions: &[PartitionId],
    ) -> Result<Self, sqlx::Error> {
        let mut borrowed = Borrowed::from(&db.control, "control").await?;
        let connection = borrowed.get()?;
        for partition in partitions.iter().filter(|partition| Kind::of_topic(&partition.topic).is_some()) {
            sqlx::query(
                "INSERT INTO placements (topic, `partition`, instance, filling, filled, sweeping, version, rows_moved, moved_up_to) \
                 SELECT topic, `partition`, IF(next_offset > 0, ?, ?), '', 0, '', 0, 0, 0 FROM partition_offsets \
                 WHERE topic = ? AND `partition` = ? ON DUPLICATE KEY UPDATE version = placements.version",
            )
            .bind(placement.name(AUTHORITY).as_bytes())
            .bind(placement.name(placement.begins_at(partition)).as_bytes())
            .bind(partition.topic.as_bytes())
            .bind(partition.partition)
            .execute(&mut *connection)
            .await?;
        }
        let placement = stored(connection, &placement).await?;
        borrowed.give_back();
        Ok(Self { current: RwLock::new(Arc::new(placement)) })
    }

    pub(crate) fn current(&self) -> Arc<Placement> {
        self.current.read().clone()
    }

    /// Follows what the authority has; true: something has changed.
    pub(crate) async fn refresh(&self, connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
        let version: i64 =
            sqlx::query_scalar("SELECT CAST(COALESCE(MAX(version), 0) AS SIGNED) FROM placements")
                .fetch_one(&mut *connection)
                .await?;
        let known = self.current();
        if version == known.version {
            return Ok(false);
        }
        let found = Arc::new(stored(connection, &known).await?);
        let mut current = self.current.write();
        // Two may look at once; the later one counts.
        if current.version < found.version {
            *current = found;
        }
        Ok(true)
    }
}

async fn stored(connection: &mut MySqlConnection, like: &Placement) -> Result<Placement, sqlx::Error> {
    type Row = (Vec<u8>, i32, Vec<u8>, Vec<u8>, u8, Vec<u8>, i64);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT topic, `partition`, instance, filling, filled, sweeping, version FROM placements",
    )
    .fetch_all(connection)
    .await?;
    let index = |name: &[u8]| -> Result<Option<usize>, sqlx::Error> {
        let name = String::from_utf8_lossy(name);
        let found = like.configured().names.iter().position(|known| *known == name);
        match found {
            None if !name.is_empty() => Err(sqlx::Error::Decode(
                format!("placements name an instance {name} that LAPWING_MYSQL_URL lacks").into(),
            )),
            found => Ok(found),
        }
    };
    let (mut placed, mut newest) = (HashMap::new(), 0);
    for (topic, partition, instance, filling, filled, sweeping, version) in rows {
        let topic = String::from_utf8_lossy(&topic).into_owned();
        let place = Placed {
            instance: index(&instance)?.unwrap_or(AUTHORITY),
            filling: index(&filling)?,
            filled: filled != 0,
            sweeping: index(&sweeping)?,
        };
        placed.insert(PartitionId::new(topic, partition.max(0) as u32), place);
        newest = newest.max(version);
    }
    Ok(like.stored(newest, placed))
}

/// Whether rows of a partition on this instance are no longer the ones to read; asked within the snapshot that gives them.
pub(crate) async fn moved_away(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
) -> Result<bool, sqlx::Error> {
    let found: Option<i32> =
        sqlx::query_scalar("SELECT `partition` FROM moved_away WHERE topic = ? AND `partition` = ?")
            .bind(partition.topic.as_bytes())
            .bind(partition.partition)
            .fetch_optional(connection)
            .await?;
    Ok(found.is_some())
}

impl Persister {
    /// For a reader that has met `moved_away`: the authority's word, which then counts, whatever the mark says.
    pub(crate) async fn look_up_places(&self) -> Result<Arc<Placement>, sqlx::Error> {
        let mut borrowed = Borrowed::from(&self.db.control, "control").await?;
        self.places.refresh(borrowed.get()?).await?;
        borrowed.give_back();
        Ok(self.places.current())
    }

    /// The pools for reads of all instances, the authority's first: for what is spread over all of them, such as a user's
    /// conversations.
    #[allow(dead_code, reason = "conversation lists, which are being built beside this, read by it")]
    pub(crate) fn read_pools(&self) -> impl Iterator<Item = &Db> {
        self.dbs.iter()
    }
}

/// Sets or takes away the mark that tells readers to look elsewhere.
pub(crate) async fn mark(db: &Db, partition: &PartitionId, moved: bool) -> Result<(), sqlx::Error> {
    let statement = if moved {
        "INSERT INTO moved_away (topic, `partition`) VALUES (?, ?) ON DUPLICATE KEY UPDATE topic = VALUES(topic)"
    } else {
        "DELETE FROM moved_away WHERE topic = ? AND `partition` = ?"
    };
    let mut borrowed = Borrowed::from(&db.control, "control").await?;
    let marking = sqlx::query(statement)
        .bind(partition.topic.as_bytes())
        .bind(partition.partition)
        .execute(borrowed.get()?);
    db::within(LIMIT, "mark a partition", marking).await?;
    borrowed.give_back();
    Ok(())
}

/// The epoch of a lease that a living persister holds.
pub(crate) async fn live_lease(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
    lease_ms: u64,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT o.lease_epoch FROM partition_offsets o JOIN persisters p ON p.name = o.lease_owner \
         WHERE o.topic = ? AND o.`partition` = ? AND o.lease_until > NOW(3) \
         AND p.seen_at > NOW(3) - INTERVAL ? MICROSECOND",
    )
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(lease_ms * 1000)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn all_have_seen(
    connection: &mut MySqlConnection,
    version: i64,
    lease_ms: u64,
) -> Result<bool, sqlx::Error> {
    let behind: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM persisters p LEFT JOIN placement_seen s ON s.name = p.name \
         WHERE p.seen_at > NOW(3) - INTERVAL ? MICROSECOND AND COALESCE(s.version, -1) < ?",
    )
    .bind(lease_ms * 1000)
    .bind(version)
    .fetch_one(connection)
    .await?;
    Ok(behind == 0)
}

/// `set` and `only_if` have a `?` for each of the names, in order.
pub(crate) struct Change<'a> {
    pub(crate) partition: &'a PartitionId,
    pub(crate) set: &'a str,
    pub(crate) only_if: &'a str,
    pub(crate) names: Vec<String>,
    pub(crate) lease_epoch: i64,
}

/// False: it was not as expected, or the lease is another one's.
pub(crate) async fn change(db: &Db, change: Change<'_>) -> Result<bool, sqlx::Error> {
    let Change { partition, set, only_if, names, lease_epoch } = change;
    let mut borrowed = Borrowed::from(&db.control, "control").await?;
    let connection = borrowed.get()?;
    let changing = async {
        connection.execute("START TRANSACTION").await?;
        let ours: Option<i64> = sqlx::query_scalar(
            "SELECT lease_epoch FROM partition_offsets WHERE topic = ? AND `partition` = ? FOR UPDATE",
        )
        .bind(partition.topic.as_bytes())
        .bind(partition.partition)
        .fetch_optional(&mut *connection)
        .await?;
        let version = next_version(connection).await?;
        let statement = format!(
            "UPDATE placements SET version = {version}, {set} WHERE {only_if} AND topic = ? AND `partition` = ?"
        );
        let mut query = sqlx::query(AssertSqlSafe(statement));
        for name in &names {
            query = query.bind(name.as_bytes());
        }
        let done = query
            .bind(partition.topic.as_bytes())
            .bind(partition.partition)
            .execute(&mut *connection)
            .await?;
        let done = ours == Some(lease_epoch) && done.rows_affected() == 1;
        connection.execute(if done { "COMMIT" } else { "ROLLBACK" }).await?;
        Ok(done)
    };
    let done = db::within(LIMIT, "change a placement", changing).await?;
    borrowed.give_back();
    Ok(done)
}

/// Locks all rows, so that versions are given one after the other.
async fn next_version(connection: &mut MySqlConnection) -> Result<i64, sqlx::Error> {
    let versions: Vec<i64> =
        sqlx::query_scalar("SELECT version FROM placements FOR UPDATE").fetch_all(connection).await?;
    Ok(versions.into_iter().max().unwrap_or(0) + 1)
}

/// The wish to have partitions on another instance; their holders do it. Answers those that are on their way somewhere else.
pub(crate) async fn wish(
    db: &Db,
    partitions: &[PartitionId],
    to: &str,
) -> Result<Vec<PartitionId>, sqlx::Error> {
    let mut borrowed = Borrowed::from(&db.control, "control").await?;
    let connection = borrowed.get()?;
    let wishing = async {
        connection.execute("START TRANSACTION").await?;
        let version = next_version(connection).await?;
        let mut busy = Vec::new();
        for partition in partitions {
            let done = sqlx::query(
                "UPDATE placements SET version = ?, filling = ?, filled = 0, rows_moved = 0, moved_up_to = 0 \
                 WHERE topic = ? AND `partition` = ? AND filling = '' AND sweeping = '' AND instance <> ?",
            )
            .bind(version)
            .bind(to.as_bytes())
            .bind(partition.topic.as_bytes())
            .bind(partition.partition)
            .bind(to.as_bytes())
            .execute(&mut *connection)
            .await?;
            if done.rows_affected() == 0 && !is_going_to(connection, partition, to).await? {
                busy.push(partition.clone());
            }
        }
        connection.execute("COMMIT").await?;
        Ok(busy)
    };
    let busy = db::within(LIMIT, "wish for a placement", wishing).await?;
    borrowed.give_back();
    Ok(busy)
}

async fn is_going_to(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
    to: &str,
) -> Result<bool, sqlx::Error> {
    let found: Option<i64> = sqlx::query_scalar(
        "SELECT version FROM placements WHERE topic = ? AND `partition` = ? AND (filling = ? OR (filling = '' AND instance = ?))",
    )
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(to.as_bytes())
    .bind(to.as_bytes())
    .fetch_optional(connection)
    .await?;
    Ok(found.is_some())
}
