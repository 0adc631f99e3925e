//! One line a second of what goes on: the plots and the persist pace come from here.
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use lapwing_servers::State;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    fleet::Fleet,
    ledger::Ledger,
    machine::Machine,
    metrics::{self, Scraper},
    verify::Database,
};

#[derive(Debug, Clone, Default, serde::Serialize)]
pub(crate) struct Second {
    pub(crate) at: f64,
    pub(crate) sent: u64,
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
    pub(crate) in_flight: u64,
    /// Sum of the heads in MySQL; None while it does not answer.
    pub(crate) persisted: Option<u64>,
    pub(crate) heads: u64,
    /// The fullest queue of any service, 0 to 1.
    pub(crate) fullest_queue: Option<f64>,
    pub(crate) mysql_connections: Option<u64>,
}

pub(crate) struct Sampler {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) database: Option<Arc<Database>>,
    pub(crate) scraper: Arc<Scraper>,
    pub(crate) state: Option<std::path::PathBuf>,
    pub(crate) machine: Mutex<Machine>,
    pub(crate) seconds: Mutex<Vec<Second>>,
}

impl Sampler {
    /// Runs until it is told to stop; a database that hangs costs a sample, never a second.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let began = tokio::time::Instant::now();
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = stop.cancelled() => return,
            }
            if let Some(path) = &self.state {
                let state = State::load(path).ok().flatten();
                self.machine.lock().watch(state.as_ref());
            }
            self.machine.lock().sample();
            let second = self.second(began.elapsed().as_secs_f64()).await;
            self.seconds.lock().push(second);
        }
    }

    async fn second(&self, at: f64) -> Second {
        let (persisted, mysql_connections) = self.mysql().await;
        let snapshot = self.scraper.snapshot().await;
        let heads = self.ledger.conversations.iter().map(|c| c.head.load(Relaxed)).sum();
        Second {
            at,
            sent: self.ledger.sent.load(Relaxed),
            accepted: self.ledger.accepted.load(Relaxed),
            delivered: self.fleet.delivered(),
            in_flight: self.ledger.in_flight(),
            persisted,
            heads,
            fullest_queue: metrics::largest(&snapshot, "lapwing_queue_fullest_ratio"),
            mysql_connections,
        }
    }

    async fn mysql(&self) -> (Option<u64>, Option<u64>) {
        let Some(database) = &self.database else {
            return (None, None);
        };
        // Its own task, awaited to its end by nobody: a database future is never dropped half-way.
        let (database, run) = (database.clone(), self.ledger.run.clone());
        let asked = tokio_util::task::TaskTracker::new()
            .spawn(async move { (database.persisted(&run).await.ok(), database.server().await.ok()) });
        match tokio::time::timeout(Duration::from_millis(800), asked).await {
            Ok(Ok((persisted, server))) => (persisted, server.map(|(_, connections)| connections)),
            _ => (None, None),
        }
    }
}
