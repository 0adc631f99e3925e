//! Before anything is written: migrations, the schema contract (R-PST-6), the connection budget (R-PST-7).

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use lapwing_persister_core::{
    contract::{self, Column},
    shard,
};
use lapwing_runtime::Context;
use sqlx::{
    ConnectOptions as _, Connection as _, Executor as _, MySqlConnection,
    migrate::{MigrateError, Migrator},
};

use crate::{
    config::Config,
    db::{self, Borrowed, Db},
};

const LOCK: &str = "lapwing.schema";
const RETRY: Duration = Duration::from_secs(1);
/// An instance beside the authority is looked at, and its registration renewed.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// Waits for MySQL, brings the schema up to date and checks it; waits again while the schema is not as it must be. An error
/// means that this process must not start.
pub(crate) async fn prepare(
    context: &Context,
    config: &Config,
    db: &Db,
    own_tables: &[String],
) -> anyhow::Result<()> {
    let (health, mysql, schema) = (&context.health, db.check("mysql"), db.check("schema"));
    health.require(&mysql);
    health.require(&schema);
    loop {
        match migrate(config, db, context.node(), own_tables).await {
            Ok(()) => break,
            Err(Problem::Fatal(error)) => return Err(error),
            Err(Problem::Wait(error)) => health.set(&mysql, Err(format!("{}: {error:#}", db.url))),
        }
        tokio::time::sleep(RETRY).await;
    }
    health.set(&mysql, Ok(()));
    loop {
        let found = db::within(config.mysql_timeout(), "schema", mismatches(db, own_tables)).await;
        match found {
            Ok(wrong) if wrong.is_empty() => break,
            Ok(wrong) => health.set(&schema, Err(wrong.join("; "))),
            Err(error) => health.set(&schema, Err(format!("cannot be read: {error}"))),
        }
        tokio::time::sleep(RETRY).await;
    }
    health.set(&schema, Ok(()));
    db.prepared();
    Ok(())
}

/// An instance beside the authority: one that is away at the start keeps this process un-ready, later it is only shown. Either
/// way it holds up nothing but its own rows.
pub(crate) async fn keep(
    context: Context,
    config: Arc<Config>,
    db: Db,
    own_tables: Vec<String>,
) -> anyhow::Result<()> {
    let stop = context.stopping();
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        prepared = prepare(&context, &config, &db, &own_tables) => prepared?,
    }
    let (health, mysql) = (&context.health, db.check("mysql"));
    loop {
        let looking = async {
            let mut borrowed = Borrowed::from(&db.control, "control").await?;
            let state = watch_budget(borrowed.get()?, &config, context.node()).await?;
            borrowed.give_back();
            Ok(state)
        };
        match db::within(LOOK_LIMIT, "look at an instance", looking).await {
            Ok(state) => {
                health.show(&mysql, Ok(()));
                health.set(&db.check("connections"), state);
            }
            Err(error) => health.show(&mysql, Err(format!("{}: {error}", db.url))),
        }
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    let leaving = async {
        let mut borrowed = Borrowed::from(&db.control, "control").await?;
        unregister(borrowed.get()?, context.node()).await?;
        borrowed.give_back();
        Ok(())
    };
    if let Err(error) = db::within(LOOK_LIMIT, "unregister", leaving).await {
        tracing::warn!(instance = &*db.name, "not unregistered, it will expire: {error}");
    }
    Ok(())
}

enum Problem {
    Wait(anyhow::Error),
    Fatal(anyhow::Error),
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        Self::Wait(error.into())
    }
}

/// One persister at a time: sqlx's own lock waits without limit in MySQL and not at all in MariaDB.
async fn migrate(config: &Config, db: &Db, name: &str, own_tables: &[String]) -> Result<(), Problem> {
    let options = db::connect_options(&db.url).map_err(Problem::Fatal)?;
    let connecting = tokio::time::timeout(Duration::from_secs(5), options.connect());
    let mut connection =
        connecting.await.map_err(|_| Problem::Wait(anyhow::anyhow!("no connection within 5 s")))??;
    let got: Option<i64> =
        sqlx::query_scalar("SELECT GET_LOCK(?, 60)").bind(LOCK).fetch_one(&mut connection).await?;
    if got != Some(1) {
        return Err(Problem::Wait(anyhow::anyhow!("another process has held the lock {LOCK} for 60 s")));
    }
    let result = under_lock(&mut connection, config, name, own_tables).await;
    // The lock goes with the connection.
    let _ = connection.close().await;
    result
}

async fn under_lock(
    connection: &mut MySqlConnection,
    config: &Config,
    name: &str,
    own_tables: &[String],
) -> Result<(), Problem> {
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
    for table in own_tables {
        let statement = format!("CREATE TABLE IF NOT EXISTS {table} LIKE {}", shard::table(0));
        connection.execute(sqlx::AssertSqlSafe(statement)).await?;
    }
    register(connection, config, name).await
}

/// Names this process's connections and refuses to start above the budget.
async fn register(connection: &mut MySqlConnection, config: &Config, name: &str) -> Result<(), Problem> {
    let (max, others) = connections(connection, name).await?;
    let (own, allowed) = (u64::from(config.connections()), contract::allowed(max));
    if others + own > allowed {
        return Err(Problem::Fatal(anyhow::anyhow!(
            "connection budget: others have {others} registered, this process wants {own}, MySQL's max_connections is {max} and \
             a fifth stays free: {allowed} are allowed; lower LAPWING_WRITE_POOL/LAPWING_READ_POOL or raise max_connections"
        )));
    }
    refresh(connection, config, name).await?;
    Ok(())
}

async fn connections(connection: &mut MySqlConnection, name: &str) -> Result<(u64, u64), sqlx::Error> {
    let max: i64 =
        sqlx::query_scalar("SELECT CAST(@@max_connections AS SIGNED)").fetch_one(&mut *connection).await?;
    let others: i64 = sqlx::query_scalar(
        "SELECT CAST(COALESCE(SUM(connections), 0) AS SIGNED) FROM pool_registry \
         WHERE name <> ? AND seen_at > NOW(3) - INTERVAL 15 SECOND",
    )
    .bind(name.as_bytes())
    .fetch_one(&mut *connection)
    .await?;
    Ok((max.max(0) as u64, others.max(0) as u64))
}

async fn refresh(connection: &mut MySqlConnection, config: &Config, name: &str) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO pool_registry (name, connections, seen_at) VALUES (?, ?, NOW(3)) \
         ON DUPLICATE KEY UPDATE connections = VALUES(connections), seen_at = VALUES(seen_at)",
    )
    .bind(name.as_bytes())
    .bind(config.connections())
    .execute(connection)
    .await
    .map(|_| ())
}

/// The budget, live: over it this process is not ready, its work goes on.
pub(crate) async fn watch_budget(
    connection: &mut MySqlConnection,
    config: &Config,
    name: &str,
) -> Result<Result<(), String>, sqlx::Error> {
    refresh(connection, config, name).await?;
    let (max, others) = connections(connection, name).await?;
    let (all, allowed) = (others + u64::from(config.connections()), contract::allowed(max));
    Ok(if all <= allowed {
        Ok(())
    } else {
        Err(format!("{all} connections are registered, {allowed} of MySQL's {max} are allowed"))
    })
}

pub(crate) async fn unregister(connection: &mut MySqlConnection, name: &str) -> Result<(), sqlx::Error> {
    for table in ["pool_registry", "persisters", "placement_seen"] {
        let statement = sqlx::AssertSqlSafe(format!("DELETE FROM {table} WHERE name = ?"));
        sqlx::query(statement).bind(name.as_bytes()).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn mismatches(db: &Db, own_tables: &[String]) -> Result<Vec<String>, sqlx::Error> {
    let mut borrowed = Borrowed::from(&db.write, "write").await?;
    let connection = borrowed.get()?;
    let mode: String =
        sqlx::query_scalar("SELECT CAST(@@SESSION.sql_mode AS CHAR)").fetch_one(&mut *connection).await?;
    let columns: Vec<(String, String, String, String)> = sqlx::query_as(
        "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR), CAST(column_type AS CHAR), CAST(is_nullable AS CHAR) \
         FROM information_schema.columns WHERE table_schema = DATABASE()",
    )
    .fetch_all(&mut *connection)
    .await?;
    let key_columns: Vec<(String, String)> = sqlx::query_as(
        "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR) FROM information_schema.statistics \
         WHERE table_schema = DATABASE() AND index_name = 'PRIMARY' ORDER BY table_name, seq_in_index",
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
    let mut keys: Vec<(String, Vec<String>)> = Vec::new();
    for (table, column) in key_columns {
        match keys.last_mut().filter(|(last, _)| *last == table) {
            Some((_, columns)) => columns.push(column),
            None => keys.push((table, vec![column])),
        }
    }
    let wrong = contract::compare(&found, &keys, shard::TABLES, own_tables);
    Ok(wrong
        .into_iter()
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
