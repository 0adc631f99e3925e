//! Kafka restarted, moved, down, and short of a broker: no false answer, and all of it resumes alone (R-ACK-2).

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::FutureExt;
use lapwing_servers::{kafka::Brokers, ports};

use super::Scenario;
use crate::{journal::Claim, stack::Stack, world::World};

pub(super) static SCENARIOS: [Scenario; 6] = [
    Scenario::new(
        "kafka-restart",
        "Kafka stopped and started under load costs time and no message",
        |world| restart(world).boxed(),
    ),
    Scenario {
        stack: Stack { named_kafka: true, ..Stack::PLAIN },
        ..Scenario::new(
            "kafka-other-port",
            "Kafka that comes back on another address is found again without a restart of anything",
            |world| other_port(world).boxed(),
        )
    },
    Scenario::new(
        "kafka-down",
        "with Kafka down for 20 s nothing is accepted, sessions stay, and everything resumes alone",
        |world| down(world).boxed(),
    ),
    Scenario {
        stack: Stack { brokers: Brokers::Three, ..Stack::PLAIN },
        ..Scenario::new(
            "kafka-broker-killed",
            "kill -9 of one broker of three, the leader of a partition, loses no accepted message",
            |world| broker_killed(world).boxed(),
        )
    },
    Scenario {
        stack: Stack { brokers: Brokers::Three, ..Stack::PLAIN },
        ..Scenario::new(
            "kafka-two-of-three",
            "with two brokers of three killed nothing is accepted; with one back everything resumes",
            |world| two_of_three(world).boxed(),
        )
    },
    Scenario {
        stack: Stack { small_disk: true, ..Stack::PLAIN },
        ..Scenario::new(
            "kafka-disk-full",
            "with Kafka's disk full nothing is accepted falsely, sessions stay, and with space everything resumes",
            |world| disk_full(world).boxed(),
        )
    },
];

/// An outage of 15 s at 500 publishes a second is small beside what a stuck queue would hold.
const ROUTER_MIB: f64 = 256.0;
const GATEWAY_MIB: f64 = 256.0;
const PERSISTER_MIB: f64 = 256.0;

async fn restart(world: &mut World) -> anyhow::Result<()> {
    for _ in 0..world.rounds(2, 1) {
        world.wait(2.0).await;
        let kafka = world.cluster.kafka();
        world
            .strike("SIGTERM Kafka", async {
                kafka.stop().await;
                Ok(())
            })
            .await?;
        kafka.start().await?;
        world.journal.saw("Kafka is back");
        world.accepts_again("the restart").await;
    }
    if !world.quick {
        let kafka = world.cluster.kafka();
        world.kill(kafka).await?;
        kafka.start().await?;
        world.journal.saw("Kafka is back");
        world.accepts_again("the kill").await;
    }
    Ok(())
}

async fn other_port(world: &mut World) -> anyhow::Result<()> {
    world.wait(2.0).await;
    let before = world.cluster.kafka().address();
    world
        .strike("SIGTERM Kafka", async {
            world.cluster.kafka().stop().await;
            Ok(())
        })
        .await?;
    world.cluster.infra_mut().kafka_mut().move_to(ports::any()?)?;
    let kafka = world.cluster.kafka();
    kafka.start().await?;
    let name = world.kafka.as_ref().context("this stack has no name for Kafka")?;
    name.switch_to(&kafka.address());
    world.journal.saw(&format!("Kafka is back: {before} is {} now", kafka.address()));
    world.accepts_again("the move").await;
    Ok(())
}

async fn down(world: &mut World) -> anyhow::Result<()> {
    world.wait(2.0).await;
    let kafka = world.cluster.kafka();
    world
        .strike("stop Kafka", async {
            kafka.stop().await;
            Ok(())
        })
        .await?;
    world.wait(1.0).await;
    let accepted = world.load.accepted();
    world.wait(world.seconds(20.0, 4.0)).await;
    let during = world.load.accepted() - accepted;
    world.journal.check("accepted while Kafka was down", during, "0", during == 0);
    world.journal.claim(Claim::Connected);
    kafka.start().await?;
    world.journal.saw("Kafka is back");
    world.accepts_again("Kafka is back").await;
    Ok(())
}

async fn broker_killed(world: &mut World) -> anyhow::Result<()> {
    for _ in 0..world.rounds(2, 1) {
        world.wait(3.0).await;
        let kafka = world.cluster.kafka();
        let leader = kafka.leader("lapwing.p2p", 0).await?;
        let broker = kafka.broker(leader);
        let at = world.kill(broker).await?;
        world.accepts_again("a broker was killed").await;
        world.journal.saw(&format!("200 more accepted {:.1} s after the kill", at.elapsed().as_secs_f64()));
        world.wait(3.0).await;
        world.start(broker).await?;
        world.wait(8.0).await;
    }
    world.accepts_again("the broker is back").await;
    Ok(())
}

async fn two_of_three(world: &mut World) -> anyhow::Result<()> {
    world.wait(3.0).await;
    let kafka = world.cluster.kafka();
    world
        .strike("kill -9 two brokers of three", async {
            tokio::join!(kafka.broker(1).kill9(), kafka.broker(2).kill9());
            Ok(())
        })
        .await?;
    world.wait(1.0).await;
    let accepted = world.load.accepted();
    world.wait(8.0).await;
    let during = world.load.accepted() - accepted;
    world.journal.check("accepted with one broker of three", during, "0", during == 0);
    kafka.broker(1).spawn()?;
    kafka.broker(2).spawn()?;
    let begin = Instant::now();
    for broker in [1, 2] {
        tokio::time::timeout(Duration::from_secs(60), kafka.broker(broker).wait_ready()).await??;
    }
    world.journal.saw(&format!("both are back after {:.1} s", begin.elapsed().as_secs_f64()));
    world.accepts_again("both are back").await;
    Ok(())
}

/// A broker whose only log folder fails ends itself; who runs it starts it again once there is space.
async fn disk_full(world: &mut World) -> anyhow::Result<()> {
    let (disk, kafka) = (world.disk.as_ref().context("this stack has no small disk")?, world.cluster.kafka());
    for round in 0..world.rounds(3, 1) {
        world.wait(3.0).await;
        let filled = world.strike("no byte is left on Kafka's disk", async { disk.fill() }).await?;
        let ended = kafka.wait_ended(Duration::from_secs(20)).await;
        let how = if ended { "has ended itself" } else { "goes on" };
        world.journal.saw(&format!("{filled} MiB of ballast; Kafka {how}"));
        world.wait(1.0).await;
        let accepted = world.load.accepted();
        world.wait(world.seconds(15.0, 4.0)).await;
        let during = world.load.accepted() - accepted;
        world.journal.check("accepted without space", during, "0", during == 0);
        if ended && round == 0 {
            // Started too early it must fail again, not lose what it had.
            let again = kafka.start().await.is_ok();
            world.journal.check("Kafka runs on a full disk", again, "false", !again);
            kafka.kill9().await;
        }
        disk.give_back()?;
        world.journal.saw("there is space again");
        if !kafka.is_running() {
            world.start(kafka).await?;
        }
        world.accepts_again("there is space again").await;
    }
    world.journal.claim(Claim::Connected);
    for (process, mebibytes) in [("r", ROUTER_MIB), ("g", GATEWAY_MIB), ("p", PERSISTER_MIB)] {
        world.journal.claim(Claim::MemoryBelow(process, mebibytes));
    }
    Ok(())
}
