//! Metric names (R-OBS-3), the recorder, and the stage timer. No conversation id is ever a label.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

pub const QUEUE_LENGTH: &str = "lapwing_queue_length";
pub const QUEUE_CAPACITY: &str = "lapwing_queue_capacity";
pub const QUEUE_BYTES: &str = "lapwing_queue_bytes";
pub const QUEUE_BYTE_CAPACITY: &str = "lapwing_queue_byte_capacity";
/// The fullest single queue of a name, 0 to 1: the alerts of R-OBS-4 stand on it.
pub const QUEUE_FULLEST: &str = "lapwing_queue_fullest_ratio";
pub const QUEUE_DROPS_TOTAL: &str = "lapwing_queue_drops_total";
/// Labels queue, result = ok | full | timeout | closed.
pub const ENQUEUE_TOTAL: &str = "lapwing_enqueue_total";
/// Labels rpc.
pub const RPC_IN_FLIGHT: &str = "lapwing_rpc_in_flight";
/// Labels rpc, result.
pub const RPC_SECONDS: &str = "lapwing_rpc_seconds";
/// Labels peer, result.
pub const ROUTE_TOTAL: &str = "lapwing_route_total";
pub const CONNECTIONS_ACTIVE: &str = "lapwing_connections_active";
/// Labels stage, kind, result.
pub const STAGE_SECONDS: &str = "lapwing_stage_seconds";
/// Labels result = batch_ok | single_ok | retry | dead.
pub const PERSIST_TOTAL: &str = "lapwing_persist_total";
pub const PERSIST_SECONDS: &str = "lapwing_persist_seconds";
/// Accepted messages not yet in MySQL.
pub const PERSIST_LAG: &str = "lapwing_persist_lag";
pub const BACKLOG_OLDEST_SECONDS: &str = "lapwing_backlog_oldest_seconds";
pub const DEAD_LETTERS_TOTAL: &str = "lapwing_dead_letters_total";
/// In the table and not replayed.
pub const DEAD_LETTERS_OPEN: &str = "lapwing_dead_letters_open";
/// Labels pool.
pub const POOL_MAX: &str = "lapwing_pool_max";
pub const POOL_OPEN: &str = "lapwing_pool_open";
pub const POOL_IN_USE: &str = "lapwing_pool_in_use";
pub const POOL_IDLE: &str = "lapwing_pool_idle";
pub const POOL_CLOSED_TOTAL: &str = "lapwing_pool_closed_total";
pub const POOL_WAIT_TOTAL: &str = "lapwing_pool_wait_total";
pub const POOL_WAIT_SECONDS: &str = "lapwing_pool_wait_seconds";
/// Labels cache, result = hit | miss.
pub const CACHE_TOTAL: &str = "lapwing_cache_total";
/// Conversations that a rebuild took from MySQL, and records that a replay took from the log into a view, by `view`.
pub const REBUILT_ROWS_TOTAL: &str = "lapwing_rebuilt_rows_total";
pub const REPLAYED_TOTAL: &str = "lapwing_replayed_total";
/// Bytes in use of a Redis instance, and which part of its maxmemory that is (0: no limit), by `instance`.
pub const REDIS_MEMORY: &str = "lapwing_redis_memory_bytes";
pub const REDIS_FILLED: &str = "lapwing_redis_filled_ratio";
/// Partitions that no router has served since lease + 1 s, as a gateway hears them.
pub const PARTITIONS_UNOWNED: &str = "lapwing_partitions_unowned";
/// What a router holds in memory, over all its partitions.
pub const CONVERSATIONS: &str = "lapwing_conversations";
pub const CONVERSATION_BYTES: &str = "lapwing_conversation_bytes";
/// Publishes whose `cmidown` check was skipped (Redis slow or down).
pub const CMIDOWN_SKIPPED_TOTAL: &str = "lapwing_cmidown_skipped_total";
/// Labels check; 1 = well, 0 = not.
pub const HEALTH: &str = "lapwing_health";
/// Labels task.
pub const TASK_FAILURES_TOTAL: &str = "lapwing_task_failures_total";
/// Labels link = nats | redis | kafka, event.
pub const LINK_EVENTS_TOTAL: &str = "lapwing_link_events_total";

/// The stages, in the order in which data flows; `total` is what the client sees.
pub const STAGES: [&str; 12] = [
    "admit",
    "sequence",
    "produce",
    "commit",
    "answer",
    "dispatch",
    "apply",
    "deliver",
    "consume",
    "write",
    "watermark",
    "total",
];

const SECONDS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

/// Installs the recorder of this process. Call it before the first queue is opened; calling it again changes nothing.
pub fn install() -> anyhow::Result<()> {
    if HANDLE.get().is_some() {
        return Ok(());
    }
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .install_recorder()?;
    let _ = HANDLE.set(handle);
    Ok(())
}

/// The text of `/metrics`; empty before [`install`].
pub fn render() -> String {
    crate::queue::refresh_metrics();
    HANDLE.get().map(PrometheusHandle::render).unwrap_or_default()
}

/// Folds histogram samples into buckets; the admin thread calls it each second so that memory stays bounded unscraped.
pub(crate) fn upkeep() {
    if let Some(handle) = HANDLE.get() {
        handle.run_upkeep();
    }
}

/// `let timer = stage("admit").kind("p2p"); … timer.done("ok");` records into `lapwing_stage_seconds`.
#[must_use = "call done(result) when the stage ends"]
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    stage: &'static str,
    kind: &'static str,
    since: Instant,
}

pub fn stage(stage: &'static str) -> Stage {
    Stage { stage, kind: "none", since: Instant::now() }
}

impl Stage {
    pub fn kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    /// Counts from an earlier moment, for a stage that began in another task.
    pub fn since(mut self, since: Instant) -> Self {
        self.since = since;
        self
    }

    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    pub fn done(self, result: &'static str) {
        let seconds = self.since.elapsed().as_secs_f64();
        let labels = [self.stage, self.kind, result];
        if HANDLE.get().is_none() {
            return histogram_of(labels).record(seconds);
        }
        // Looking a handle up costs more than recording: five stages a message.
        STAGE_HANDLES.with_borrow_mut(|handles| {
            let same = |known: &[&'static str; 3]| known.iter().zip(labels).all(|(a, b)| std::ptr::eq(*a, b));
            let place = handles.iter().position(|(known, _)| same(known)).unwrap_or_else(|| {
                handles.push((labels, histogram_of(labels)));
                handles.len() - 1
            });
            handles[place].1.record(seconds);
        });
    }
}

thread_local! {
    /// By the labels' addresses: as many entries as there are places in the code that name them.
    static STAGE_HANDLES: RefCell<Vec<([&'static str; 3], metrics::Histogram)>> = const { RefCell::new(Vec::new()) };
}

fn histogram_of([stage, kind, result]: [&'static str; 3]) -> metrics::Histogram {
    metrics::histogram!(STAGE_SECONDS, "stage" => stage, "kind" => kind, "result" => result)
}

/// One rpc in flight; `done(result)` records its duration, dropping it unanswered records `dropped`.
#[must_use]
pub struct Rpc {
    rpc: &'static str,
    since: Instant,
    answered: bool,
}

pub fn rpc(rpc: &'static str) -> Rpc {
    metrics::gauge!(RPC_IN_FLIGHT, "rpc" => rpc).increment(1.0);
    Rpc { rpc, since: Instant::now(), answered: false }
}

impl Rpc {
    pub fn done(mut self, result: &'static str) {
        self.record(result);
    }

    fn record(&mut self, result: &'static str) {
        self.answered = true;
        metrics::gauge!(RPC_IN_FLIGHT, "rpc" => self.rpc).decrement(1.0);
        metrics::histogram!(RPC_SECONDS, "rpc" => self.rpc, "result" => result)
            .record(self.since.elapsed().as_secs_f64());
    }
}

impl Drop for Rpc {
    fn drop(&mut self) {
        if !self.answered {
            self.record("dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-OBS-3
    #[test]
    fn stages_rpcs_and_queues_are_rendered_under_their_names() {
        install().unwrap();
        install().unwrap();
        stage("admit").kind("p2p").since(Instant::now() - Duration::from_millis(2)).done("ok");
        rpc("metrics_test").done("ok");
        let (tx, _rx) = crate::queue::Queue::named("metrics_test").items(4).bytes(100).open();
        tx.try_push(1, 30).unwrap();
        let text = render();
        for line in [
            "lapwing_stage_seconds_bucket{stage=\"admit\",kind=\"p2p\",result=\"ok\",le=\"0.001\"} 0",
            "lapwing_stage_seconds_bucket{stage=\"admit\",kind=\"p2p\",result=\"ok\",le=\"10\"} 1",
            "lapwing_rpc_in_flight{rpc=\"metrics_test\"} 0",
            "lapwing_rpc_seconds_count{rpc=\"metrics_test\",result=\"ok\"} 1",
            "lapwing_queue_length{queue=\"metrics_test\"} 1",
            "lapwing_queue_capacity{queue=\"metrics_test\"} 4",
            "lapwing_queue_bytes{queue=\"metrics_test\"} 30",
            "lapwing_enqueue_total{queue=\"metrics_test\",result=\"ok\"} 1",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
    }
}
