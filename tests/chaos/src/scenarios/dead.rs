//! Dead letters under load: what MySQL refuses for good, or nobody can read, costs nobody else anything, and comes back (R-PST-4,
//! R-PST-5, R-ACK-3).

use std::{
    collections::BTreeSet,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::FutureExt;
use lapwing_client::{Client, Options, Update, Updates, proto};
use lapwing_loadtest::drive::Shape;
use lapwing_model::{ConversationKey, kind::group_id};
use lapwing_proto::record::Record;
use lapwing_servers::services;
use sqlx::{AssertSqlSafe, MySqlPool};

use super::Scenario;
use crate::{
    feed::{self, Feed},
    play,
    world::World,
};

pub(super) static SCENARIOS: [Scenario; 2] = [
    Scenario {
        shape: dense,
        ..Scenario::new(
            "dead-letters",
            "poison records and garbage straight in the topics are each one dead letter, and everything else goes on",
            |world| poison_and_garbage(world).boxed(),
        )
    },
    Scenario {
        shape: dense,
        ..Scenario::new(
            "dead-letters-replay",
            "what a seq column of INT refused is told as dead, stays readable, and is in its table once the column is repaired",
            |world| int_column(world).boxed(),
        )
    },
];

const TENANT: &str = "t-dead";
const SENDER: &str = "alice";
/// The first seq that an INT does not hold.
const BIG: u64 = 1 << 31;
const REFUSED: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(40);

/// The faults come at moments of their own: publishes must be in flight at any.
fn dense(quick: bool) -> Shape {
    Shape { pairs: 50, groups: 1, members: 20, rate: 8.0, ..play::usual(quick) }
}

async fn poison_and_garbage(world: &mut World) -> anyhow::Result<()> {
    let (sql, feed) = (MySqlPool::connect(&world.cluster.mariadb().url()).await?, Feed::new(&world.cluster)?);
    world.wait(2.0).await;
    let rounds = world.rounds(3, 1) as u64;
    for _ in 0..rounds {
        world.strike("garbage into all partitions of p2p", feed.garbage("lapwing.p2p", 8)).await?;
        world.wait(2.0).await;
    }
    let settled = until(&sql, "dead_letters WHERE error_code = 0", 8 * rounds).await;
    let garbage = count(&sql, "dead_letters WHERE error_code = 0").await?;
    world.journal.check("dead letters of garbage", garbage, "one each", settled && garbage == 8 * rounds);

    for round in 0..rounds {
        let room = group_id(&format!("poison{round}")).context("a name")?;
        let key = ConversationKey::new(TENANT, room.as_str());
        let mut records = vec![feed::created(&key, 1, &[SENDER])];
        records.extend((2..=6).map(|seq| feed::message(&key, seq, seq - 1, SENDER)));
        for bad in [1, 3] {
            records[bad].device = "d".repeat(100);
        }
        foreign_owner(world, &feed, &key, records).await?;
        world.accepts_again("the poison").await;
    }
    let wanted = 2 * rounds;
    let settled = until(&sql, "tombstones", wanted).await;
    let poison =
        count(&sql, &format!("dead_letters WHERE error_code = 1406 AND tenant = '{TENANT}'")).await?;
    world.journal.check("dead letters of poison", poison, "one each", settled && poison == wanted);
    let told: BTreeSet<String> = feed.dead_places().await?.into_iter().collect();
    let all = (8 * rounds + wanted) as usize;
    world.journal.check(
        "dead letters in their topic",
        told.len(),
        &format!("{all} places"),
        told.len() == all,
    );
    world.check_noticed_soon(0, "dead letter").await;
    let stopped = stopped_partitions(world).await;
    world.journal.check("partitions that stopped", stopped, "0", stopped == 0);
    Ok(())
}

async fn int_column(world: &mut World) -> anyhow::Result<()> {
    let (sql, feed) = (MySqlPool::connect(&world.cluster.mariadb().url()).await?, Feed::new(&world.cluster)?);
    let key = ConversationKey::new(TENANT, group_id("deep").context("a name")?.as_str());
    let api_key = world.cluster.tenant(TENANT).await?;
    let (client, mut updates) = connect(world, &api_key).await?;
    world.wait(2.0).await;
    let table = format!("messages_{:02}", feed::bucket(&key) / 16);
    let alter = |kind: &str| format!("ALTER TABLE {table} MODIFY seq {kind} NOT NULL");
    sqlx::query(AssertSqlSafe(alter("INT"))).execute(&sql).await?;
    world.journal.saw(&format!("{table}.seq is INT"));
    let mut records = vec![feed::created(&key, BIG - 1, &[SENDER])];
    records.extend((0..REFUSED).map(|more| feed::message(&key, BIG + more, more + 1, SENDER)));
    foreign_owner(world, &feed, &key, records).await?;

    let wanted: BTreeSet<u64> = (BIG..BIG + REFUSED).collect();
    let settled = until(&sql, "tombstones", REFUSED).await;
    world.journal.check("dead letters", count(&sql, "dead_letters").await?, "one each", settled);
    world.check_noticed_soon(0, "dead letter").await;
    let (dead, stored) = receipts(&mut updates, &key, &wanted).await;
    world.journal.check("receipts `dead_lettered`", dead.len(), "all", dead == wanted);
    world.journal.check("receipts `persisted` of dead letters", stored.len(), "0", stored.is_empty());
    world.accepts_again("the dead letters").await;
    check_history(world, &client, &key, "before").await;

    // Not repaired yet: it must find that out and leave everything as it is.
    let refused = lapwing(world, &["dead-letters", "replay", "--all", "--after-probe"]).await?;
    let open = count(&sql, "dead_letters WHERE replayed_at IS NULL").await?;
    world.journal.check("a replay before the repair", refused, "1", refused == 1 && open == REFUSED);
    sqlx::query(AssertSqlSafe(alter("BIGINT"))).execute(&sql).await?;
    world.journal.saw(&format!("{table}.seq is BIGINT again"));
    let done = lapwing(world, &["dead-letters", "replay", "--all", "--after-probe"]).await?;
    world.journal.check("exit of lapwing dead-letters replay --all --after-probe", done, "0", done == 0);
    let of_room = format!("{table} WHERE tenant = '{TENANT}' AND conversation = '{}'", key.conversation);
    let rows = count(&sql, &of_room).await?;
    world.journal.check("rows after the replay", rows, "all", rows == REFUSED + 1);
    let left =
        count(&sql, "tombstones").await? + count(&sql, "dead_letters WHERE replayed_at IS NULL").await?;
    world.journal.check("tombstones and dead letters that are left", left, "0", left == 0);
    check_history(world, &client, &key, "after").await;
    client.close().await;
    Ok(())
}

/// Valid records by a claim of our own: while no router runs, nobody else has the partition.
async fn foreign_owner(
    world: &World,
    feed: &Feed,
    key: &ConversationKey,
    records: Vec<Record>,
) -> anyhow::Result<()> {
    let routers = [world.cluster.router(0), world.cluster.router(1)];
    let work = async {
        routers.iter().try_for_each(|router| router.pause())?;
        let fed = feed.as_owner(key, records).await;
        // MySQL has them, and has told so, before there is an owner again.
        world.wait(1.5).await;
        routers.iter().try_for_each(|router| router.resume())?;
        fed
    };
    world.strike("records of a foreign owner while the routers stand still", work).await
}

async fn connect(world: &World, key: &str) -> anyhow::Result<(Client, Updates)> {
    let token = world.cluster.token(key, SENDER).await?;
    let mut options = Options::new(world.cluster.gateway(0).client_url(), token, "phone");
    options.receipts = true;
    options.patience = PATIENCE;
    Ok(Client::connect(options).await?)
}

/// What the sender is told of these seqs: dead letters, and rows.
async fn receipts(
    updates: &mut Updates,
    key: &ConversationKey,
    wanted: &BTreeSet<u64>,
) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut dead, mut stored) = (BTreeSet::new(), BTreeSet::new());
    let hearing = async {
        while let Some(update) = updates.next().await {
            if let Update::Persisted(told) = update
                && told.conversation == *key.conversation
            {
                dead.extend(told.dead_lettered.iter().filter(|seq| wanted.contains(*seq)));
                stored.extend(told.seqs.iter().filter(|seq| wanted.contains(*seq)));
            }
            if dead.len() + stored.len() >= wanted.len() {
                break;
            }
        }
    };
    // What is missing is seen in the check.
    let _all = tokio::time::timeout(PATIENCE, hearing).await;
    (dead, stored)
}

async fn check_history(world: &World, client: &Client, key: &ConversationKey, when: &str) {
    let request = proto::HistoryRequest {
        conversation: key.conversation.to_string(),
        after: Some(BIG - 1),
        limit: 100,
        ..Default::default()
    };
    let right = |event: &proto::Event| {
        let body = Some(proto::content::Body::Text(feed::text(event.seq)));
        matches!(&event.body, Some(proto::event::Body::Message(content)) if content.body == body)
    };
    let page = client.history(request).await;
    let bodies = page.map_or(0, |page| page.events.iter().filter(|event| right(event)).count() as u64);
    world.journal.check(&format!("bodies in history {when} the replay"), bodies, "all", bodies == REFUSED);
}

/// The operators' command as a program; its exit code.
async fn lapwing(world: &World, words: &[&str]) -> anyhow::Result<i32> {
    let mut command = Command::new(services::binary_path("lapwing")?);
    command.args(words).env("LAPWING_STATE", world.cluster.infra().folder().join("state.json"));
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    for text in [&output.stdout, &output.stderr] {
        String::from_utf8_lossy(text).lines().for_each(|line| world.journal.saw(line));
    }
    output.status.code().context("lapwing was killed")
}

async fn stopped_partitions(world: &World) -> u64 {
    let mut stopped = 0;
    for persister in [0, 1] {
        let text = world.cluster.persister(persister).metrics().await.unwrap_or_default();
        let own = text.lines().filter(|line| line.starts_with("lapwing_partitions_stopped"));
        stopped += own.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64;
    }
    stopped
}

async fn count(sql: &MySqlPool, of: &str) -> anyhow::Result<u64> {
    let statement = AssertSqlSafe(format!("SELECT COUNT(*) FROM {of}"));
    let count: i64 = sqlx::query_scalar(statement).fetch_one(sql).await?;
    Ok(count.unsigned_abs())
}

/// False: there were not so many within the patience.
async fn until(sql: &MySqlPool, of: &str, wanted: u64) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if count(sql, of).await.is_ok_and(|count| count == wanted) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    false
}
