//! What the person at the terminal sees while it runs.
use std::{
    io::IsTerminal,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{fleet::Fleet, ledger::Ledger};

pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Runs `work` and says how long it took.
pub(crate) async fn step<T>(what: &str, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let began = Instant::now();
    let done = work.await;
    let seconds = began.elapsed().as_secs_f64();
    match &done {
        Ok(_) => say(&format!("  {what:<44} {seconds:>7.1} s")),
        Err(error) => say(&format!("  {what:<44} {seconds:>7.1} s  failed: {error:#}")),
    }
    done
}

/// A line each second on a terminal, each five otherwise; ends when it is dropped.
pub(crate) async fn watch(ledger: Arc<Ledger>, fleet: Arc<Fleet>, planned: usize) {
    let every = if std::io::stdout().is_terminal() { 1 } else { 5 };
    let began = Instant::now();
    let (mut accepted, mut delivered) = (ledger.accepted.load(Relaxed), fleet.delivered());
    loop {
        tokio::time::sleep(Duration::from_secs(every)).await;
        let (now_accepted, now_delivered) = (ledger.accepted.load(Relaxed), fleet.delivered());
        let rate = |now: u64, before: u64| now.saturating_sub(before) / every;
        say(&format!(
            "  {:>4} s  sent {:>7} of {planned}  accepted {now_accepted:>7} ({:>5}/s)  in flight {:>5}  \
             delivered {now_delivered:>8} ({:>6}/s)",
            began.elapsed().as_secs(),
            ledger.sent.load(Relaxed),
            rate(now_accepted, accepted),
            ledger.in_flight(),
            rate(now_delivered, delivered),
        ));
        (accepted, delivered) = (now_accepted, now_delivered);
    }
}
