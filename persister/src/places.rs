//! Where things are, as the authority has it (ADR 10): read at the start, followed with each beat of the leases, and looked up
//! again by a reader who finds that the rows have gone.

use std::{collections::HashMap, sync::Arc};

use lapwing_model::{Kind, PartitionId};
use lapwing_persister_core::{Placed, Placement, placement::AUTHORITY};
use parking_lot::RwLock;
use sqlx::MySqlConnection;

use crate::{
    db::{Borrowed, Db},
    persister::Persister,
};

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
