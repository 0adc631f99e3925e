//! `lapwing move-range`: the owners of a range of buckets bring its views to another instance, while messages flow.
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use hyper::Method;
use serde_json::Value;

use crate::{
    config::Config,
    partitions::{cell, gather},
    placement,
};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Range {
    /// Which views
    #[arg(long, value_parser = ["redis", "mysql"], default_value = "redis")]
    view: String,

    /// First and last commit bucket, e.g. 0-63: whole partitions
    #[arg(long)]
    pub(crate) buckets: String,

    /// The name of the instance, as in LAPWING_REDIS_URL or LAPWING_MYSQL_URL of the services
    #[arg(long)]
    pub(crate) to: String,

    /// How long to wait for it, in seconds; the owners go on beyond it
    #[arg(long, default_value_t = 600)]
    pub(crate) seconds: u64,
}

const PAUSE: Duration = Duration::from_secs(1);

/// True: all partitions of the range are there. An owner that dies on the way leaves its part where it was, so it is asked again.
pub(crate) async fn run(config: &Config, range: Range) -> anyhow::Result<bool> {
    if range.view == "mysql" {
        return placement::move_range(config, &range).await;
    }
    let routers = config.routers()?;
    let path = format!("/admin/move-range?view={}&buckets={}&to={}", range.view, range.buckets, range.to);
    let end = Instant::now() + Duration::from_secs(range.seconds);
    let mut wanted: BTreeSet<(String, u64)> = BTreeSet::new();
    let mut told = usize::MAX;
    loop {
        for router in &routers {
            match router.call(Method::POST, &path, None).await {
                Ok(Value::Array(rows)) => wanted.extend(rows.iter().map(place)),
                Ok(other) => anyhow::bail!("{}: not a list: {other}", router.base()),
                Err(error) if error.code().is_some_and(|code| code < 500) => return Err(error.into()),
                // One that is down has no partitions soon; who takes them is asked in the next round.
                Err(error) => println!("! {error}"),
            }
        }
        let (rows, _) = gather(&routers).await;
        let there = |row: &&Value| cell(row, "redis") == range.to && cell(row, "state") == "serving";
        let arrived: BTreeSet<_> = rows.iter().filter(there).map(place).collect();
        let left = wanted.difference(&arrived).count();
        if left != told {
            println!("{} of {} partitions are on {}", wanted.len() - left, wanted.len(), range.to);
            told = left;
        }
        if left == 0 && !wanted.is_empty() {
            println!("moved: set LAPWING_REDIS_BUCKETS accordingly before the next deployment");
            return Ok(true);
        }
        if Instant::now() >= end {
            let names: Vec<_> =
                wanted.difference(&arrived).map(|(topic, n)| format!("{topic} {n}")).collect();
            println!("not moved within {} s: {}", range.seconds, names.join(", "));
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

pub(crate) fn place(row: &Value) -> (String, u64) {
    (cell(row, "topic"), row["partition"].as_u64().unwrap_or(0))
}
