//! The fed process: one real router, and a feeder beside it in the same process. It is told what to do by a line of JSON each on
//! its standard input, and answers each with a line; the router's log goes to standard error.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use lapwing_router::{Router, config::Config};
use lapwing_runtime::{Context, Health, OnError, lifecycle};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

mod feeder;
mod stages;

pub(crate) use stages::StageTime;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Makes the conversations whose partitions this router serves.
    Prepare { tenant: String, conversations: usize, body: usize },
    /// As much as goes with so many messages under way, or so many a second.
    Run { seconds: f64, in_flight: usize, rate: Option<f64> },
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) conversations: usize,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    /// The first refusal's text.
    pub(crate) refusal: String,
    pub(crate) seconds: f64,
    /// From the moment at which a message was due to its reply, microseconds.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    /// Records that the views did not have when the last reply came, and how long these took.
    pub(crate) unapplied: u64,
    pub(crate) catch_up_s: f64,
    /// Conversations whose seqs are not 1 … n, each once.
    pub(crate) wrong: usize,
    pub(crate) stages: Vec<StageTime>,
}

/// The router's keys come from the environment, as those of every router.
pub(crate) fn run() -> Result<ExitCode> {
    let config = Config::try_parse_from(["lapwing-router"]).context("the router's configuration")?;
    let common = config.common.clone();
    Ok(lifecycle::run("router", common, |context| start(config, context)))
}

async fn start(config: Config, context: Context) -> Result<()> {
    let partitions = config.partitions;
    let router = lapwing_router::open(config, context.clone()).await?;
    let (stop, health) = (context.tasks.clone(), context.health.clone());
    context.tasks.spawn("feed", OnError::StopService, async move {
        let result = obey(router, health, partitions).await;
        // The end of the input is the end of the run.
        stop.stop();
        result
    });
    Ok(())
}

async fn obey(router: Arc<Router>, health: Health, partitions: u32) -> Result<()> {
    let mut orders = lines();
    let mut feeder: Option<feeder::Feeder> = None;
    while let Some(line) = orders.recv().await {
        let order: Order = serde_json::from_str(&line).with_context(|| format!("an order: {line}"))?;
        let answer = match (order, &mut feeder) {
            (Order::Prepare { tenant, conversations, body }, feeder) => {
                ready(&health).await?;
                let fresh =
                    feeder::Feeder::prepare(&router, &tenant, conversations, body, partitions).await?;
                let answer = Answer { conversations: fresh.conversations(), ..Answer::default() };
                *feeder = Some(fresh);
                answer
            }
            (Order::Run { seconds, in_flight, rate }, Some(feeder)) => {
                feeder.run(seconds, in_flight, rate).await?
            }
            (Order::Run { .. }, None) => bail!("nothing was prepared yet"),
        };
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}

/// As `/readyz` would say.
async fn ready(health: &Health) -> Result<()> {
    let wait = async {
        while !health.report().ready {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    waited.with_context(|| format!("the router is not ready after 30 s: {:?}", health.report().checks))
}

/// The standard input by lines, until its end.
fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
