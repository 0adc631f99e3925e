//! MySQL: the pools, and connections that cannot come back to them inside an open transaction.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use lapwing_persister_core::{Class, class};
use lapwing_runtime::metrics as names;
use sqlx::{
    ConnectOptions as _, Executor as _, MySql, MySqlConnection, MySqlPool,
    mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlPoolOptions},
    pool::PoolConnection,
};

use crate::config::{CONTROL_POOL, Config};

/// Separate pools: a read storm takes no connection from the writers, and neither takes one from the leases.
#[derive(Clone)]
pub(crate) struct Db {
    pub(crate) write: MySqlPool,
    pub(crate) read: MySqlPool,
    pub(crate) control: MySqlPool,
}

const STRICT: &str =
    "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_TRANS_TABLES,STRICT_ALL_TABLES')";
/// Fewer gap locks, so fewer deadlocks between partitions.
const WRITE: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
/// A transaction whose process was paused or cut off in its middle is rolled back, so that its locks do not stand for hours.
const PATIENCE: &str = "SET SESSION wait_timeout = 30";
const READ: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";
/// The wait for another transaction's lock ends before this process gives the whole request up.
const LOCKS: &str = "SET SESSION innodb_lock_wait_timeout = 5";
/// A lease that waits for a writer's row lock is late for all the others.
const CONTROL: &str = "SET SESSION innodb_lock_wait_timeout = 1";

pub(crate) fn connect_options(config: &Config) -> anyhow::Result<MySqlConnectOptions> {
    let options: MySqlConnectOptions = config.mysql_url.expose().parse().map_err(|error| {
        anyhow::anyhow!("LAPWING_MYSQL_URL={} is no MySQL address: {error}", config.mysql_url)
    })?;
    // A slow statement would be logged with all its placeholders.
    Ok(options.statement_cache_capacity(256).disable_statement_logging())
}

impl Db {
    /// Nothing is connected yet.
    pub(crate) fn lazy(config: &Config) -> anyhow::Result<Self> {
        let options = connect_options(config).context("MySQL")?;
        let pool = |size: u32, setup: &'static [&'static str]| {
            MySqlPoolOptions::new()
                .max_connections(size)
                .acquire_timeout(Duration::from_secs(5))
                .idle_timeout(Duration::from_secs(20))
                .after_connect(move |connection, _| {
                    Box::pin(async move {
                        for statement in setup {
                            connection.execute(*statement).await?;
                        }
                        Ok(())
                    })
                })
                // A cancelled `begin` has handed back connections inside an open transaction.
                .after_release(|connection, _| {
                    Box::pin(async move { connection.execute("ROLLBACK").await.map(|_| true) })
                })
                .connect_lazy_with(options.clone())
        };
        Ok(Self {
            write: pool(config.write_pool, &[STRICT, WRITE, LOCKS, PATIENCE]),
            read: pool(config.read_pool, &[READ]),
            control: pool(CONTROL_POOL, &[STRICT, WRITE, CONTROL, PATIENCE]),
        })
    }

    pub(crate) fn report(&self) {
        for (name, pool) in [("write", &self.write), ("read", &self.read), ("control", &self.control)] {
            let (open, idle) = (pool.size() as usize, pool.num_idle());
            let max = pool.options().get_max_connections();
            metrics::gauge!(names::POOL_MAX, "pool" => name).set(f64::from(max));
            metrics::gauge!(names::POOL_OPEN, "pool" => name).set(open as f64);
            metrics::gauge!(names::POOL_IDLE, "pool" => name).set(idle as f64);
            metrics::gauge!(names::POOL_IN_USE, "pool" => name).set(open.saturating_sub(idle) as f64);
        }
    }
}

/// A borrowed connection that is closed, never handed back, unless its holder says that nothing is open on it. So a future
/// that is dropped in its middle (a time-out, a stop) leaves no transaction behind.
pub(crate) struct Borrowed {
    connection: Option<PoolConnection<MySql>>,
    pool: &'static str,
}

impl Borrowed {
    pub(crate) async fn from(pool: &MySqlPool, name: &'static str) -> Result<Self, sqlx::Error> {
        let since = Instant::now();
        // With a place left a connection is opened: that is no wait for others.
        let waited = pool.num_idle() == 0 && pool.size() >= pool.options().get_max_connections();
        let connection = pool.acquire().await;
        if waited {
            metrics::counter!(names::POOL_WAIT_TOTAL, "pool" => name).increment(1);
            metrics::histogram!(names::POOL_WAIT_SECONDS, "pool" => name)
                .record(since.elapsed().as_secs_f64());
        }
        Ok(Self { connection: Some(connection?), pool: name })
    }

    pub(crate) fn get(&mut self) -> Result<&mut MySqlConnection, sqlx::Error> {
        self.connection.as_deref_mut().ok_or(sqlx::Error::PoolClosed)
    }

    /// Nothing is open on it: it may be used again.
    pub(crate) fn give_back(mut self) {
        drop(self.connection.take());
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            metrics::counter!(names::POOL_CLOSED_TOTAL, "pool" => self.pool).increment(1);
            drop(connection.detach());
        }
    }
}

/// MySQL's own number, 0 when the error is not the server's.
pub(crate) fn number(error: &sqlx::Error) -> u16 {
    error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>())
        .map_or(0, MySqlDatabaseError::number)
}

pub(crate) fn class(error: &sqlx::Error) -> Class {
    match number(error) {
        0 => Class::Transient,
        number => class::of_number(number),
    }
}

/// Whether the connection on which the server said this may be used again: one to a server that has become read-only, is
/// stopping or has killed it may not.
pub(crate) fn leaves_connection(error: &sqlx::Error) -> bool {
    matches!(number(error), 1205 | 1213) || class(error) != Class::Transient
}

/// Bounds a database request. A time-out drops the future together with its `Borrowed` connection, which closes it.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => {
            let text = format!("{what}: no answer from MySQL within {} ms", limit.as_millis());
            Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use lapwing_servers::{Infra, InfraOptions};

    use super::*;

    // pitfalls: a cancelled `begin` handed back a connection inside an open transaction; an acknowledged row was lost.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_dropped_request_leaves_no_transaction_in_the_pool() {
        let infra = Infra::prepare(InfraOptions::default()).await.unwrap();
        infra.mariadb().start().await.unwrap();
        let url = infra.mariadb().url();
        let config = Config::parse_from(["p", "--node", "p1", "--mysql-url", &url, "--write-pool", "1"]);
        let pool = Db::lazy(&config).unwrap().write;
        pool.execute("CREATE TABLE x (a INT NOT NULL PRIMARY KEY)").await.unwrap();
        for cut in 0..40u64 {
            let half_done = async {
                let mut borrowed = Borrowed::from(&pool, "write").await?;
                let connection = borrowed.get()?;
                connection.execute("START TRANSACTION").await?;
                connection.execute("INSERT INTO x VALUES (0)").await?;
                connection.execute("SELECT SLEEP(1)").await?;
                borrowed.give_back();
                Ok(())
            };
            let result = within(Duration::from_micros(cut * 100), "half done", half_done).await;
            assert!(result.is_err_and(|error| class(&error) == Class::Transient));
            let insert = sqlx::AssertSqlSafe(format!("INSERT INTO x VALUES ({})", cut + 1));
            pool.execute(insert).await.unwrap();
        }
        drop(pool);
        let fresh = MySqlPool::connect(&url).await.unwrap();
        let rows: Vec<i32> =
            sqlx::query_scalar("SELECT a FROM x ORDER BY a").fetch_all(&fresh).await.unwrap();
        assert_eq!(rows, (1..=40).collect::<Vec<_>>(), "every acknowledged row, and none of the half done");
    }

    fn value(text: &str, metric: &str) -> f64 {
        let line = text.lines().find(|line| line.starts_with(&format!("{metric}{{pool=\"write\"")));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }

    // R-OBS-3: one place for each figure, and none moves without its cause.
    #[tokio::test]
    async fn a_wait_for_a_connection_is_counted_with_its_seconds() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let seen = recorder.handle();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let infra = Infra::prepare(InfraOptions::default()).await.unwrap();
        infra.mariadb().start().await.unwrap();
        let url = infra.mariadb().url();
        let config = Config::parse_from(["p", "--node", "p1", "--mysql-url", &url, "--write-pool", "1"]);
        let db = Db::lazy(&config).unwrap();
        let gauges = || {
            db.report();
            let text = seen.render();
            ["max", "open", "in_use", "idle"].map(|of| value(&text, &format!("lapwing_pool_{of}")) as u32)
        };
        assert_eq!(gauges(), [1, 0, 0, 0]);
        let held = Borrowed::from(&db.write, "write").await.unwrap();
        assert_eq!(gauges(), [1, 1, 1, 0]);
        assert_eq!(value(&seen.render(), names::POOL_WAIT_TOTAL), 0.0, "it was opened, not waited for");
        let giving = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            held.give_back();
        };
        let (waited, ()) = tokio::join!(Borrowed::from(&db.write, "write"), giving);
        let text = seen.render();
        assert_eq!(value(&text, names::POOL_WAIT_TOTAL), 1.0);
        let seconds = value(&text, &format!("{}_sum", names::POOL_WAIT_SECONDS));
        assert!((0.3..2.0).contains(&seconds), "{seconds} s\n{text}");
        assert_eq!(value(&text, names::POOL_CLOSED_TOTAL), 0.0);
        drop(waited.unwrap());
        assert_eq!(value(&seen.render(), names::POOL_CLOSED_TOTAL), 1.0, "not given back, so closed");
        Borrowed::from(&db.write, "write").await.unwrap().give_back();
        while db.write.num_idle() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(gauges(), [1, 1, 0, 1]);
    }
}
