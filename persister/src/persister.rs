//! What all partitions of this process share.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_model::PartitionId;
use lapwing_persister_core::{
    Item,
    pace::{Pace, PaceConfig},
    placement::AUTHORITY,
};
use lapwing_runtime::{Context, queue::Budget, telemetry};
use parking_lot::Mutex;
use tracing::debug_span;

use crate::{config::Config, db::Db, partition::Progress, places::Places, watermark::Marks};

pub(crate) struct Persister {
    pub(crate) context: Context,
    pub(crate) config: Arc<Config>,
    /// The authority.
    pub(crate) db: Db,
    /// All instances, the authority first.
    pub(crate) dbs: Vec<Db>,
    pub(crate) places: Places,
    pub(crate) marks: Arc<Marks>,
    /// Rows that may wait for one partition's writer.
    pub(crate) queue_rows: usize,
    /// Bytes that wait for all writers of an instance together: one that is away fills only its own.
    pub(crate) waiting: Vec<Arc<Budget>>,
    /// Every partition that this process holds, with each instance that it is written to.
    pub(crate) partitions: Mutex<HashMap<(PartitionId, usize), Arc<Progress>>>,
    /// About to be placed elsewhere: stored is what is on both.
    pub(crate) closing: Mutex<HashSet<PartitionId>>,
    kafka_trouble: Mutex<HashMap<PartitionId, String>>,
    /// Of each instance; none: as fast as it goes.
    pace: Vec<Mutex<Pace>>,
    since: Instant,
}

impl Persister {
    pub(crate) fn new(
        context: Context,
        config: Arc<Config>,
        dbs: Vec<Db>,
        places: Places,
        partitions: usize,
    ) -> Arc<Self> {
        let pace = PaceConfig {
            start: config.pace_rows,
            slow: Duration::from_millis(config.pace_slow_ms),
            ..PaceConfig::default()
        };
        let paced = if config.paced() { dbs.len() } else { 0 };
        let pace = (0..paced).map(|_| Mutex::new(Pace::new(pace, Duration::ZERO))).collect();
        let bytes = config.queue_bytes / dbs.len();
        Arc::new(Self {
            marks: Marks::new(context.node()),
            queue_rows: (config.queue_rows / partitions.max(1)).max(config.batch_rows),
            waiting: dbs.iter().map(|_| Budget::new("consume_bytes", bytes)).collect(),
            partitions: Mutex::default(),
            closing: Mutex::default(),
            kafka_trouble: Mutex::default(),
            since: Instant::now(),
            context,
            config,
            db: dbs[AUTHORITY].clone(),
            dbs,
            places,
            pace,
        })
    }

    /// The health check of a partition's way into an instance.
    pub(crate) fn check(&self, partition: &PartitionId, instance: usize) -> String {
        self.dbs[instance].check(&format!("partition {partition}"))
    }

    /// Marks wait for each instance where a partition's rows have to be.
    pub(crate) fn expect_marks(&self, partition: &PartitionId) {
        let placement = self.places.current();
        let mut instances = placement.read_from(partition);
        if self.closing.lock().contains(partition) {
            instances.extend(placement.placed(partition).filling);
        }
        self.marks.expect(partition, instances);
    }

    /// How long a writer waits before so many rows.
    pub(crate) fn pace_wait(&self, instance: usize, rows: usize) -> Duration {
        self.pace.get(instance).map_or(Duration::ZERO, |pace| pace.lock().take(rows, self.since.elapsed()))
    }

    pub(crate) fn pace_answered(&self, instance: usize, took: Duration) {
        let Some(pace) = self.pace.get(instance) else { return };
        let mut pace = pace.lock();
        pace.answered(took, self.since.elapsed());
        metrics::gauge!("lapwing_persist_pace_rows", "instance" => self.dbs[instance].name.to_string())
            .set(pace.rate());
    }

    /// What keeps a partition from being read, or that it is read again. One health check for all of them.
    pub(crate) fn kafka_trouble(&self, partition: &PartitionId, trouble: Option<String>) {
        let mut all = self.kafka_trouble.lock();
        let changed = match trouble {
            Some(text) => all.insert(partition.clone(), text).is_none(),
            None => all.remove(partition).is_some(),
        };
        if changed {
            let state = all.values().next().map_or(Ok(()), |text| Err(text.clone()));
            self.context.health.set("kafka", state);
        }
    }

    /// A span in the trace of each sampled message, ended when the batch is; nothing when spans do not leave.
    pub(crate) fn record_spans(&self, items: &[Item]) -> Vec<tracing::Span> {
        if self.config.common.otlp_endpoint.as_deref().is_none_or(str::is_empty) {
            return Vec::new();
        }
        let sampled = |item: &Item| match item {
            Item::Row(row) if row.record.traceparent.ends_with("-01") => {
                let record = &row.record;
                let span = debug_span!(
                    "write",
                    tenant = record.tenant,
                    conversation = record.conversation,
                    seq = record.seq,
                    client_mid = record.client_mid
                );
                Some(telemetry::span_from(&record.traceparent, span))
            }
            _ => None,
        };
        items.iter().filter_map(sampled).collect()
    }
}
