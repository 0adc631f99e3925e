//! What an owner left untold is told by the next, or by the one after it (R-ACK-3).

use anyhow::Context;
use futures::FutureExt;
use lapwing_loadtest::drive::Shape;
use lapwing_runtime::fail_point;

use super::Scenario;
use crate::{play, world::World};

pub(super) static SCENARIOS: [Scenario; 1] = [Scenario {
    shape: dense,
    ..Scenario::new(
        "router-killed-telling",
        "an owner killed while it tells the receipts that the one before left untold leaves them to a third, none is lost",
        |world| killed_telling(world).boxed(),
    )
}];

/// The kill comes by itself at no chosen moment: publishes must be in flight at any.
fn dense(quick: bool) -> Shape {
    Shape { pairs: 60, groups: 1, members: 10, rate: 14.0, ..play::usual(quick) }
}

/// At which passage. Each conversation passes the first place once, each partition the second.
const PLACES: [(&str, [u64; 6]); 2] =
    [("told.middle", [20, 13, 7, 17, 11, 5]), ("told.after", [4, 3, 2, 4, 3, 2])];

async fn killed_telling(world: &mut World) -> anyhow::Result<()> {
    for (name, counts) in PLACES {
        let place = fail_point::PLACES.iter().find(|place| place.name == name).context(name)?;
        for round in 0..world.rounds(2, 1) {
            second_and_third(world, place, &counts, round % 2).await?;
        }
    }
    Ok(())
}

async fn second_and_third(
    world: &World,
    place: &fail_point::Place,
    counts: &[u64],
    second: usize,
) -> anyhow::Result<()> {
    let (cluster, third) = (&world.cluster, 1 - second);
    world.wait(2.0).await;
    let persisters = [cluster.persister(0), cluster.persister(1)];
    persisters.iter().try_for_each(|persister| persister.pause())?;
    world.journal.saw("the persisters stand still");
    // Applied to the views, so that no owner reads it again for them.
    world.wait(2.0).await;
    world
        .strike("kill -9 all routers, which have told nothing for two seconds", async {
            tokio::join!(cluster.router(0).kill9(), cluster.router(1).kill9());
            Ok(())
        })
        .await?;
    persisters.iter().try_for_each(|persister| persister.resume())?;
    world.wait(1.0).await;
    let told = catch_ups(world, cluster.router(third).node());
    world.ended_at(cluster.router(second), place, counts).await?;
    world.start(cluster.router(third)).await?;
    world.accepts_again(place.name).await;
    // Its catch-up begins when it has heard the gateways.
    world.wait(3.0).await;
    let told = catch_ups(world, cluster.router(third).node()) - told;
    world.journal.check("partitions that the third owner told the rest of", told, "≥ 1", told > 0);
    world.start(cluster.router(second)).await?;
    world.check_owns(second).await;
    Ok(())
}

fn catch_ups(world: &World, node: &str) -> usize {
    let lines = world.lines.lock();
    lines
        .iter()
        .filter(|line| line.node == node && line.message.starts_with("told what was left untold"))
        .count()
}
