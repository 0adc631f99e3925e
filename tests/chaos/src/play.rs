//! One scenario from its stack to its verdict.

use std::{sync::Arc, time::Instant};

use lapwing_loadtest::drive::{self, Shape};
use lapwing_servers::Cluster;
use parking_lot::Mutex;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    journal::Journal,
    outcome::{self, Outcome},
    scenarios::Scenario,
    stack,
    watch::Watch,
    world::World,
};

/// Plays it on a stack of its own; an error: it could not be played.
pub async fn play(scenario: &Scenario, quick: bool) -> anyhow::Result<Outcome> {
    // A large future, and not one that anybody awaits in a loop.
    Box::pin(played(scenario, quick)).await
}

async fn played(scenario: &Scenario, quick: bool) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    println!("{}: {}", scenario.name, scenario.shows);
    let parts = stack::start(scenario.stack).await?;
    println!("  private stack ready after {:.1} s", began.elapsed().as_secs_f64());
    let shape = (scenario.shape)(quick);
    let state = parts.cluster.infra().folder().join("state.json");
    let out = outcome::folder().join(format!("{}-report", scenario.name));
    let journal = Arc::new(Journal::new());
    let watch = Watch::new(&parts.cluster, journal.clone());
    let (lines, watching, tasks) = (watch.lines.clone(), CancellationToken::new(), TaskTracker::new());
    tasks.spawn(watch.run(watching.clone()));
    tasks.close();
    // Kept here, so that the stack outlives the script.
    let kept: Mutex<Option<World>> = Mutex::new(None);
    let judged = {
        let (journal, kept) = (&journal, &kept);
        let script = |load| async move {
            let mut world = World::new(parts, load, journal.clone(), lines, quick);
            let played = (scenario.play)(&mut world).await;
            world.cluster.state().save(&world.cluster.infra().folder().join("state.json"))?;
            *kept.lock() = Some(world);
            played
        };
        Box::pin(drive::under_load(scenario.name, &state, &out, &shape, script)).await
    };
    watching.cancel();
    tasks.wait().await;
    let world = kept.into_inner();
    let judged = match judged {
        Ok(judged) => judged,
        Err(error) => {
            if let Some(world) = &world {
                keep_logs(scenario.name, &world.cluster);
            }
            return Err(error);
        }
    };
    universal(&journal);
    journal.settle_claims(&judged);
    print_judged(&judged);
    let outcome = Outcome::new(scenario, quick, began.elapsed().as_secs_f64(), journal.told(), judged);
    if let Some(world) = world {
        if !outcome.passed() {
            keep_logs(scenario.name, &world.cluster);
        }
        world.cluster.stop().await;
    }
    Ok(outcome)
}

/// What no fault excuses.
fn universal(journal: &Journal) {
    for (begin, name) in [("ALARM", "alarms"), ("thread '", "panics"), ("panicked", "panics told in the log")]
    {
        let count = journal.messages(begin);
        journal.check(name, count, "0", count == 0);
    }
}

fn print_judged(judged: &drive::Judged) {
    let told: Vec<String> = judged.told.iter().map(|(name, count)| format!("{name} ×{count}")).collect();
    let told = if told.is_empty() { "nothing but acceptance".to_owned() } else { told.join(", ") };
    println!("  clients were told: {told}");
    println!(
        "  ledger: {} of {} accepted · {} rejected · {} unknown · {} deliveries · {:.0} s of sending",
        judged.accepted,
        judged.planned,
        judged.rejected,
        judged.unknown,
        judged.delivered,
        judged.send_seconds
    );
    for gate in &judged.gates {
        let mark = if gate.passed { "ok  " } else { "FAIL" };
        println!("  {mark} {:<46} {:<36} {}", gate.name, gate.value, gate.limit);
    }
    judged.details.iter().take(10).for_each(|detail| println!("  ! {detail}"));
}

/// Beside the results, since the stack's own folder goes with it.
fn keep_logs(name: &str, cluster: &Cluster) {
    let folder = outcome::folder().join(format!("{name}-logs"));
    let _ = std::fs::create_dir_all(&folder);
    let servers = [&**cluster.kafka(), &**cluster.nats(), &**cluster.redis(), &**cluster.mariadb()];
    let logs = cluster.services().map(|service| service.log()).chain(servers.map(|server| server.log()));
    for log in logs {
        if let Some(file) = log.file_name() {
            let _ = std::fs::copy(log, folder.join(file));
        }
    }
    println!("  logs: {}", folder.display());
}

/// The usual load.
pub(crate) fn usual(quick: bool) -> Shape {
    let short = Shape { pairs: 40, groups: 1, rate: 2.0, seconds: 90, ..Shape::default() };
    if quick { short } else { Shape::default() }
}
