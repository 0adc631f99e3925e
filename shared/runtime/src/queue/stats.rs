//! What the queues of a process hold, for metrics, readiness and admin pages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use metrics::Counter;
use parking_lot::Mutex;
use serde::Serialize;

use super::Budget;
use crate::metrics as names;

pub(super) struct Stats {
    name: &'static str,
    pub(super) item_capacity: usize,
    pub(super) byte_capacity: usize,
    readiness: bool,
    items: AtomicUsize,
    bytes: AtomicUsize,
}

impl Stats {
    pub(super) fn new(name: &'static str, items: usize, bytes: usize, readiness: bool) -> Self {
        Self {
            name,
            item_capacity: items,
            byte_capacity: bytes,
            readiness,
            items: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    pub(super) fn set(&self, items: usize, bytes: usize) {
        self.items.store(items, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn len(&self) -> usize {
        self.items.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn fill(&self) -> f64 {
        share(self.len(), self.item_capacity).max(share(self.bytes(), self.byte_capacity))
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[derive(Clone)]
pub(super) struct Counters {
    pub(super) accepted: Counter,
    pub(super) full: Counter,
    pub(super) timeout: Counter,
    pub(super) closed: Counter,
    pub(super) dropped: Counter,
}

impl Counters {
    fn new(queue: &'static str) -> Self {
        let enqueue = |result: &'static str| metrics::counter!(names::ENQUEUE_TOTAL, "queue" => queue, "result" => result);
        Self {
            accepted: enqueue("ok"),
            full: enqueue("full"),
            timeout: enqueue("timeout"),
            closed: enqueue("closed"),
            dropped: metrics::counter!(names::QUEUE_DROPS_TOTAL, "queue" => queue),
        }
    }
}

#[derive(Default)]
struct Kind {
    counters: Option<Counters>,
    queues: Vec<Weak<Stats>>,
    sweep_at: usize,
}

#[derive(Default)]
struct Registry {
    kinds: HashMap<&'static str, Kind>,
    budgets: Vec<Weak<Budget>>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Default::default);

pub(super) fn register(stats: &Arc<Stats>) -> Counters {
    let mut registry = REGISTRY.lock();
    let kind = registry.kinds.entry(stats.name).or_default();
    if kind.queues.len() >= kind.sweep_at {
        kind.queues.retain(|queue| queue.strong_count() > 0);
        kind.sweep_at = (kind.queues.len() * 2).max(16);
    }
    kind.queues.push(Arc::downgrade(stats));
    kind.counters.get_or_insert_with(|| Counters::new(stats.name)).clone()
}

pub(super) fn register_budget(budget: &Arc<Budget>) {
    REGISTRY.lock().budgets.push(Arc::downgrade(budget));
}

/// All queues of one name together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueReport {
    pub queue: &'static str,
    pub queues: usize,
    pub length: usize,
    pub capacity: usize,
    pub bytes: usize,
    pub byte_capacity: usize,
    /// The fullest single queue of this name, 0.0 to 1.0.
    pub fullest: f64,
    /// Whether a full queue of this name is the process's own trouble (rather than one slow peer's).
    pub readiness: bool,
}

/// The state of every queue and budget of this process, by name.
pub fn report() -> Vec<QueueReport> {
    let mut registry = REGISTRY.lock();
    let mut reports: Vec<QueueReport> =
        registry.kinds.iter().map(|(name, kind)| report_of(name, &kind.queues)).collect();
    registry.budgets.retain(|budget| budget.strong_count() > 0);
    reports.extend(registry.budgets.iter().filter_map(Weak::upgrade).map(|budget| QueueReport {
        queue: budget.name,
        queues: 1,
        length: 0,
        capacity: 0,
        bytes: budget.used(),
        byte_capacity: budget.limit,
        fullest: share(budget.used(), budget.limit),
        readiness: true,
    }));
    reports.sort_by_key(|report| report.queue);
    reports
}

fn report_of(name: &'static str, queues: &[Weak<Stats>]) -> QueueReport {
    let mut report = QueueReport {
        queue: name,
        queues: 0,
        length: 0,
        capacity: 0,
        bytes: 0,
        byte_capacity: 0,
        fullest: 0.0,
        readiness: false,
    };
    for stats in queues.iter().filter_map(Weak::upgrade) {
        report.queues += 1;
        report.length += stats.len();
        report.capacity += stats.item_capacity;
        report.bytes += stats.bytes();
        report.byte_capacity = report.byte_capacity.saturating_add(stats.byte_capacity);
        report.fullest = report.fullest.max(stats.fill());
        report.readiness |= stats.readiness;
    }
    report
}

/// The fullest queue that counts for readiness: its name and fill.
pub(crate) fn fullest() -> Option<(&'static str, f64)> {
    report()
        .into_iter()
        .filter(|report| report.readiness)
        .map(|report| (report.queue, report.fullest))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Brings the gauges up to date; called just before a scrape is answered.
pub(crate) fn refresh_metrics() {
    for report in report() {
        metrics::gauge!(names::QUEUE_LENGTH, "queue" => report.queue).set(report.length as f64);
        metrics::gauge!(names::QUEUE_CAPACITY, "queue" => report.queue).set(report.capacity as f64);
        metrics::gauge!(names::QUEUE_BYTES, "queue" => report.queue).set(report.bytes as f64);
        metrics::gauge!(names::QUEUE_BYTE_CAPACITY, "queue" => report.queue).set(report.byte_capacity as f64);
        metrics::gauge!(names::QUEUE_FULLEST, "queue" => report.queue).set(report.fullest);
    }
}
