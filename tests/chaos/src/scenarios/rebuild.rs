//! A lost Redis filled again with very many conversations, and a range of them moved, each with its owner killed in the middle
//! (R-SEQ-3, R-SEQ-6, R-SEQ-9).

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::FutureExt;
use lapwing_loadtest::drive::Shape;
use lapwing_model::kind::KINDS;
use lapwing_servers::{http, redis::Redis};

use super::Scenario;
use crate::{journal::Claim, population::Population, stack::Stack, world::World};

pub(super) static SCENARIOS: [Scenario; 2] = [
    Scenario {
        stack: Stack { conversations: 20_000, ..Stack::PLAIN },
        shape: steady,
        ..Scenario::new(
            "rebuild",
            "20,000 conversations rebuilt into a lost Redis and half of them moved, owners killed midway: all are as they were",
            |world| rebuild(world).boxed(),
        )
    },
    Scenario {
        stack: Stack { conversations: 1_000_000, ..Stack::PLAIN },
        shape: steady,
        long: true,
        ..Scenario::new(
            "rebuild-million",
            "1,000,000 conversations rebuilt into a lost Redis and half of them moved, owners killed midway: all are as they were",
            |world| rebuild(world).boxed(),
        )
    },
];

/// A light load for as long as it takes.
fn steady(_quick: bool) -> Shape {
    Shape { pairs: 30, groups: 1, members: 10, rate: 2.0, seconds: 1800, ..Shape::default() }
}

/// Pages of rows, not all of them: what a process holds must not depend on the number of conversations.
const ROUTER_MIB: f64 = 400.0;
const PERSISTER_MIB: f64 = 256.0;
/// Redis holds all of it: what one conversation of 2 or 5 members may take there, beside a start.
const REDIS_BYTES_EACH: u64 = 1024;
const REDIS_START: u64 = 64 << 20;
const LIMIT: Duration = Duration::from_secs(900);
/// Half of the buckets, so half of the partitions of each kind.
const RANGE: &str = "128-255";

async fn rebuild(world: &mut World) -> anyhow::Result<()> {
    let many = world.population.take().context("this stack has no population")?;
    world.wait(2.0).await;
    filled_again(world, &many).await?;
    check(world, &many, 0).await;
    moved(world, &many).await?;
    check(world, &many, 1).await;
    for (name, redis) in [("one", world.cluster.redis()), ("two", second(world)?)] {
        let most = number_of(&redis.command(&["INFO", "memory"]).await?, "used_memory_peak");
        let limit = REDIS_START + REDIS_BYTES_EACH * many.conversations;
        let value = format!("{} MiB at most", most >> 20);
        world.journal.check(
            &format!("memory of Redis {name}"),
            value,
            &format!("< {} MiB", limit >> 20),
            most > 0 && most < limit,
        );
    }
    world.journal.claim(Claim::MemoryBelow("r", ROUTER_MIB));
    world.journal.claim(Claim::MemoryBelow("p", PERSISTER_MIB));
    Ok(())
}

async fn filled_again(world: &World, many: &Population) -> anyhow::Result<()> {
    let (redis, before) = (world.cluster.redis(), rows_filled(world).await);
    let begin = Instant::now();
    world.strike("FLUSHALL", redis.command(&["FLUSHALL"])).await?;
    // Once for what conversations are, once for what users have.
    kill_midway(world, 0, before + many.conversations * 6 / 10).await?;
    let whole = async {
        while !has_every_position(redis).await? {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        anyhow::Ok(())
    };
    let done = tokio::time::timeout(LIMIT, whole).await;
    let value = format!("{:.1} s, {} keys", begin.elapsed().as_secs_f64(), redis.command(&["DBSIZE"]).await?);
    let name = format!("{} conversations are in Redis again", many.conversations);
    world.journal.check(&name, value, "within 900 s", matches!(done, Ok(Ok(()))));
    world.accepts_again("the rebuild").await;
    Ok(())
}

async fn moved(world: &World, many: &Population) -> anyhow::Result<()> {
    let (begin, before) = (Instant::now(), rows_filled(world).await);
    ask_to_move(world).await;
    kill_midway(world, 1, before + many.conversations * 2 / 10).await?;
    let all = KINDS.len() * 4;
    let mut there = 0;
    while there < all && begin.elapsed() < LIMIT {
        // An owner that died left its part where it was: whoever has it now is asked again.
        ask_to_move(world).await;
        world.wait(1.0).await;
        there = on_second(world).await;
    }
    let value = format!("{there} of {all} partitions after {:.1} s", begin.elapsed().as_secs_f64());
    world.journal.check("partitions that were moved", value, "all within 900 s", there == all);
    world.accepts_again("the move").await;
    Ok(())
}

/// Kills this router once so many rows were filled in, or the filling is over.
async fn kill_midway(world: &World, router: usize, rows: u64) -> anyhow::Result<()> {
    let (begin, mut last) = (Instant::now(), (0, Instant::now()));
    while begin.elapsed() < LIMIT && last.1.elapsed() < Duration::from_secs(20) {
        let now = rows_filled(world).await;
        if now >= rows {
            break;
        }
        if now != last.0 {
            last = (now, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let there = rows_filled(world).await;
    world.journal.check("rows filled in at the kill", there, &format!("≥ {rows}"), there >= rows);
    let victim = world.cluster.router(router);
    let at = world.kill(victim).await?;
    world.check_take_over(&[1 - router], at).await;
    world.start(victim).await?;
    // Its new number, for whoever samples memory.
    world.cluster.state().save(&world.cluster.infra().folder().join("state.json"))
}

async fn check(world: &World, many: &Population, round: u64) {
    let wrong = many.check(&world.cluster, round).await;
    wrong.iter().take(5).for_each(|what| world.journal.saw(what));
    let value = format!("{} wrong", wrong.len());
    world.journal.check(
        "a sample of users: list, history, next seq, strangers",
        value,
        "none",
        wrong.is_empty(),
    );
}

/// By all routers that live, since they started.
async fn rows_filled(world: &World) -> u64 {
    let mut rows = 0;
    for router in [0, 1] {
        let text = world.cluster.router(router).metrics().await.unwrap_or_default();
        let own = text.lines().filter(|line| line.starts_with("lapwing_rebuilt_rows_total"));
        rows += own.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64;
    }
    rows
}

/// A view that lost everything has a position again only once it is whole.
async fn has_every_position(redis: &Redis) -> anyhow::Result<bool> {
    let mut words = vec!["EXISTS".to_owned()];
    for kind in KINDS {
        let pieces = |partition: u32| {
            ["0-255", "u0-63"].map(|of| format!("applied:{}:{partition}:{of}", kind.topic()))
        };
        words.extend((0..8).flat_map(pieces));
    }
    let wanted = words.len() - 1;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(redis.command(&words).await?.trim_start_matches(':') == wanted.to_string())
}

async fn ask_to_move(world: &World) {
    let path = format!("/admin/move-range?view=redis&buckets={RANGE}&to=two");
    for router in [0, 1] {
        let address = world.cluster.router(router).admin_address();
        let asked = http::request(&address, "POST", &path, Some(world.cluster.operator_key()), None);
        // One that is down has no partitions soon.
        let _asked_again = tokio::time::timeout(Duration::from_secs(5), asked).await;
    }
}

async fn on_second(world: &World) -> usize {
    let mut there = 0;
    for router in [0, 1] {
        let rows = world.partitions(world.cluster.router(router)).await.unwrap_or_default();
        let here = rows.iter().filter(|row| row["redis"] == "two" && row["state"] == "serving");
        there += here.count();
    }
    there
}

fn second(world: &World) -> anyhow::Result<&Redis> {
    world.second.as_ref().context("this stack has one Redis")
}

fn number_of(info: &str, name: &str) -> u64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
