//! Gateways killed and stopped: clients go on elsewhere, without a hole and without a double (R-GW-2).

use futures::FutureExt;

use super::Scenario;
use crate::world::World;

pub(super) static SCENARIOS: [Scenario; 2] = [
    Scenario::new(
        "gateway-kill",
        "clients of a gateway that was killed -9 with undelivered fan-out resume elsewhere without a hole",
        |world| kill(world).boxed(),
    ),
    Scenario::new(
        "gateway-pause",
        "a gateway that stood still for 12 s fences itself or goes on, and nobody misses or doubles a message",
        |world| pause(world).boxed(),
    ),
];

async fn kill(world: &mut World) -> anyhow::Result<()> {
    for round in 0..world.rounds(4, 1) {
        world.wait(3.0).await;
        let gateway = world.cluster.gateway(round % 2);
        world.kill(gateway).await?;
        world.accepts_again("a gateway was killed").await;
        world.wait(1.0).await;
        world.start(gateway).await?;
    }
    world.wait(2.0).await;
    Ok(())
}

async fn pause(world: &mut World) -> anyhow::Result<()> {
    for round in 0..world.rounds(2, 1) {
        world.wait(3.0).await;
        let gateway = world.cluster.gateway(round % 2);
        world.strike(&format!("SIGSTOP {}", gateway.node()), async { gateway.pause() }).await?;
        world.wait(world.seconds(12.0, 4.0)).await;
        gateway.resume()?;
        world.journal.saw(&format!("SIGCONT {}", gateway.node()));
        world.accepts_again("the pause").await;
    }
    world.wait(3.0).await;
    Ok(())
}
