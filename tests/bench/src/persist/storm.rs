//! A history storm: readers at full speed beside a steady feed. Reads have a pool and a bound of their own, so the lag stays, and who is
//! too many hears so (R-PST-8).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use lapwing_links::nats::Nats;
use lapwing_proto::{
    Message as _,
    bus::{HistoryRows, PersisterHistory},
};
use lapwing_runtime::{Health, OnError, SecretUrl, Tasks};

use super::{Bench, log::TENANT};
use crate::{report::Report, sample::thousands};

const READERS: usize = 96;
const TIME: Duration = Duration::from_secs(20);
const PAGE: u32 = 100;
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_LAG: f64 = 5.0;

#[derive(Default)]
struct Counts {
    pages: AtomicU64,
    busy: AtomicU64,
    other: AtomicU64,
    stop: AtomicBool,
}

/// `a_second`: what is fed meanwhile.
pub(crate) async fn play(report: &mut Report, bench: &mut Bench, a_second: f64) -> Result<()> {
    bench.empty().await?;
    bench.cluster.persister(0).start().await?;
    while bench.position().await < bench.log.end() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let tasks = Tasks::new();
    let url = SecretUrl::new(bench.cluster.nats().url());
    let nats = Nats::connect(&url, "bench", &tasks, &Health::new()).await.context("NATS")?;
    let counts = Arc::new(Counts::default());
    let conversations: Arc<[String]> = bench.log.conversations().map(str::to_owned).collect();
    for reader in 0..READERS {
        let work = read(nats.clone(), counts.clone(), conversations.clone(), reader);
        tasks.spawn(format!("reader {reader}"), OnError::Log, work);
    }
    let watching = lag(bench.cluster.persister(0).admin_address(), counts.clone());
    let feeding = async {
        let fed = bench.log.feed(a_second, TIME).await;
        counts.stop.store(true, Relaxed);
        fed
    };
    let (lag, fed) = tokio::join!(watching, feeding);
    let (fed, began) = (fed?, Instant::now());
    while bench.position().await < bench.log.end() && began.elapsed() < PATIENCE * 6 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let rest = began.elapsed().as_secs_f64();
    tasks.stop();
    bench.cluster.persister(0).stop().await;
    let seconds = TIME.as_secs_f64();
    let of = |count: &AtomicU64| count.load(Relaxed);
    let (pages, busy, other) = (of(&counts.pages), of(&counts.busy), of(&counts.other));
    let each = |count: u64| thousands(count as f64 / seconds);
    report.figure(
        format!("{READERS} readers of pages of {PAGE} beside {} rows/s, {seconds:.0} s", thousands(a_second)),
        format!("{} pages/s, {} busy/s, {other} otherwise", each(pages), each(busy)),
    );
    let shown = format!("{}, {rest:.2} s", thousands(fed as f64));
    report.figure("rows fed meanwhile, and the time until the last was in MySQL", shown);
    let shown = format!("at most {lag:.1} s");
    report.goal("the oldest row that is not in MySQL during the storm < 5 s", shown, lag < MOST_LAG);
    let shown = format!("{busy} busy, {other} otherwise");
    report.goal("beyond the read pool's limit answers are busy", shown, busy > 0 && other == 0);
    Ok(())
}

/// As a gateway asks, without a pause.
async fn read(nats: Nats, counts: Arc<Counts>, conversations: Arc<[String]>, reader: usize) {
    let mut turn = reader;
    while !counts.stop.load(Relaxed) {
        turn += READERS + 1;
        let asked = PersisterHistory {
            tenant: TENANT.to_owned(),
            conversation: conversations[turn % conversations.len()].clone(),
            from: 1,
            to: u64::MAX,
            limit: PAGE,
            ..PersisterHistory::default()
        };
        let answer = nats.request("lw.p.history", &[], asked.encode_to_vec().into(), PATIENCE).await;
        let rows = answer.ok().and_then(|payload| HistoryRows::decode(payload).ok());
        let count = match rows.map(|rows| rows.error.map(|error| error.name)) {
            Some(None) => &counts.pages,
            Some(Some(name)) if name == "busy" => &counts.busy,
            _ => &counts.other,
        };
        count.fetch_add(1, Relaxed);
    }
}

/// The greatest age of the oldest row that is not in MySQL, as the persister tells each second.
async fn lag(address: String, counts: Arc<Counts>) -> f64 {
    let mut most = 0.0_f64;
    while !counts.stop.load(Relaxed) {
        let text = lapwing_servers::http::get(&address, "/metrics").await.map(|answer| answer.body);
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("lapwing_backlog_oldest_seconds "));
        most = most.max(line.and_then(|value| value.trim().parse().ok()).unwrap_or(f64::INFINITY));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    most
}
