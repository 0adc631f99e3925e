//! Rows a second out of a full topic into one MySQL server by one persister, against a plain loop of multi-row inserts into the
//! same server and the same table definition. In turns, the median of the rounds.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lapwing_servers::{Cluster, Options};
use sqlx::{AssertSqlSafe, MySqlPool, mysql::MySqlPoolOptions};

use crate::{
    machine,
    report::Report,
    sample::{median, thousands},
};

mod log;
mod plain;
mod storm;

use log::Log;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rows of a round
    #[arg(long, default_value_t = 100_000)]
    rows: usize,
    #[arg(long, default_value_t = 300)]
    body: usize,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Conversations that take turns in 500 rows of a partition
    #[arg(long, value_delimiter = ',', default_value = "500,20")]
    conversations: Vec<usize>,
    /// Only this: rows that the tables have before a round, for instance 1000000,5000000,10000000; one round each
    #[arg(long, value_delimiter = ',')]
    grow: Vec<usize>,
    /// No history storm
    #[arg(long)]
    no_storm: bool,
}

pub(crate) const TABLES: u32 = 16;
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(5);

struct Round {
    a_second: f64,
    /// Microseconds of CPU a row: MariaDB, and who fed it.
    mariadb: f64,
    feeder: f64,
}

pub(crate) struct Bench {
    cluster: Cluster,
    pub(crate) sql: MySqlPool,
    log: Log,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Report> {
    let command = format!("persist --rows {} --rounds {}", arguments.rows, arguments.rounds);
    let heading = "Persist: rows out of a full topic into MySQL";
    let mut report = Report::begin("persist", heading, command);
    report.note(
        "One persister (profile bench: its pace limiter off) against 16 connections, one a table, each with 200 rows a statement and a \
         transaction a statement. A persister's round is timed from its first to its last stored position, without its start.",
    );
    for (index, conversations) in arguments.conversations.iter().enumerate() {
        let storm = index == 0 && !arguments.no_storm;
        shape(&mut report, &arguments, *conversations, storm).await?;
    }
    Ok(report.end())
}

async fn shape(report: &mut Report, arguments: &Arguments, conversations: usize, storm: bool) -> Result<()> {
    let mut bench = Bench::start(arguments, conversations).await?;
    if !arguments.grow.is_empty() {
        return grown(report, arguments, &bench, conversations).await;
    }
    let (mut product, mut plain) = (Vec::new(), Vec::new());
    // One more in front, thrown away.
    for number in 0..=arguments.rounds {
        bench.empty().await?;
        let one = bench.product().await?;
        let other = bench.plain().await?;
        if number > 0 {
            product.push(one);
            plain.push(other);
        }
    }
    let row = |what: &str, rounds: &[Round]| {
        let speed = || rounds.iter().map(|round| round.a_second);
        vec![
            what.to_owned(),
            thousands(median(speed())),
            format!(
                "{}–{}",
                thousands(speed().fold(f64::MAX, f64::min)),
                thousands(speed().fold(0.0, f64::max))
            ),
            format!("{:.1} µs", median(rounds.iter().map(|round| round.mariadb))),
            format!("{:.1} µs", median(rounds.iter().map(|round| round.feeder))),
        ]
    };
    let head =
        ["way", "rows a second (median)", "lowest–highest round", "CPU of MariaDB a row", "of who feeds it"];
    let named = |way: &str| format!("{way}, {conversations} conversations in 500 rows");
    report.table(&head, vec![row(&named("persister"), &product), row(&named("plain inserts"), &plain)]);
    let ratio = median(product.iter().zip(&plain).map(|(one, other)| one.a_second / other.a_second));
    report.goal(
        format!("≥ 60 % of the plain loop, {conversations} conversations in 500 rows"),
        format!("{:.0} %", ratio * 100.0),
        ratio >= 0.6,
    );
    if storm {
        let most = median(product.iter().map(|round| round.a_second));
        storm::play(report, &mut bench, most / 2.0).await?;
    }
    Ok(())
}

/// How both change with the size of the tables.
async fn grown(
    report: &mut Report,
    arguments: &Arguments,
    bench: &Bench,
    conversations: usize,
) -> Result<()> {
    let mut rows = Vec::new();
    bench.empty().await?;
    for size in &arguments.grow {
        plain::grow(bench, *size).await?;
        bench.forget_position().await?;
        let (one, other) = (bench.product().await?, bench.plain().await?);
        bench.remove().await?;
        rows.push(vec![
            thousands(*size as f64),
            thousands(one.a_second),
            thousands(other.a_second),
            format!("{:.0} %", one.a_second / other.a_second * 100.0),
        ]);
    }
    report.note(format!("{conversations} conversations in 500 rows; both ways' tables as large:"));
    report.table(&["rows before", "persister, rows a second", "plain inserts", "ratio"], rows);
    Ok(())
}

impl Bench {
    async fn start(arguments: &Arguments, conversations: usize) -> Result<Self> {
        let profile = "bench".to_owned();
        let options = Options { gateways: 0, routers: 0, persisters: 1, profile, ..Options::default() };
        let cluster = Cluster::start(options).await.context("servers")?;
        cluster.persister(0).stop().await;
        let sql = MySqlPoolOptions::new()
            .max_connections(TABLES + 2)
            .connect(&cluster.mariadb().url())
            .await
            .context("MariaDB")?;
        let mut log = Log::begin(&cluster.kafka().brokers(), conversations, arguments.body).await?;
        log.fill(arguments.rows).await?;
        let bench = Self { cluster, sql, log };
        for table in 0..TABLES {
            bench.execute(format!("CREATE TABLE plain_{table:02} LIKE messages_{table:02}")).await?;
        }
        Ok(bench)
    }

    async fn execute(&self, statement: String) -> Result<()> {
        sqlx::query(AssertSqlSafe(statement.clone())).execute(&self.sql).await.context(statement)?;
        Ok(())
    }

    async fn number(&self, statement: String) -> Result<u64> {
        let found: i64 = sqlx::query_scalar(AssertSqlSafe(statement.clone()))
            .fetch_one(&self.sql)
            .await
            .context(statement)?;
        Ok(found.max(0) as u64)
    }

    async fn empty(&self) -> Result<()> {
        for table in 0..TABLES {
            self.execute(format!("TRUNCATE messages_{table:02}")).await?;
            self.execute(format!("TRUNCATE plain_{table:02}")).await?;
        }
        self.forget_position().await
    }

    /// The log is read from its start again.
    async fn forget_position(&self) -> Result<()> {
        for table in
            ["conversations", "members", "cursors", "partition_offsets", "partition_times", "persisters"]
        {
            self.execute(format!("TRUNCATE {table}")).await?;
        }
        Ok(())
    }

    /// The rows of a round, from both ways' tables.
    async fn remove(&self) -> Result<()> {
        for table in 0..TABLES {
            for kind in ["messages", "plain"] {
                let tenant = log::TENANT;
                self.execute(format!("DELETE FROM {kind}_{table:02} WHERE tenant = '{tenant}'")).await?;
            }
        }
        Ok(())
    }

    async fn position(&self) -> u64 {
        let statement = "SELECT CAST(COALESCE(SUM(next_offset), 0) AS SIGNED) FROM partition_offsets WHERE topic = 'lapwing.p2p'";
        self.number(statement.to_owned()).await.unwrap_or_default()
    }

    async fn product(&self) -> Result<Round> {
        let persister = self.cluster.persister(0);
        persister.spawn()?;
        let mariadb = self.cluster.mariadb().pid().unwrap_or_default();
        let began = Instant::now();
        let mut first = None;
        let end = self.log.end();
        let (start, seen, at) = loop {
            let at = self.position().await;
            ensure!(began.elapsed() < PATIENCE, "the persister stands at {at} of {end}");
            if at > 0 && first.is_none() {
                first = Some((Instant::now(), at, self.cpu(mariadb)));
            }
            match first {
                Some((start, first, cpu)) if at >= end => break (start, (first, cpu), at),
                _ => tokio::time::sleep(LOOK).await,
            }
        };
        let (seconds, (first, before)) = (start.elapsed().as_secs_f64(), seen);
        let after = self.cpu(mariadb);
        persister.stop().await;
        self.whole("messages").await?;
        let rows = (at - first).max(1) as f64;
        Ok(Round {
            a_second: rows / seconds,
            mariadb: (after.0 - before.0) * 1e6 / rows,
            feeder: (after.1 - before.1) * 1e6 / rows,
        })
    }

    /// Of MariaDB and of the persister.
    fn cpu(&self, mariadb: u32) -> (f64, f64) {
        (machine::cpu(mariadb), machine::cpu(self.cluster.persister(0).pid().unwrap_or_default()))
    }

    async fn plain(&self) -> Result<Round> {
        let (mariadb, own) = (self.cluster.mariadb().pid().unwrap_or_default(), std::process::id());
        let (before, began) = ((machine::cpu(mariadb), machine::cpu(own)), Instant::now());
        plain::insert(&self.sql, &self.log).await?;
        let (seconds, rows) = (began.elapsed().as_secs_f64(), self.log.rows.len() as f64);
        self.whole("plain").await?;
        Ok(Round {
            a_second: rows / seconds,
            mariadb: (machine::cpu(mariadb) - before.0) * 1e6 / rows,
            feeder: (machine::cpu(own) - before.1) * 1e6 / rows,
        })
    }

    /// Each row once: else the round is no result.
    async fn whole(&self, kind: &str) -> Result<()> {
        let mut rows = 0;
        for table in 0..TABLES {
            let tenant = log::TENANT;
            rows += self
                .number(format!("SELECT COUNT(*) FROM {kind}_{table:02} WHERE tenant = '{tenant}'"))
                .await?;
        }
        ensure!(
            rows == self.log.rows.len() as u64,
            "{rows} rows in {kind}, {} in the log",
            self.log.rows.len()
        );
        Ok(())
    }
}
