//! The persister and its database: rows and offsets stay one, publishing never waits for them (R-ACK-5).

use futures::FutureExt;
use lapwing_loadtest::drive::Shape;
use lapwing_runtime::fail_point;

use super::Scenario;
use crate::{play, world::World};

pub(super) static SCENARIOS: [Scenario; 3] = [
    Scenario::new(
        "persister-kill-loop",
        "persisters killed -9 in a loop write each row once and lose none",
        |world| kill_loop(world).boxed(),
    ),
    Scenario {
        shape: dense,
        ..Scenario::new(
            "persister-fail-points",
            "a persister that dies before its transaction, or before it tells of it, loses and doubles no row",
            |world| fail_points(world).boxed(),
        )
    },
    Scenario::new(
        "mariadb-down",
        "MariaDB stopped for 20 s is not felt by publishing, and all rows follow",
        |world| mariadb_down(world).boxed(),
    ),
];

/// Rows are written a moment after the answers: publishes must be in flight then, too.
fn dense(quick: bool) -> Shape {
    Shape { pairs: 50, groups: 1, members: 20, rate: 8.0, waves: 3, ..play::usual(quick) }
}

async fn kill_loop(world: &mut World) -> anyhow::Result<()> {
    for round in 0..world.rounds(12, 3) {
        world.wait(1.5).await;
        let persister = world.cluster.persister(round % 2);
        world.kill(persister).await?;
        world.wait(0.5).await;
        world.start(persister).await?;
    }
    Ok(())
}

async fn fail_points(world: &mut World) -> anyhow::Result<()> {
    for place in fail_point::PLACES.iter().filter(|place| place.service == "persister") {
        for round in 0..world.rounds(3, 1) {
            let persister = world.cluster.persister(round % 2);
            let first = 10 + 3 * round as u64;
            let counts: Vec<u64> = (0..12).map(|more| first + more).collect();
            world.ended_at(persister, place, &counts).await?;
            world.start(persister).await?;
        }
    }
    Ok(())
}

async fn mariadb_down(world: &mut World) -> anyhow::Result<()> {
    world.wait(2.0).await;
    let mariadb = world.cluster.mariadb();
    world
        .strike("stop MariaDB", async {
            mariadb.stop().await;
            Ok(())
        })
        .await?;
    let accepted = world.load.accepted();
    world.wait(world.seconds(20.0, 4.0)).await;
    let during = world.load.accepted() - accepted;
    world.journal.check("accepted while MariaDB was down", during, "≥ 100", during >= 100);
    mariadb.start().await?;
    world.journal.saw("MariaDB is back");
    world.wait(3.0).await;
    Ok(())
}
