//! MySQL against the ledger, row by row, over a connection of the load test's own (R-LT-6).
use std::{collections::HashMap, sync::atomic::Ordering::Relaxed, time::Duration};

use anyhow::Context;
use futures::TryStreamExt;
use lapwing_proto::{
    Message as _,
    record::{Record, message, record::Body},
};
use sqlx::{MySqlPool, Row, mysql::MySqlPoolOptions};

use crate::ledger::{Ledger, Stand};

/// Read-only, and small: it is part of the database's connection budget.
pub(crate) struct Database {
    pool: MySqlPool,
}

#[derive(Debug, Clone, Default, serde::Serialize)]
pub(crate) struct Rows {
    pub(crate) rows: u64,
    pub(crate) messages: u64,
    /// Acknowledged and not there.
    pub(crate) missing: u64,
    /// There with another seq, conversation, sender or content.
    pub(crate) mismatched: u64,
    /// In more than one row.
    pub(crate) doubled: u64,
    pub(crate) rejected_but_present: u64,
    /// Reported unknown to the end, and there: not a fault, but counted.
    pub(crate) unknown_present: u64,
    /// Messages that nobody of this run sent.
    pub(crate) foreign: u64,
    pub(crate) dead_letters: u64,
    /// Conversations whose rows are not 1, 2, 3 … up to the head.
    pub(crate) broken_sequences: u64,
    pub(crate) details: Vec<String>,
}

impl Database {
    pub(crate) fn open(url: &str) -> anyhow::Result<Self> {
        let options = MySqlPoolOptions::new().max_connections(2).acquire_timeout(Duration::from_secs(5));
        let pool = options.connect_lazy(url).context("the MySQL address cannot be read")?;
        Ok(Self { pool })
    }

    /// Sum of the heads that stand in MySQL for this tenant: accepted messages less this is the lag.
    pub(crate) async fn persisted(&self, tenant: &str) -> anyhow::Result<u64> {
        let sql = "SELECT CAST(COALESCE(SUM(head), 0) AS SIGNED) FROM conversations WHERE tenant = ?";
        let sum: i64 = sqlx::query_scalar(sql).bind(tenant.as_bytes()).fetch_one(&self.pool).await?;
        Ok(sum.unsigned_abs())
    }

    /// Connections that the server refused since it started (error 1040), and those it has.
    pub(crate) async fn server(&self) -> anyhow::Result<(u64, u64)> {
        let status = |name: &'static str| async move {
            let row =
                sqlx::query("SHOW GLOBAL STATUS WHERE Variable_name = ?").bind(name).fetch_one(&self.pool);
            let value: String = row.await?.try_get(1)?;
            anyhow::Ok(value.parse::<u64>()?)
        };
        Ok((status("Connection_errors_max_connections").await?, status("Threads_connected").await?))
    }

    async fn tables(&self) -> anyhow::Result<Vec<String>> {
        let sql = "SELECT CAST(table_name AS CHAR) FROM information_schema.tables \
                   WHERE table_schema = DATABASE() AND table_name LIKE 'messages\\_%' ORDER BY table_name";
        let tables: Vec<String> = sqlx::query_scalar(sql).fetch_all(&self.pool).await?;
        anyhow::ensure!(!tables.is_empty(), "no messages_NN tables in the database");
        Ok(tables)
    }

    pub(crate) async fn check(&self, ledger: &Ledger) -> anyhow::Result<Rows> {
        let mut check = Check::new(ledger);
        for table in self.tables().await? {
            // The table's name is one of information_schema's, never from outside.
            let sql = format!(
                "SELECT conversation, seq, sender, client_mid, record FROM {table} WHERE tenant = ? ORDER BY conversation, seq"
            );
            let mut rows =
                sqlx::query(sqlx::AssertSqlSafe(sql)).bind(ledger.run.as_bytes()).fetch(&self.pool);
            while let Some(row) = rows.try_next().await? {
                let (conversation, seq): (Vec<u8>, i64) = (row.try_get(0)?, row.try_get(1)?);
                let (sender, client_mid): (Vec<u8>, Vec<u8>) = (row.try_get(2)?, row.try_get(3)?);
                let record: Vec<u8> = row.try_get(4)?;
                check.row(&Found {
                    conversation: &String::from_utf8_lossy(&conversation),
                    seq: seq.unsigned_abs(),
                    sender: &String::from_utf8_lossy(&sender),
                    client_mid: &String::from_utf8_lossy(&client_mid),
                    text: text_of(&record)?.as_deref(),
                });
            }
        }
        let sql = "SELECT COUNT(*) FROM dead_letters WHERE tenant = ?";
        let dead: i64 = sqlx::query_scalar(sql).bind(ledger.run.as_bytes()).fetch_one(&self.pool).await?;
        let mut rows = check.done();
        rows.dead_letters = dead.unsigned_abs();
        Ok(rows)
    }
}

fn text_of(record: &[u8]) -> anyhow::Result<Option<String>> {
    let record = Record::decode(record).context("a row's record cannot be read")?;
    Ok(match record.body {
        Some(Body::Message(message)) => match message.body {
            Some(message::Body::Text(text)) => Some(text),
            _ => Some(String::new()),
        },
        _ => None,
    })
}

/// A row as it was found; `text` None: a state event.
pub(crate) struct Found<'a> {
    pub(crate) conversation: &'a str,
    pub(crate) seq: u64,
    pub(crate) sender: &'a str,
    pub(crate) client_mid: &'a str,
    pub(crate) text: Option<&'a str>,
}

pub(crate) struct Check<'a> {
    ledger: &'a Ledger,
    found: Vec<u32>,
    /// Newest seq and number of rows of each conversation.
    sequences: HashMap<String, (u64, u64)>,
    rows: Rows,
}

impl<'a> Check<'a> {
    pub(crate) fn new(ledger: &'a Ledger) -> Self {
        Self {
            ledger,
            found: vec![0; ledger.entries.len()],
            sequences: HashMap::new(),
            rows: Rows::default(),
        }
    }

    pub(crate) fn row(&mut self, row: &Found<'_>) {
        self.rows.rows += 1;
        let sequence = self.sequences.entry(row.conversation.to_owned()).or_default();
        *sequence = (sequence.0.max(row.seq), sequence.1 + 1);
        let Some(text) = row.text else {
            return;
        };
        self.rows.messages += 1;
        let Some(entry) = self.ledger.entry_of(row.client_mid) else {
            self.rows.foreign += 1;
            self.detail(format!(
                "{} seq {}: client_mid {:?} is not of this run",
                row.conversation, row.seq, row.client_mid
            ));
            return;
        };
        self.found[entry as usize] += 1;
        let planned = &self.ledger.entries[entry as usize];
        let id = &self.ledger.conversations[planned.conversation as usize].id;
        let acked = self.ledger.stand(entry) == Stand::Acked;
        let same = id == row.conversation
            && planned.text == text
            && self.ledger.users[planned.sender as usize] == row.sender
            && (!acked || planned.seq.load(Relaxed) == row.seq);
        if !same && self.found[entry as usize] == 1 {
            self.rows.mismatched += 1;
            let seq = planned.seq.load(Relaxed);
            self.detail(format!(
                "{}: {id} seq {seq} stands at {} seq {}",
                row.client_mid, row.conversation, row.seq
            ));
        }
    }

    pub(crate) fn done(mut self) -> Rows {
        for (entry, found) in std::mem::take(&mut self.found).into_iter().enumerate() {
            let stand = self.ledger.stand(entry as u32);
            match (stand, found) {
                (Stand::Acked, 0) => {
                    self.rows.missing += 1;
                    self.detail(format!(
                        "{} was acknowledged and has no row",
                        self.ledger.client_mid(entry as u32)
                    ));
                }
                (Stand::Rejected, 1..) => {
                    self.rows.rejected_but_present += 1;
                    self.detail(format!(
                        "{} was rejected and has a row",
                        self.ledger.client_mid(entry as u32)
                    ));
                }
                (Stand::Unknown, 1..) => self.rows.unknown_present += 1,
                _ => {}
            }
            if found > 1 {
                self.rows.doubled += 1;
                self.detail(format!("{} has {found} rows", self.ledger.client_mid(entry as u32)));
            }
        }
        let broken: Vec<String> = self
            .sequences
            .iter()
            .filter(|(_, (head, rows))| head != rows)
            .map(|(c, (head, rows))| format!("{c} has {rows} rows up to seq {head}"))
            .collect();
        self.rows.broken_sequences = broken.len() as u64;
        broken.into_iter().for_each(|what| self.detail(what));
        self.rows
    }

    fn detail(&mut self, what: String) {
        if self.rows.details.len() < 100 {
            self.rows.details.push(what);
        }
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
