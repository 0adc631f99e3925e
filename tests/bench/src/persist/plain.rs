//! What the persister is held against: nothing but inserts.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use sqlx::{AssertSqlSafe, MySqlPool};

use super::{Bench, TABLES, log::Log, log::Row};

const ROWS: usize = 200;
const COLUMNS: &str =
    "tenant, conversation, seq, n, sender, device, client_mid, content_hash, sent_at_ms, record";

/// One connection a table, a statement of 200 rows at a time, each its own transaction.
pub(crate) async fn insert(sql: &MySqlPool, log: &Log) -> Result<()> {
    let mut tables: BTreeMap<u32, Vec<&Row>> = BTreeMap::new();
    for row in &log.rows {
        tables.entry(row.record.bucket / (256 / TABLES)).or_default().push(row);
    }
    try_join_all(tables.into_iter().map(|(table, rows)| one(sql, table, rows))).await?;
    Ok(())
}

async fn one(sql: &MySqlPool, table: u32, rows: Vec<&Row>) -> Result<()> {
    let mut connection = sql.acquire().await.context("a connection")?;
    for chunk in rows.chunks(ROWS) {
        let values = vec!["(?,?,?,?,?,?,?,?,?,?)"; chunk.len()].join(",");
        let statement = format!("INSERT INTO plain_{table:02} ({COLUMNS}) VALUES {values}");
        let mut query = sqlx::query(AssertSqlSafe(statement));
        for Row { record, raw } in chunk {
            query = query
                .bind(record.tenant.as_bytes())
                .bind(record.conversation.as_bytes())
                .bind(record.seq)
                .bind(record.n)
                .bind(record.sender.as_bytes())
                .bind(record.device.as_bytes())
                .bind(record.client_mid.as_bytes())
                .bind(&record.content_hash[..])
                .bind(record.sent_at_ms)
                .bind(&raw[..]);
        }
        query.execute(&mut *connection).await.context("an insert")?;
    }
    Ok(())
}

/// Rows of other tenants into both ways' tables, until each way has so many in all.
pub(crate) async fn grow(bench: &Bench, rows: usize) -> Result<()> {
    let each = rows / TABLES as usize;
    for table in 0..TABLES {
        for kind in ["messages", "plain"] {
            let name = format!("{kind}_{table:02}");
            let there = bench.number(format!("SELECT COUNT(*) FROM {name}")).await? as usize;
            if there >= each {
                continue;
            }
            bench
                .execute(format!(
                    "INSERT INTO {name} ({COLUMNS}) SELECT CONCAT('x', LPAD(seq % 97, 2, '0')), \
                     CONCAT('p2p.', LPAD(MD5(seq % 5003), 52, 'a')), seq, seq, 'user', 'd1', CONCAT('mid-', seq), \
                     UNHEX(MD5(seq)), 1700000000000 + seq, REPEAT('r', 400) FROM seq_{}_to_{}",
                    there + 1,
                    each
                ))
                .await?;
        }
    }
    Ok(())
}
