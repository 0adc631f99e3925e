//! Redis lost, rolled back, slow or down: it is a view with its own position, repaired from the log (R-SEQ-4, R-SEQ-9).

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::FutureExt;
use lapwing_loadtest::drive::Shape;

use super::Scenario;
use crate::{journal::Claim, play, stack::Stack, world::World};

pub(super) static SCENARIOS: [Scenario; 9] = [
    Scenario::new(
        "redis-flushall",
        "a Redis that lost everything is filled again from the log while publishing goes on",
        |world| flushall(world).boxed(),
    ),
    Scenario::new(
        "redis-aof-cut",
        "a Redis that comes back without its last 1.5 s never leads to a reused seq or a lost message",
        |world| aof_cut(world).boxed(),
    ),
    Scenario {
        stack: Stack { replica: true, ..Stack::PLAIN },
        ..Scenario::new(
            "redis-failover",
            "a replica that is promoted without the last 2 s of writes is caught up from the log",
            |world| failover(world).boxed(),
        )
    },
    Scenario::new(
        "redis-down",
        "with Redis down for 20 s messages are accepted and delivered all the same",
        |world| down(world).boxed(),
    ),
    Scenario::new(
        "redis-script-flush",
        "scripts that Redis forgot are loaded again without a publish noticing",
        |world| script_flush(world).boxed(),
    ),
    Scenario {
        shape: even,
        ..Scenario::new(
            "redis-stalls",
            "Redis standing still for 600 ms every 5 s keeps the ACK P99 below 100 ms",
            |world| stalls(world).boxed(),
        )
    },
    Scenario::new(
        "redis-kill-in-script",
        "Redis killed -9 in the midst of applies comes back with half of what was said and is made whole",
        |world| kill_in_script(world).boxed(),
    ),
    Scenario::new(
        "redis-replay-killed",
        "owners killed in the midst of refilling a lost Redis leave nothing that the next one does not finish",
        |world| replay_killed(world).boxed(),
    ),
    Scenario::new(
        "redis-down-and-router-killed",
        "a router killed while Redis is down is taken over from MySQL's position, and the views are made whole",
        |world| down_and_router_killed(world).boxed(),
    ),
];

/// Smaller bursts, so that the latency is the system's and not the burst's own.
fn even(quick: bool) -> Shape {
    Shape { pairs: 20, groups: 1, members: 8, rate: 6.0, ..play::usual(quick) }
}

async fn flushall(world: &mut World) -> anyhow::Result<()> {
    for _ in 0..world.rounds(3, 1) {
        world.wait(2.0).await;
        let (behind, whole) = world.views();
        world.strike("FLUSHALL", world.cluster.redis().command(&["FLUSHALL"])).await?;
        world.wait(3.0).await;
        world.check_noticed(behind, "the view is behind");
        world.check_whole_again(behind, whole).await;
        world.accepts_again("FLUSHALL").await;
    }
    Ok(())
}

async fn aof_cut(world: &mut World) -> anyhow::Result<()> {
    for _ in 0..world.rounds(3, 1) {
        world.wait(2.0).await;
        let redis = world.cluster.redis();
        let file = redis.append_only_file()?;
        let kept = file.metadata()?.len();
        world.wait(1.5).await;
        let (behind, whole) = world.views();
        world.kill(redis).await?;
        let lost = file.metadata()?.len().saturating_sub(kept);
        ensure!(lost > 0, "nothing was written to {} in 1.5 s", file.display());
        std::fs::OpenOptions::new().write(true).open(&file)?.set_len(kept)?;
        world.journal.saw(&format!("the append-only file lost its last {lost} bytes"));
        world.start(redis).await?;
        world.wait(3.0).await;
        world.check_noticed(behind, "the view is behind");
        world.check_whole_again(behind, whole).await;
        world.accepts_again("the cut").await;
    }
    Ok(())
}

/// The link to the replica stands still, then the services are pointed to the replica: what a failover loses.
async fn failover(world: &mut World) -> anyhow::Result<()> {
    let replica = world.replica.as_ref().context("this stack has no replica")?;
    let begin = Instant::now();
    loop {
        let info = replica.redis.command(&["INFO", "replication"]).await?;
        if info.contains("master_link_status:up") {
            break;
        }
        ensure!(begin.elapsed() < Duration::from_secs(20), "the replica is not linked: {info}");
        world.wait(0.1).await;
    }
    world.wait(2.0).await;
    replica.link.stall(true);
    world.journal.saw("the replica's link stands still");
    world.wait(2.0).await;
    let (behind, whole) = world.views();
    world
        .strike("the replica is promoted and takes the primary's place", async {
            replica.redis.command(&["REPLICAOF", "NO", "ONE"]).await?;
            replica.front.switch_to(&replica.redis.address());
            Ok(())
        })
        .await?;
    world.wait(4.0).await;
    world.check_noticed(behind, "the view is behind");
    world.check_whole_again(behind, whole).await;
    world.accepts_again("the failover").await;
    let size = replica.redis.command(&["DBSIZE"]).await?;
    world.journal.check("keys in the promoted replica", &size, "> 0", size != "0");
    Ok(())
}

async fn down(world: &mut World) -> anyhow::Result<()> {
    let redis = world.cluster.redis();
    world.owners_remember().await;
    world
        .strike("stop Redis", async {
            redis.stop().await;
            Ok(())
        })
        .await?;
    let accepted = world.load.accepted();
    world.wait(world.seconds(20.0, 4.0)).await;
    let during = world.load.accepted() - accepted;
    world.journal.check("accepted while Redis was down", during, "≥ 100", during >= 100);
    world.start(redis).await?;
    world.accepts_again("Redis is back").await;
    let (behind, whole) = world.views();
    world.wait(2.0).await;
    world.check_whole_again(behind, whole).await;
    Ok(())
}

async fn script_flush(world: &mut World) -> anyhow::Result<()> {
    for _ in 0..world.rounds(10, 3) {
        world.wait(1.0).await;
        world.strike("SCRIPT FLUSH", world.cluster.redis().command(&["SCRIPT", "FLUSH"])).await?;
    }
    let failing = world.journal.messages("the Redis views do not take batches");
    world.journal.check("batches that Redis did not take", failing, "0", failing == 0);
    world.accepts_again("the last flush").await;
    Ok(())
}

async fn stalls(world: &mut World) -> anyhow::Result<()> {
    let redis = world.cluster.redis();
    world.owners_remember().await;
    for _ in 0..world.rounds(8, 2) {
        world.wait(4.4).await;
        world.strike("SIGSTOP Redis for 600 ms", async { redis.pause() }).await?;
        world.wait(0.6).await;
        redis.resume()?;
    }
    world.wait(2.0).await;
    world.journal.claim(Claim::AckP99Below(100.0));
    Ok(())
}

async fn kill_in_script(world: &mut World) -> anyhow::Result<()> {
    let redis = world.cluster.redis();
    for _ in 0..world.rounds(6, 2) {
        world.wait(1.5).await;
        world.kill(redis).await?;
        world.start(redis).await?;
    }
    world.wait(2.0).await;
    world.check_whole_again(0, 0).await;
    world.accepts_again("the last kill").await;
    Ok(())
}

async fn down_and_router_killed(world: &mut World) -> anyhow::Result<()> {
    let redis = world.cluster.redis();
    world.wait(3.0).await;
    world
        .strike("stop Redis", async {
            redis.stop().await;
            Ok(())
        })
        .await?;
    world.wait(2.0).await;
    let router = world.cluster.router(0);
    let killed_at = world.kill(router).await?;
    world.check_take_over(&[1], killed_at).await;
    world.wait(3.0).await;
    world.start(redis).await?;
    router.spawn()?;
    tokio::time::timeout(Duration::from_secs(60), router.wait_ready()).await.context("r1 is not ready")??;
    world.accepts_again("both are back").await;
    world.wait(2.0).await;
    world.check_whole_again(0, 0).await;
    Ok(())
}

async fn replay_killed(world: &mut World) -> anyhow::Result<()> {
    for round in 0..world.rounds(4, 1) {
        world.wait(3.0).await;
        let (behind, whole) = world.views();
        let victim = world.cluster.router(round % 2);
        world.strike("FLUSHALL", world.cluster.redis().command(&["FLUSHALL"])).await?;
        // The next beat of each second finds it; the replay of a few thousand records takes a fraction of one.
        world.wait(0.3 + 0.3 * round as f64).await;
        let at = world.kill(victim).await?;
        world.check_take_over(&[1 - round % 2], at).await;
        world.start(victim).await?;
        world.accepts_again("the owner was killed").await;
        world.check_noticed(behind, "the view is behind");
        // One that was killed in its replay never says that it is whole.
        world.wait(3.0).await;
        let whole = world.views().1 - whole;
        world.journal.check("views that were made whole", whole, "≥ 1", whole >= 1);
    }
    Ok(())
}
