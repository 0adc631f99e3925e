//! Before anything is written: migrations and the schema contract (R-PST-6).

use std::time::Duration;

use anyhow::{Context as _, bail};
use lapwing_persister_core::{
    contract::{self, Column},
    indexes, shard,
};
use lapwing_runtime::Context;
use sqlx::{
    ConnectOptions as _, Connection as _, Executor as _, MySqlConnection,
    migrate::{MigrateError, Migrator},
};

use crate::{
    budget,
    config::Config,
    db::{self, Borrowed, Db},
};

const LOCK: &str = "lapwing.schema";
const RETRY: Duration = Duration::from_secs(1);

/// Waits for MySQL, brings the schema up to date and checks it; waits again while the schema is not as it must be. An error
/// means that this process must not start.
pub(crate) async fn prepare(context: &Context, config: &Config, db: &Db) -> anyhow::Result<()> {
    let health = &context.health;
    health.require("mysql");
    health.require("schema");
    loop {
        match migrate(config, context.node()).await {
            Ok(()) => break,
            Err(Problem::Fatal(error)) => return Err(error),
            Err(Problem::Wait(error)) => health.set("mysql", Err(format!("{}: {error:#}", config.mysql_url))),
        }
        tokio::time::sleep(RETRY).await;
    }
    health.set("mysql", Ok(()));
    loop {
        let found = db::within(config.mysql_timeout(), "schema", mismatches(db)).await;
        match found {
            Ok(wrong) if wrong.is_empty() => break,
            Ok(wrong) => health.set("schema", Err(wrong.join("; "))),
            Err(error) => health.set("schema", Err(format!("cannot be read: {error}"))),
        }
        tokio::time::sleep(RETRY).await;
    }
    health.set("schema", Ok(()));
    Ok(())
}

pub(crate) enum Problem {
    Wait(anyhow::Error),
    Fatal(anyhow::Error),
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        Self::Wait(error.into())
    }
}

/// One persister at a time: sqlx's own lock waits without limit in MySQL and not at all in MariaDB.
async fn migrate(config: &Config, name: &str) -> Result<(), Problem> {
    let options = db::connect_options(config).map_err(Problem::Fatal)?;
    let connecting = tokio::time::timeout(Duration::from_secs(5), options.connect());
    let mut connection =
        connecting.await.map_err(|_| Problem::Wait(anyhow::anyhow!("no connection within 5 s")))??;
    let got: Option<i64> =
        sqlx::query_scalar("SELECT GET_LOCK(?, 60)").bind(LOCK).fetch_one(&mut connection).await?;
    if got != Some(1) {
        return Err(Problem::Wait(anyhow::anyhow!("another process has held the lock {LOCK} for 60 s")));
    }
    let result = under_lock(&mut connection, config, name).await;
    // The lock goes with the connection.
    let _ = connection.close().await;
    result
}

async fn under_lock(connection: &mut MySqlConnection, config: &Config, name: &str) -> Result<(), Problem> {
    let mut migrator: Migrator = sqlx::migrate!("./migrations");
    // During a rolling upgrade an older process meets a newer schema.
    migrator.set_locking(false).set_ignore_missing(true);
    let first = migrator.run_direct(None, &mut *connection, false).await;
    let result = match first {
        Err(MigrateError::Dirty(version)) => {
            // A process died in its middle. Every statement may run twice, so it is run again.
            tracing::warn!(version, "a migration was left half done; running it again");
            connection.execute("DELETE FROM _sqlx_migrations WHERE success = FALSE").await?;
            migrator.run_direct(None, &mut *connection, false).await
        }
        other => other,
    };
    match result {
        Ok(()) => {}
        Err(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _))
            if db::number(&error) == 0 =>
        {
            return Err(Problem::Wait(error.into()));
        }
        Err(error) => return Err(Problem::Fatal(anyhow::Error::new(error).context("migrations"))),
    }
    budget::register(connection, config, name).await
}

pub(crate) async fn mismatches(db: &Db) -> Result<Vec<String>, sqlx::Error> {
    let mut borrowed = Borrowed::from(&db.control, "control").await?;
    let connection = borrowed.get()?;
    let mode: String =
        sqlx::query_scalar("SELECT CAST(@@SESSION.sql_mode AS CHAR)").fetch_one(&mut *connection).await?;
    let columns: Vec<(String, String, String, String)> = sqlx::query_as(
        "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR), CAST(column_type AS CHAR), CAST(is_nullable AS CHAR) \
         FROM information_schema.columns WHERE table_schema = DATABASE()",
    )
    .fetch_all(&mut *connection)
    .await?;
    let parts: Vec<(String, String, i64, String)> = sqlx::query_as(
        "SELECT CAST(table_name AS CHAR), CAST(index_name AS CHAR), CAST(non_unique AS SIGNED), CAST(column_name AS CHAR) \
         FROM information_schema.statistics WHERE table_schema = DATABASE() ORDER BY table_name, index_name, seq_in_index",
    )
    .fetch_all(&mut *connection)
    .await?;
    borrowed.give_back();
    let found: Vec<Column> = columns
        .into_iter()
        .map(|(table, column, kind, nullable)| Column {
            table,
            column,
            kind: kind.to_lowercase(),
            nullable: nullable == "YES",
        })
        .collect();
    let all =
        indexes::gather(parts.into_iter().map(|(table, name, not, column)| (table, name, not == 0, column)));
    let primary = all.iter().filter(|index| index.name == "PRIMARY");
    let keys: Vec<_> = primary.map(|index| (index.table.clone(), index.columns.clone())).collect();
    let wrong = contract::compare(&found, &keys, shard::TABLES);
    Ok(wrong
        .into_iter()
        .chain(indexes::compare(&all))
        .chain(contract::check_sql_mode(&mode))
        .map(|mismatch| mismatch.to_string())
        .collect())
}

/// A row for each partition, so that there is something to lease.
pub(crate) async fn ensure_partitions(
    db: &Db,
    partitions: &[lapwing_model::PartitionId],
) -> anyhow::Result<()> {
    if partitions.is_empty() {
        bail!("no topics");
    }
    let mut borrowed = Borrowed::from(&db.control, "control").await.context("MySQL")?;
    for partition in partitions {
        sqlx::query(
            "INSERT INTO partition_offsets (topic, `partition`, next_offset, claim_epoch, last_index, lease_owner, lease_epoch, \
             lease_until) VALUES (?, ?, 0, -1, 0, '', 0, NOW(3)) ON DUPLICATE KEY UPDATE topic = VALUES(topic)",
        )
        .bind(partition.topic.as_bytes())
        .bind(partition.partition)
        .execute(borrowed.get()?)
        .await
        .context("partition_offsets")?;
    }
    borrowed.give_back();
    Ok(())
}
