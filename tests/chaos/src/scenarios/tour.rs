//! One fault of every part, one after the other on one stack: what the test command plays.

use anyhow::Context;
use futures::FutureExt;
use lapwing_runtime::fail_point;

use super::Scenario;
use crate::world::World;

pub(super) static SCENARIOS: [Scenario; 1] =
    [Scenario::new("tour", "a short fault of every part in turn, on one stack, costs no message", |world| {
        tour(world).boxed()
    })];

async fn tour(world: &mut World) -> anyhow::Result<()> {
    let cluster = &world.cluster;
    let (behind, whole) = world.views();
    world.strike("SCRIPT FLUSH", cluster.redis().command(&["SCRIPT", "FLUSH"])).await?;
    world.strike("FLUSHALL", cluster.redis().command(&["FLUSHALL"])).await?;
    world.accepts_again("FLUSHALL").await;
    // Before the kill: who is killed while it fills a view never says that it is whole.
    world.check_noticed_soon(behind, "the view is behind").await;
    world.check_whole_again(behind, whole).await;
    let at = world.kill(cluster.router(1)).await?;
    world.check_take_over(&[0], at).await;
    world.start(cluster.router(1)).await?;

    world.kill(cluster.nats()).await?;
    world.start(cluster.nats()).await?;
    world.accepts_again("NATS was killed").await;

    let place = fail_point::PLACES.iter().find(|place| place.name == "produce.after");
    let place = place.context("no such fail point")?;
    if let Some(at) = world.ended_at(cluster.router(0), place, &[40, 90, 140]).await? {
        world.check_take_over(&[1], at).await;
    }
    world.start(cluster.router(0)).await?;

    world.kill(cluster.persister(0)).await?;
    world.kill(cluster.gateway(0)).await?;
    world.start(cluster.persister(0)).await?;
    world.start(cluster.gateway(0)).await?;
    world.kill(cluster.redis()).await?;
    world.start(cluster.redis()).await?;
    world.accepts_again("Redis was killed").await;
    Ok(())
}
