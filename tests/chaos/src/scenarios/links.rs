//! Connections cut and standing still while both ends live: requests that were carried out and whose answers are lost.

use std::time::Instant;

use anyhow::Context;
use futures::FutureExt;
use lapwing_servers::proxy::Proxy;

use super::Scenario;
use crate::{stack::Stack, world::World};

const LINKED: Stack = Stack { linked: true, ..Stack::PLAIN };

pub(super) static SCENARIOS: [Scenario; 5] = [
    Scenario {
        stack: LINKED,
        ..Scenario::new(
            "cut-kafka",
            "produces whose answers are lost with their connection are neither doubled nor lost",
            |world| cut(world, "Kafka").boxed(),
        )
    },
    Scenario {
        stack: LINKED,
        ..Scenario::new(
            "cut-mysql",
            "commits whose answers are lost with their connection are found in the offset row, each row once",
            |world| cut(world, "MySQL").boxed(),
        )
    },
    Scenario {
        stack: LINKED,
        ..Scenario::new(
            "cut-redis",
            "scripts whose answers are lost with their connection change nothing twice",
            |world| cut(world, "Redis").boxed(),
        )
    },
    Scenario {
        stack: LINKED,
        ..Scenario::new(
            "cut-nats",
            "requests and deliveries lost with a NATS connection are asked and delivered again, in order",
            |world| cut(world, "NATS").boxed(),
        )
    },
    Scenario {
        stack: LINKED,
        ..Scenario::new(
            "router-cut-off",
            "a router whose NATS link stands still past its lease, Kafka at hand, writes nothing valid and comes back",
            |world| cut_off(world).boxed(),
        )
    },
];

async fn cut(world: &mut World, name: &str) -> anyhow::Result<()> {
    let links = world.links.as_ref().context("this stack has no proxies")?;
    let link = match name {
        "Kafka" => &links.kafka,
        "MySQL" => &links.mysql,
        "Redis" => &links.redis,
        _ => &links.nats,
    };
    let mut fewest = usize::MAX;
    for _ in 0..world.rounds(20, 4) {
        world.wait(1.2).await;
        let cut =
            world.strike(&format!("every connection to {name} is cut"), async { Ok(link.cut()) }).await?;
        fewest = fewest.min(cut);
    }
    world.journal.check("connections at each cut", format!("at least {fewest}"), "≥ 2", fewest >= 2);
    world.accepts_again("the last cut").await;
    world.wait(2.0).await;
    Ok(())
}

/// The first router's NATS by way of a proxy of its own.
async fn cut_off(world: &mut World) -> anyhow::Result<()> {
    let nats = world.cluster.nats();
    let own = Proxy::start(&nats.address()).await?;
    let router = world.cluster.router(0);
    router.stop().await;
    router.set_environment(&[("LAPWING_NATS_URL", &nats.url_at(&own.address()))]);
    world.start(router).await?;
    world.check_owns(0).await;
    for _ in 0..world.rounds(3, 1) {
        world.wait(2.0).await;
        let act = async {
            own.stall(true);
            Ok(Instant::now())
        };
        let at = world.strike("r1's link to NATS stands still", act).await?;
        world.check_take_over(&[1], at).await;
        world.wait(2.0).await;
        own.stall(false);
        world.journal.saw("r1's link goes on");
        world.accepts_again("the link went on").await;
        world.check_owns(0).await;
    }
    Ok(())
}
