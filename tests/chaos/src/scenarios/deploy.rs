//! What is planned: every service restarted in turn, and one conversation that all send into (R-SEQ-1, R-SEQ-10).

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context;
use futures::FutureExt;
use lapwing_loadtest::drive::Shape;
use lapwing_servers::Managed;

use super::Scenario;
use crate::{journal::Claim, stack::Stack, watch::Line, world::World};

pub(super) static SCENARIOS: [Scenario; 3] = [
    Scenario {
        stack: Stack { routers: 3, ..Stack::PLAIN },
        ..Scenario::new(
            "rolling-restart",
            "every service restarted by SIGTERM: no publish lost or rejected, each partition handed over within 200 ms",
            |world| rolling(world).boxed(),
        )
    },
    Scenario::new(
        "power-cut",
        "everything killed -9 in one moment, servers and services, and started again: no accepted message is lost",
        |world| power_cut(world).boxed(),
    ),
    Scenario {
        shape: thousand,
        faulty: false,
        ..Scenario::new(
            "one-conversation",
            "1,000 concurrent sends of 250 members into one conversation get 1,000 consecutive seqs, all accepted",
            |world| one_conversation(world).boxed(),
        )
    },
];

fn thousand(_quick: bool) -> Shape {
    Shape { pairs: 0, groups: 1, members: 250, warm: false, messages: Some(4), rate: 1e6, ..Shape::default() }
}

async fn rolling(world: &mut World) -> anyhow::Result<()> {
    let nodes: Vec<String> = world.cluster.services().map(|service| service.node().to_owned()).collect();
    for _ in 0..world.rounds(2, 1) {
        for node in &nodes {
            world.wait(2.0).await;
            let found = world.cluster.services().find(|service| service.node() == node);
            let service = found.context("a service went away")?;
            let graceful =
                world.strike(&format!("SIGTERM {node}"), async { Ok(service.stop().await) }).await?;
            world.journal.check(&format!("{node} ended by itself"), graceful, "within 20 s", graceful);
            world.start(service).await?;
        }
    }
    world.wait(3.0).await;
    world.accepts_again("the last restart").await;
    hand_overs(world);
    Ok(())
}

/// From a partition's release in the old owner's log to its serving in the new one's.
fn hand_overs(world: &World) {
    let mut lines: Vec<Line> =
        world.lines.lock().iter().filter(|line| !line.partition.is_empty()).cloned().collect();
    lines.sort_by_key(|line| line.at);
    let mut released: BTreeMap<String, u64> = BTreeMap::new();
    let mut took: Vec<(u64, String)> = Vec::new();
    for line in lines {
        match line.message.as_str() {
            "steps down" => drop(released.insert(line.partition, line.at)),
            "serves" => {
                if let Some(since) = released.remove(&line.partition) {
                    took.push(((line.at - since) / 1000, format!("{} to {}", line.partition, line.node)));
                }
            }
            _ => {}
        }
    }
    took.sort();
    let slow = took.iter().filter(|(ms, _)| *ms >= 200).count();
    let value = match took.last() {
        Some((most, whose)) => format!(
            "{} hand-overs, median {} ms, longest {most} ms ({whose}), {slow} above",
            took.len(),
            took[took.len() / 2].0
        ),
        None => "none was seen".to_owned(),
    };
    world.journal.check("hand-over of each partition", value, "< 200 ms", slow == 0 && !took.is_empty());
}

async fn one_conversation(world: &mut World) -> anyhow::Result<()> {
    let mut peak = 0;
    while world.load.accepted() < 1000 && peak < 2000 {
        peak = peak.max(world.load.in_flight());
        tokio::time::sleep(Duration::from_millis(1)).await;
        if world.load.in_flight() == 0 && peak > 0 {
            break;
        }
    }
    world.journal.check("publishes in flight at once", peak, "≥ 200", peak >= 200);
    world.journal.claim(Claim::Accepted(1000));
    Ok(())
}

async fn power_cut(world: &mut World) -> anyhow::Result<()> {
    for _ in 0..world.rounds(2, 1) {
        world.wait(3.0).await;
        let cluster = &world.cluster;
        let services: Vec<&Managed> = cluster.services().map(|service| &**service).collect();
        let servers: [&Managed; 4] = [cluster.kafka(), cluster.nats(), cluster.redis(), cluster.mariadb()];
        let all = services.iter().copied().chain(servers);
        world
            .strike("kill -9 everything", async {
                futures::future::join_all(all.map(Managed::kill9)).await;
                Ok(())
            })
            .await?;
        cluster.infra().start_all().await?;
        world.journal.saw("the servers are back");
        cluster.start_services().await?;
        world.journal.saw("the services are back");
        world.accepts_again("the power cut").await;
    }
    world.wait(2.0).await;
    Ok(())
}
