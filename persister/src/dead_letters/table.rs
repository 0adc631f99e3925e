//! The statements on the table of dead letters: found by a filter, read whole, marked as replayed, purged.

use std::collections::HashMap;

use bytes::Bytes;
use lapwing_model::PartitionId;
use lapwing_runtime::admin::AdminError;
use serde::Deserialize;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, QueryBuilder};

use crate::write::sql::{Dead, ERROR_BYTES, cut};

pub(crate) const MOST: u32 = 500;
const USUAL: u32 = 100;
/// Of one answer: far below NATS' `max_payload`.
pub(crate) const OFFSETS: u32 = 50_000;
/// The last moment that a DATETIME has.
const LAST_MS: u64 = 253_402_300_799_999;

/// Which ones, in pages by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Filter {
    pub(crate) ids: Vec<u64>,
    pub(crate) tenant: Option<String>,
    pub(crate) conversation: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) code: Option<u32>,
    pub(crate) replayed: Option<bool>,
    /// When it died, both included.
    pub(crate) from_ms: Option<u64>,
    pub(crate) to_ms: Option<u64>,
    /// Only ids above it.
    pub(crate) after: u64,
    pub(crate) limit: Option<u32>,
}

impl Filter {
    pub(crate) fn of_query(query: &HashMap<String, String>) -> Result<Self, AdminError> {
        let mut filter = Self::default();
        for (name, value) in query {
            let number = || -> Result<u64, AdminError> {
                value
                    .parse()
                    .map_err(|_| AdminError::invalid(format!("parameter `{name}`: {value:?} is no number")))
            };
            match name.as_str() {
                "tenant" => filter.tenant = Some(value.clone()),
                "conversation" => filter.conversation = Some(value.clone()),
                "topic" => filter.topic = Some(value.clone()),
                "code" => filter.code = Some(small(number()?)),
                "replayed" => filter.replayed = Some(yes_or_no(value)?),
                "from_ms" => filter.from_ms = Some(number()?),
                "to_ms" => filter.to_ms = Some(number()?),
                "after" => filter.after = number()?,
                "limit" => filter.limit = Some(small(number()?)),
                other => return Err(AdminError::invalid(format!("there is no parameter `{other}`"))),
            }
        }
        Ok(filter)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.unwrap_or(USUAL).clamp(1, MOST) as usize
    }

    fn conditions(&self, builder: &mut QueryBuilder<MySql>) {
        builder.push(" WHERE id > ").push_bind(self.after);
        if !self.ids.is_empty() {
            builder.push(" AND id IN (");
            let mut list = builder.separated(",");
            for id in &self.ids {
                list.push_bind(*id);
            }
            builder.push(")");
        }
        for (column, wanted) in
            [("tenant", &self.tenant), ("conversation", &self.conversation), ("topic", &self.topic)]
        {
            if let Some(wanted) = wanted {
                builder.push(format!(" AND {column} = ")).push_bind(wanted.as_bytes().to_vec());
            }
        }
        if let Some(code) = self.code {
            builder.push(" AND error_code = ").push_bind(code);
        }
        if let Some(replayed) = self.replayed {
            builder.push(if replayed { " AND replayed_at IS NOT NULL" } else { " AND replayed_at IS NULL" });
        }
        for (sign, ms) in [(">=", self.from_ms), ("<=", self.to_ms)] {
            if let Some(ms) = ms {
                let moment = "CAST('1970-01-01' AS DATETIME(3)) + INTERVAL ";
                builder.push(format!(" AND created_at {sign} {moment}"));
                builder.push_bind(ms.min(LAST_MS) as i64 * 1000).push(" MICROSECOND");
            }
        }
        builder.push(" ORDER BY id LIMIT ").push_bind(self.limit() as u32);
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn yes_or_no(value: &str) -> Result<bool, AdminError> {
    match value {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err(AdminError::invalid(format!("parameter `replayed`: {value:?} is neither yes nor no"))),
    }
}

/// One without its payload.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub(crate) id: u64,
    pub(crate) partition: PartitionId,
    pub(crate) offset: u64,
    pub(crate) tenant: String,
    pub(crate) conversation: String,
    /// None: it was no event of a conversation, or nobody could read it.
    pub(crate) seq: Option<u64>,
    pub(crate) code: u32,
    pub(crate) error: String,
    pub(crate) state_event: bool,
    pub(crate) payload_bytes: u64,
    /// By the database's clock, as RFC 3339.
    pub(crate) created_at: String,
    pub(crate) replayed_at: Option<String>,
}

type Row =
    (i64, Vec<u8>, i32, i64, Vec<u8>, Vec<u8>, Vec<u8>, u32, Vec<u8>, u8, i64, Vec<u8>, Option<Vec<u8>>);

const COLUMNS: &str = "SELECT id, topic, `partition`, record_offset, tenant, conversation, seq_text, error_code, error, \
     state_event, CAST(LENGTH(payload) AS SIGNED), \
     CAST(DATE_FORMAT(created_at, '%Y-%m-%dT%H:%i:%s.%f') AS BINARY), \
     CAST(DATE_FORMAT(replayed_at, '%Y-%m-%dT%H:%i:%s.%f') AS BINARY) FROM dead_letters";

impl From<Row> for Letter {
    fn from(row: Row) -> Self {
        let (
            id,
            topic,
            partition,
            offset,
            tenant,
            conversation,
            seq,
            code,
            error,
            state,
            bytes,
            created,
            replayed,
        ) = row;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // The column has milliseconds, the format microseconds.
        let moment = |bytes: &[u8]| format!("{}Z", text(&bytes[..bytes.len().min(23)]));
        Self {
            id: id.max(0) as u64,
            partition: PartitionId::new(text(&topic), partition.max(0) as u32),
            offset: offset.max(0) as u64,
            tenant: text(&tenant),
            conversation: text(&conversation),
            seq: text(&seq).parse().ok(),
            code,
            error: text(&error),
            state_event: state != 0,
            payload_bytes: bytes.max(0) as u64,
            created_at: moment(&created),
            replayed_at: replayed.as_deref().map(moment),
        }
    }
}

pub(crate) async fn list(
    connection: &mut MySqlConnection,
    filter: &Filter,
) -> Result<Vec<Letter>, sqlx::Error> {
    let mut builder = QueryBuilder::new(COLUMNS);
    filter.conditions(&mut builder);
    let rows: Vec<Row> = builder.build_query_as().fetch_all(connection).await?;
    Ok(rows.into_iter().map(Letter::from).collect())
}

pub(crate) async fn ids(connection: &mut MySqlConnection, filter: &Filter) -> Result<Vec<u64>, sqlx::Error> {
    let mut builder = QueryBuilder::new("SELECT id FROM dead_letters");
    filter.conditions(&mut builder);
    let ids: Vec<i64> = builder.build_query_scalar().fetch_all(connection).await?;
    Ok(ids.into_iter().map(|id| id.max(0) as u64).collect())
}

/// With its payload; `locked`: until the transaction's end nobody else replays it.
pub(crate) async fn whole(
    connection: &mut MySqlConnection,
    id: u64,
    locked: bool,
) -> Result<Option<(Letter, Bytes)>, sqlx::Error> {
    let tail = if locked { " FOR UPDATE" } else { "" };
    let statement = AssertSqlSafe(format!("{COLUMNS} WHERE id = ?{tail}"));
    let row: Option<Row> = sqlx::query_as(statement).bind(id).fetch_optional(&mut *connection).await?;
    let Some(row) = row else { return Ok(None) };
    let payload: Vec<u8> = sqlx::query_scalar("SELECT payload FROM dead_letters WHERE id = ?")
        .bind(id)
        .fetch_one(connection)
        .await?;
    Ok(Some((row.into(), payload.into())))
}

pub(crate) async fn replayed(connection: &mut MySqlConnection, id: u64) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE dead_letters SET replayed_at = NOW(3) WHERE id = ?")
        .bind(id)
        .execute(connection)
        .await
        .map(|_| ())
}

/// It stays dead, now for this reason.
pub(crate) async fn still_dead(
    connection: &mut MySqlConnection,
    id: u64,
    dead: &Dead,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE dead_letters SET error_code = ?, error = ? WHERE id = ? AND replayed_at IS NULL")
        .bind(dead.code)
        .bind(cut(&dead.error, ERROR_BYTES))
        .bind(id)
        .execute(connection)
        .await
        .map(|_| ())
}

pub(crate) async fn count_open(connection: &mut MySqlConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT COUNT(*) FROM dead_letters WHERE replayed_at IS NULL")
        .fetch_one(connection)
        .await
}

/// Those of a stretch of a log, replayed or not.
pub(crate) async fn offsets(
    connection: &mut MySqlConnection,
    at: &PartitionId,
    from: u64,
    to: u64,
) -> Result<Vec<u64>, sqlx::Error> {
    let found: Vec<i64> = sqlx::query_scalar(
        "SELECT record_offset FROM dead_letters WHERE topic = ? AND `partition` = ? \
         AND record_offset >= ? AND record_offset < ? ORDER BY record_offset LIMIT ?",
    )
    .bind(at.topic.as_bytes())
    .bind(at.partition)
    .bind(from.min(i64::MAX as u64))
    .bind(to.min(i64::MAX as u64))
    .bind(OFFSETS)
    .fetch_all(connection)
    .await?;
    Ok(found.into_iter().map(|offset| offset.max(0) as u64).collect())
}

/// A part of the replayed ones that are older; how many there were.
pub(crate) async fn purge(connection: &mut MySqlConnection, older_than_ms: u64) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "DELETE FROM dead_letters WHERE replayed_at < NOW(3) - INTERVAL ? MICROSECOND ORDER BY replayed_at LIMIT ?",
    )
    .bind(older_than_ms.min(LAST_MS / 100) as i64 * 1000)
    .bind(MOST)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-PST-5
    #[test]
    fn a_filter_is_read_from_a_query_and_a_wrong_word_is_refused() {
        let query = |pairs: &[(&str, &str)]| {
            Filter::of_query(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
        };
        let filter =
            query(&[("tenant", "t"), ("code", "1264"), ("replayed", "no"), ("limit", "9999")]).unwrap();
        assert_eq!(
            (filter.tenant.as_deref(), filter.code, filter.replayed),
            (Some("t"), Some(1264), Some(false))
        );
        assert_eq!(filter.limit(), 500);
        for wrong in [("tennant", "t"), ("code", "x"), ("replayed", "maybe"), ("after", "-1")] {
            assert_eq!(query(&[wrong]).unwrap_err().status, 400, "{wrong:?}");
        }
    }
}
