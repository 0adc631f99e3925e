//! MySQL: the pools, and connections that cannot come back to them inside an open transaction.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use lapwing_persister_core::{Class, class, placement::AUTHORITY};
use lapwing_runtime::{SecretUrl, metrics as names};
use sqlx::{
    ConnectOptions as _, Executor as _, MySql, MySqlConnection, MySqlPool,
    mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlPoolOptions},
    pool::PoolConnection,
};

use crate::config::{CONTROL_POOL, Config, ONE};

/// One instance. Separate pools: a read storm takes no connection from the writers, and neither takes one from the leases.
#[derive(Clone)]
pub(crate) struct Db {
    pub(crate) name: Arc<str>,
    pub(crate) url: SecretUrl,
    /// Its number, in the order of the configuration; the first is the authority.
    pub(crate) instance: usize,
    prepared: Arc<AtomicBool>,
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

pub(crate) fn connect_options(url: &SecretUrl) -> anyhow::Result<MySqlConnectOptions> {
    let options: MySqlConnectOptions = url
        .expose()
        .parse()
        .map_err(|error| anyhow::anyhow!("LAPWING_MYSQL_URL={url} is no MySQL address: {error}"))?;
    // A slow statement would be logged with all its placeholders.
    Ok(options.statement_cache_capacity(256).disable_statement_logging())
}

impl Db {
    /// Every instance of the configuration; nothing is connected yet.
    pub(crate) fn all(config: &Config) -> anyhow::Result<Vec<Self>> {
        let named = config.mysql_url.named(ONE);
        let mut all = Vec::new();
        for (instance, (name, url)) in named.into_iter().enumerate() {
            all.push(Self::lazy(config, instance, &name, url)?);
        }
        anyhow::ensure!(!all.is_empty(), "LAPWING_MYSQL_URL is empty");
        Ok(all)
    }

    fn lazy(config: &Config, instance: usize, name: &str, url: SecretUrl) -> anyhow::Result<Self> {
        let options = connect_options(&url).context("MySQL")?;
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
            name: name.into(),
            prepared: Arc::default(),
            url,
            instance,
        })
    }

    /// Its schema has been found to be as it must be.
    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Acquire)
    }

    pub(crate) fn prepared(&self) {
        self.prepared.store(true, Ordering::Release);
    }

    /// The name of a health check of this instance; those of the authority are without its name.
    pub(crate) fn check(&self, what: &str) -> String {
        if self.instance == AUTHORITY { what.to_owned() } else { format!("{what} {}", self.name) }
    }

    pub(crate) fn report(&self) {
        let of = || self.name.to_string();
        for (name, pool) in [("write", &self.write), ("read", &self.read), ("control", &self.control)] {
            let (open, idle) = (pool.size() as usize, pool.num_idle());
            let max = pool.options().get_max_connections();
            metrics::gauge!(names::POOL_MAX, "pool" => name, "instance" => of()).set(f64::from(max));
            metrics::gauge!(names::POOL_OPEN, "pool" => name, "instance" => of()).set(open as f64);
            metrics::gauge!(names::POOL_IDLE, "pool" => name, "instance" => of()).set(idle as f64);
            metrics::gauge!(names::POOL_IN_USE, "pool" => name, "instance" => of())
                .set(open.saturating_sub(idle) as f64);
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
        let waited = pool.num_idle() == 0;
        let connection = pool.acquire().await;
        if waited {
            metrics::counter!(names::POOL_WAIT_TOTAL, "pool" => name).increment(1);
        }
        metrics::histogram!(names::POOL_WAIT_SECONDS, "pool" => name).record(since.elapsed().as_secs_f64());
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
        let pool = Db::all(&config).unwrap().remove(0).write;
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
}
