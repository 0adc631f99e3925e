//! Routers killed and woken: the claim in the log decides, and recovery is replay (R-SEQ-6, R-SEQ-10).

use std::time::Instant;

use futures::FutureExt;
use lapwing_runtime::fail_point;

use super::Scenario;
use crate::world::World;

pub(super) static SCENARIOS: [Scenario; 4] = [
    Scenario::new(
        "router-fail-points",
        "a router that dies between any two stages loses, doubles and reorders nothing",
        |world| fail_points(world).boxed(),
    ),
    Scenario::new(
        "router-kill",
        "after kill -9 of a router every partition has an owner within the lease time and a second",
        |world| kill(world).boxed(),
    ),
    Scenario::new(
        "router-kill-all",
        "all routers killed -9 at once and started again lose nothing, and no publish is answered falsely",
        |world| kill_all(world).boxed(),
    ),
    Scenario::new(
        "router-zombie",
        "a router that was stopped past its lease with produces in flight answers for nothing when it wakes",
        |world| zombie(world).boxed(),
    ),
];

/// Each place in turn, while the load goes on: the first router is started with it and dies there by itself.
async fn fail_points(world: &mut World) -> anyhow::Result<()> {
    let on_its_way =
        |place: &&fail_point::Place| place.service == "router" && !place.name.starts_with("told.");
    let all = fail_point::PLACES.iter().filter(on_its_way);
    // A short run takes the two that the field's reports are about.
    let places =
        all.filter(|place| !world.quick || ["produce.before", "produce.after"].contains(&place.name));
    for place in places {
        let router = world.cluster.router(0);
        if let Some(at) = world.ended_at(router, place, &[90, 127, 164, 201]).await? {
            world.check_take_over(&[1], at).await;
        }
        world.start(router).await?;
        world.accepts_again(place.name).await;
    }
    Ok(())
}

async fn kill(world: &mut World) -> anyhow::Result<()> {
    for round in 0..world.rounds(4, 1) {
        let (victim, survivor) = (round % 2, 1 - round % 2);
        world.wait(2.0).await;
        let killed_at = world.kill(world.cluster.router(victim)).await?;
        world.check_take_over(&[survivor], killed_at).await;
        world.wait(1.0).await;
        world.start(world.cluster.router(victim)).await?;
        world.check_owns(victim).await;
    }
    Ok(())
}

async fn zombie(world: &mut World) -> anyhow::Result<()> {
    for _ in 0..world.rounds(3, 1) {
        world.wait(2.0).await;
        let router = world.cluster.router(0);
        let stepped_down = world.journal.messages("steps down");
        let at = world
            .strike("SIGSTOP r1", async {
                router.pause()?;
                Ok(Instant::now())
            })
            .await?;
        world.check_take_over(&[1], at).await;
        world.wait(2.0).await;
        world.strike("SIGCONT r1, whose partitions have another owner", async { router.resume() }).await?;
        world.wait(5.0).await;
        world.check_noticed(stepped_down, "steps down");
        world.accepts_again("the zombie woke").await;
    }
    Ok(())
}

async fn kill_all(world: &mut World) -> anyhow::Result<()> {
    for round in 0..world.rounds(3, 1) {
        world.wait(2.0).await;
        let (first, second) = (world.cluster.router(0), world.cluster.router(1));
        world
            .strike("kill -9 all routers", async {
                tokio::join!(first.kill9(), second.kill9());
                Ok(())
            })
            .await?;
        world.wait(2.0 * round as f64).await;
        world.start(first).await?;
        world.start(second).await?;
        world.accepts_again("all routers were killed").await;
    }
    Ok(())
}
