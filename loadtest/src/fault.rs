//! One kill −9 in the middle of the run, when enough publishes are in flight, and the restart with the same command line.
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context;
use lapwing_servers::{State, process::Signal};
use tokio::sync::Notify;

use crate::ledger::Ledger;

/// Fewer publishes in flight at the kill prove nothing.
pub(crate) const MIN_IN_FLIGHT: usize = 20;
/// The kill itself takes a millisecond or two, in which some are answered.
const WANTED_IN_FLIGHT: u64 = 40;
/// After this long, just above the least is enough.
const CHOOSY_NANOS: u64 = 3_000_000_000;
/// How long to wait for that many before killing all the same.
const PATIENCE: Duration = Duration::from_secs(8);

pub(crate) struct Fault {
    pub(crate) process: String,
    state: PathBuf,
    at_accepted: u64,
    restart_after: Duration,
    /// Ledger time from which a good moment is waited for; 0 = not yet.
    armed_at: AtomicU64,
    busy: AtomicBool,
    wake: Notify,
}

#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Killed {
    pub(crate) process: String,
    pub(crate) pid: u32,
    pub(crate) in_flight: usize,
    pub(crate) at_seconds: f64,
    pub(crate) accepted_before: u64,
    pub(crate) ready_again_after_seconds: Option<f64>,
}

impl Fault {
    /// `what`: gateway, router, persister (the first of its kind), or a process name of the state file.
    pub(crate) fn new(
        what: &str,
        state: &(PathBuf, State),
        planned: usize,
        at: f64,
        restart: f64,
    ) -> anyhow::Result<Arc<Self>> {
        let ends = &state.1.endpoints;
        let first = match what {
            "gateway" => ends.gateways.first().map(|g| g.node.clone()),
            "router" => ends.routers.first().map(|n| n.node.clone()),
            "persister" => ends.persisters.first().map(|n| n.node.clone()),
            name => Some(name.to_owned()),
        };
        let process = first.with_context(|| format!("no {what} in the state file"))?;
        state.1.managed(&process)?;
        Ok(Arc::new(Self {
            process,
            state: state.0.clone(),
            at_accepted: (planned as f64 * at) as u64,
            restart_after: Duration::from_secs_f64(restart),
            armed_at: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            wake: Notify::new(),
        }))
    }

    /// Called with each publish: wakes the killer in a moment that counts.
    pub(crate) fn look(&self, ledger: &Ledger) {
        if self.busy.load(Relaxed) {
            return;
        }
        let armed_at = self.armed_at.load(Relaxed);
        if armed_at == 0 {
            let reached = ledger.accepted.load(Relaxed) >= self.at_accepted;
            if reached && self.armed_at.swap(ledger.now(), Relaxed) == 0 {
                self.wake.notify_one();
            }
            return;
        }
        let choosy = ledger.now() - armed_at < CHOOSY_NANOS;
        let wanted = if choosy { WANTED_IN_FLIGHT } else { MIN_IN_FLIGHT as u64 + 4 };
        if ledger.in_flight() >= wanted && !self.busy.swap(true, Relaxed) {
            self.wake.notify_one();
        }
    }

    /// Waits for its moment, kills, restarts. Ends without a kill only when dropped.
    pub(crate) async fn strike(&self, ledger: &Ledger) -> anyhow::Result<Killed> {
        self.wake.notified().await;
        // The next wake-up means enough in flight.
        let _ = tokio::time::timeout(PATIENCE, self.wake.notified()).await;
        self.busy.store(true, Relaxed);
        let mut state = State::load(&self.state)?.context("the state file is gone")?;
        let managed = state.managed(&self.process)?;
        let identity = managed.identity().with_context(|| format!("{} is not running", self.process))?;
        let accepted_before = ledger.accepted.load(Relaxed);
        tokio::task::spawn_blocking(move || identity.signal(Signal::Kill)).await??;
        let at = ledger.now();
        managed.kill9().await;
        let in_flight = ledger.in_flight_at(at);
        crate::progress::say(&format!(
            "kill -9 {} (pid {}): {in_flight} publishes in flight, {accepted_before} accepted before",
            self.process, identity.pid
        ));
        tokio::time::sleep(self.restart_after).await;
        let began = std::time::Instant::now();
        let ready = managed.start().await;
        managed.release();
        state.update(&managed);
        state.save(&self.state)?;
        ready.with_context(|| format!("{} does not come back", self.process))?;
        let after = self.restart_after + began.elapsed();
        crate::progress::say(&format!(
            "{} is ready again {:.1} s after the kill",
            self.process,
            after.as_secs_f64()
        ));
        Ok(Killed {
            process: self.process.clone(),
            pid: identity.pid,
            in_flight,
            at_seconds: at as f64 / 1e9,
            accepted_before,
            ready_again_after_seconds: Some(after.as_secs_f64()),
        })
    }
}
