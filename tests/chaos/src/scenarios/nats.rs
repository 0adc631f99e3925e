//! NATS carries everything between gateway and router and promises nothing: what matters is asked again (R-FAN-3).

use futures::FutureExt;

use super::Scenario;
use crate::world::World;

pub(super) static SCENARIOS: [Scenario; 2] = [
    Scenario::new(
        "nats-restart",
        "NATS restarted under load loses requests and deliveries, and all of them are made good",
        |world| restart(world).boxed(),
    ),
    Scenario::new(
        "nats-pause",
        "NATS that stands still for 5 s, its connections open, costs time and no message",
        |world| pause(world).boxed(),
    ),
];

async fn restart(world: &mut World) -> anyhow::Result<()> {
    let nats = world.cluster.nats();
    for round in 0..world.rounds(4, 1) {
        world.wait(3.0).await;
        if round % 2 == 0 {
            world.kill(nats).await?;
        } else {
            world
                .strike("SIGTERM NATS", async {
                    nats.stop().await;
                    Ok(())
                })
                .await?;
            world.wait(3.0).await;
        }
        world.start(nats).await?;
        world.accepts_again("the restart").await;
    }
    Ok(())
}

async fn pause(world: &mut World) -> anyhow::Result<()> {
    let nats = world.cluster.nats();
    for _ in 0..world.rounds(3, 1) {
        world.wait(3.0).await;
        world.strike("SIGSTOP NATS", async { nats.pause() }).await?;
        world.wait(world.seconds(5.0, 2.0)).await;
        nats.resume()?;
        world.journal.saw("SIGCONT NATS");
        world.accepts_again("the pause").await;
    }
    Ok(())
}
