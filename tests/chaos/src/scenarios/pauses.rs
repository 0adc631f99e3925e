//! Servers and persisters that stand still with their connections open: nothing is refused, nothing is answered.

use futures::FutureExt;
use lapwing_servers::Managed;

use super::Scenario;
use crate::world::World;

pub(super) static SCENARIOS: [Scenario; 4] = [
    Scenario::new(
        "kafka-pause",
        "a Kafka that stands still for 15 s gets no false answer out of anybody, and everything resumes alone",
        |world| kafka(world).boxed(),
    ),
    Scenario::new(
        "redis-pause",
        "a Redis that stands still for 15 s is waited for by nothing that memory can answer",
        |world| redis(world).boxed(),
    ),
    Scenario::new(
        "mariadb-pause",
        "a MariaDB that stands still for 20 s is not felt by publishing, and each row is written once",
        |world| mariadb(world).boxed(),
    ),
    Scenario::new(
        "persister-zombie",
        "a persister that was stopped past its leases with transactions in hand is fenced when it wakes",
        |world| persister(world).boxed(),
    ),
];

/// Stands still for so long; how many were accepted meanwhile, its first second left out.
async fn stand_still(world: &World, server: &Managed, seconds: f64) -> anyhow::Result<u64> {
    world.wait(2.0).await;
    world.strike(&format!("SIGSTOP {}", server.name()), async { server.pause() }).await?;
    world.wait(1.0).await;
    let accepted = world.load.accepted();
    world.wait(seconds - 1.0).await;
    let during = world.load.accepted() - accepted;
    server.resume()?;
    world.journal.saw(&format!("SIGCONT {}", server.name()));
    world.accepts_again("the pause").await;
    Ok(during)
}

async fn kafka(world: &mut World) -> anyhow::Result<()> {
    let during = stand_still(world, world.cluster.kafka(), world.seconds(15.0, 5.0)).await?;
    world.journal.check("accepted while Kafka stood still", during, "0", during == 0);
    world.wait(3.0).await;
    Ok(())
}

async fn redis(world: &mut World) -> anyhow::Result<()> {
    world.owners_remember().await;
    let during = stand_still(world, world.cluster.redis(), world.seconds(15.0, 5.0)).await?;
    world.journal.check("accepted while Redis stood still", during, "≥ 100", during >= 100);
    world.wait(3.0).await;
    world.check_whole_again(0, 0).await;
    Ok(())
}

async fn mariadb(world: &mut World) -> anyhow::Result<()> {
    let during = stand_still(world, world.cluster.mariadb(), world.seconds(20.0, 5.0)).await?;
    world.journal.check("accepted while MariaDB stood still", during, "≥ 100", during >= 100);
    world.wait(3.0).await;
    Ok(())
}

async fn persister(world: &mut World) -> anyhow::Result<()> {
    for round in 0..world.rounds(4, 1) {
        let persister = world.cluster.persister(round % 2);
        let taken = world.journal.messages("lease taken");
        stand_still(world, persister, 6.0).await?;
        world.check_noticed(taken, "lease taken");
    }
    Ok(())
}
