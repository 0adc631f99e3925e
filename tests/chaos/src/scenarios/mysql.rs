//! What MySQL may answer a writer: no connection, no lock, no writing, or nothing at all (R-PST-2, R-PST-4). Publishing never
//! feels it, and nothing becomes a dead letter.

use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use lapwing_loadtest::drive::Shape;
use sqlx::{AssertSqlSafe, Executor as _, MySqlPool, mysql::MySqlPoolOptions};

use super::Scenario;
use crate::{play, stack::Stack, world::World};

const LINKED: Stack = Stack { linked: true, ..Stack::PLAIN };

pub(super) static SCENARIOS: [Scenario; 5] = [
    Scenario {
        shape: |quick| Shape { refused: true, ..play::usual(quick) },
        ..Scenario::new(
            "mysql-connections",
            "with max_connections=10 set while it runs and every connection killed, rows wait and publishing does not",
            |world| connections(world).boxed(),
        )
    },
    Scenario::new(
        "mysql-read-only",
        "a MySQL that is read-only for 10 s is waited for, and every row follows",
        |world| read_only(world).boxed(),
    ),
    Scenario::new(
        "mysql-lock-waits",
        "writers that wait for a lock until MySQL gives up (1205) try the same batch again",
        |world| lock_waits(world).boxed(),
    ),
    Scenario::new(
        "mysql-deadlocks",
        "a writer that is a deadlock's victim (1213) tries the same batch again",
        |world| deadlocks(world).boxed(),
    ),
    Scenario {
        stack: LINKED,
        ..Scenario::new(
            "mysql-commit-lost",
            "a commit that was carried out and never answered is found in the offset row, and no row is written twice",
            |world| commit_lost(world).boxed(),
        )
    },
];

async fn admin(world: &World) -> anyhow::Result<MySqlPool> {
    let options =
        MySqlPoolOptions::new().min_connections(2).max_connections(2).acquire_timeout(Duration::from_secs(5));
    options.connect(&world.cluster.mariadb().admin_url()).await.context("MariaDB's administrator")
}

/// A global status counter.
async fn status(sql: &MySqlPool, name: &str) -> anyhow::Result<u64> {
    let statement = "SELECT VARIABLE_VALUE FROM information_schema.global_status WHERE VARIABLE_NAME = ?";
    let value: String =
        sqlx::query_scalar(statement).bind(name).fetch_one(sql).await.context(name.to_owned())?;
    Ok(value.parse()?)
}

/// Accepting goes on while rows wait.
async fn check_untouched(world: &World, seconds: f64, what: &str) {
    let accepted = world.load.accepted();
    world.wait(seconds).await;
    let during = world.load.accepted() - accepted;
    world.journal.check(&format!("accepted {what}"), during, "≥ 100", during >= 100);
}

async fn connections(world: &mut World) -> anyhow::Result<()> {
    let sql = admin(world).await?;
    let refused = status(&sql, "Connection_errors_max_connections").await?;
    for _ in 0..world.rounds(2, 1) {
        world.wait(2.0).await;
        let act = async {
            sql.execute("SET GLOBAL max_connections = 10").await?;
            let all: Vec<i64> = sqlx::query_scalar(
                "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE user = 'lapwing'",
            )
            .fetch_all(&sql)
            .await?;
            for id in &all {
                // One that has just gone is no fault.
                let _ = sql.execute(AssertSqlSafe(format!("KILL {id}"))).await;
            }
            Ok(all.len())
        };
        let killed =
            world.strike("max_connections = 10, and every connection of the persisters killed", act).await?;
        world.journal.saw(&format!("{killed} connections killed"));
        check_untouched(world, world.seconds(10.0, 5.0), "with 10 connections").await;
        sql.execute("SET GLOBAL max_connections = 170").await?;
        world.journal.saw("max_connections = 170");
        world.wait(3.0).await;
    }
    let now = status(&sql, "Connection_errors_max_connections").await? - refused;
    world.journal.check("refused by MySQL (1040)", now, "≥ 1", now >= 1);
    Ok(())
}

async fn read_only(world: &mut World) -> anyhow::Result<()> {
    let sql = admin(world).await?;
    let tried = world.journal.messages("MySQL: a write is tried again");
    world.wait(2.0).await;
    let act = async { Ok(sql.execute("SET GLOBAL read_only = 1").await?) };
    world.strike("read_only = 1", act).await?;
    check_untouched(world, world.seconds(10.0, 4.0), "while MySQL was read-only").await;
    sql.execute("SET GLOBAL read_only = 0").await?;
    world.journal.saw("read_only = 0");
    world.check_noticed(tried, "MySQL: a write is tried again");
    world.wait(2.0).await;
    Ok(())
}

async fn lock_waits(world: &mut World) -> anyhow::Result<()> {
    let sql = admin(world).await?;
    let tried = world.journal.messages("MySQL: a write is tried again");
    for _ in 0..world.rounds(3, 1) {
        world.wait(2.0).await;
        let mut holder = sql.begin().await?;
        let act = async {
            let all =
                sqlx::query("SELECT head FROM conversations FOR UPDATE").fetch_all(&mut *holder).await?;
            Ok(all.len())
        };
        let rows = world.strike("another session locks every conversation's row", act).await?;
        world.journal.saw(&format!("{rows} rows are locked"));
        // Longer than a writer waits for a lock.
        check_untouched(world, 7.0, "while the rows were locked").await;
        holder.rollback().await?;
        world.journal.saw("the locks are gone");
        world.wait(2.0).await;
    }
    world.check_noticed(tried, "MySQL: a write is tried again");
    Ok(())
}

/// Locks conversations one by one from the last to the first, while writers go from the first to the last.
async fn backwards(sql: &MySqlPool) -> anyhow::Result<bool> {
    let places: Vec<(Vec<u8>, Vec<u8>)> = sqlx::query_as(
        "SELECT tenant, conversation FROM conversations ORDER BY tenant DESC, conversation DESC",
    )
    .fetch_all(sql)
    .await?;
    let mut session = sql.begin().await?;
    // It has changed more than they have: they are the victims.
    for (tenant, conversation) in &places {
        let locked =
            sqlx::query("UPDATE conversations SET kind = kind + 1 - 1 WHERE tenant = ? AND conversation = ?")
                .bind(&tenant[..])
                .bind(&conversation[..])
                .execute(&mut *session)
                .await;
        if locked.is_err() {
            session.rollback().await?;
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    session.rollback().await?;
    Ok(true)
}

async fn deadlocks(world: &mut World) -> anyhow::Result<()> {
    let sql = admin(world).await?;
    let tried = world.journal.messages("MySQL: a write is tried again");
    let before = status(&sql, "Innodb_deadlocks").await?;
    world.wait(2.0).await;
    for _ in 0..world.rounds(12, 4) {
        let act = async { backwards(&sql).await };
        world.strike("another session locks the conversations' rows from the last to the first", act).await?;
        world.wait(0.5).await;
    }
    let deadlocks = status(&sql, "Innodb_deadlocks").await? - before;
    world.journal.check("deadlocks that MySQL broke", deadlocks, "≥ 1", deadlocks >= 1);
    world.check_noticed(tried, "MySQL: a write is tried again");
    Ok(())
}

async fn commit_lost(world: &mut World) -> anyhow::Result<()> {
    let links = world.links.as_ref().context("this stack has no proxies")?;
    for _ in 0..world.rounds(10, 3) {
        world.wait(1.0).await;
        let act = async {
            links.mysql.lose_answers(b"COMMIT", 2);
            Ok(())
        };
        world.strike("the next two commits are carried out and not answered", act).await?;
        let begin = std::time::Instant::now();
        while links.mysql.to_lose() > 0 && begin.elapsed() < Duration::from_secs(10) {
            world.wait(0.02).await;
        }
        let left = links.mysql.to_lose();
        world.journal.check("commits whose answers were lost", 2 - left, "2", left == 0);
    }
    world.wait(2.0).await;
    Ok(())
}
