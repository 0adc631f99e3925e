//! Routers killed and woken: the claim in the log decides, and recovery is replay (R-SEQ-6, R-SEQ-10).

use std::time::{Duration, Instant};

use futures::FutureExt;
use lapwing_runtime::fail_point;

use super::Scenario;
use crate::world::World;

pub(super) static SCENARIOS: [Scenario; 3] = [
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
        "router-zombie",
        "a router that was stopped past its lease with produces in flight answers for nothing when it wakes",
        |world| zombie(world).boxed(),
    ),
];

/// Each place in turn, while the load goes on: the first router is started with it and dies there by itself.
async fn fail_points(world: &mut World) -> anyhow::Result<()> {
    let all = fail_point::PLACES.iter().filter(|place| place.service == "router");
    // A short run takes the two that the field's reports are about.
    let places = all.filter(|place| !world.quick || ["produce.before", "produce.after"].contains(&place.name));
    for place in places {
        let mut died = false;
        for attempt in 0..3 {
            if die_at(world, place, attempt).await? {
                died = true;
                break;
            }
        }
        world.journal.check(&format!("died at {}", place.name), died, "with ≥ 20 in flight", died);
    }
    Ok(())
}

/// True: it died there with enough in flight.
async fn die_at(world: &World, place: &fail_point::Place, attempt: u64) -> anyhow::Result<bool> {
    let router = world.cluster.router(0);
    router.stop().await;
    // Past the start's own passages, and in the midst of a burst.
    let point = format!("{}:{}", place.name, 90 + 37 * attempt);
    router.set_environment(&[("LAPWING_FAIL_POINT", &point)]);
    router.spawn()?;
    let ended = router.wait_ended(Duration::from_secs(25)).await;
    let (killed_at, moment) = (Instant::now(), world.load.now());
    router.set_environment(&[]);
    let in_flight = world.load.in_flight_at(moment);
    let enough = ended && in_flight >= crate::journal::MIN_IN_FLIGHT;
    if enough {
        let what = format!("r1 ended itself at {point} ({})", place.between);
        world.journal.injected(&what, &world.load, moment);
        world.check_take_over(&[1], killed_at).await;
    } else {
        world.journal.saw(&format!("r1 at {point}: ended {ended}, {in_flight} in flight; again"));
        router.kill9().await;
    }
    world.start(router).await?;
    world.accepts_again(place.name).await;
    Ok(enough)
}

async fn kill(world: &mut World) -> anyhow::Result<()> {
    for round in 0..world.rounds(4, 1) {
        let (victim, survivor) = (round % 2, 1 - round % 2);
        world.wait(2.0).await;
        let killed_at = world.kill(world.cluster.router(victim)).await?;
        world.check_take_over(&[survivor], killed_at).await;
        world.wait(1.0).await;
        world.start(world.cluster.router(victim)).await?;
        let back = world.all_served(&[0, 1], Instant::now(), Duration::from_secs(20)).await;
        world.journal.check("both own again", back.is_some(), "within 20 s", back.is_some());
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
