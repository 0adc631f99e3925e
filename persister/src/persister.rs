//! What all partitions of this process share.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_model::PartitionId;
use lapwing_persister_core::{
    Item,
    pace::{Pace, PaceConfig},
};
use lapwing_runtime::{Context, queue::Budget, telemetry};
use parking_lot::Mutex;
use tracing::debug_span;

use crate::{config::Config, db::Db, dead_letters::DeadTopic, partition::Progress, watermark::Marks};

pub(crate) struct Persister {
    pub(crate) context: Context,
    pub(crate) config: Arc<Config>,
    pub(crate) db: Db,
    pub(crate) marks: Arc<Marks>,
    pub(crate) dead_topic: DeadTopic,
    /// Rows that may wait for one partition's writer.
    pub(crate) queue_rows: usize,
    /// Bytes that wait for all writers together.
    pub(crate) waiting: Arc<Budget>,
    /// Every partition that this process holds.
    pub(crate) partitions: Mutex<HashMap<PartitionId, Arc<Progress>>>,
    kafka_trouble: Mutex<HashMap<PartitionId, String>>,
    pace: Option<Mutex<Pace>>,
    since: Instant,
}

impl Persister {
    pub(crate) fn new(context: Context, config: Arc<Config>, db: Db, partitions: usize) -> Arc<Self> {
        let pace = PaceConfig {
            start: config.pace_rows,
            slow: Duration::from_millis(config.pace_slow_ms),
            ..PaceConfig::default()
        };
        let pace = config.paced().then(|| Mutex::new(Pace::new(pace, Duration::ZERO)));
        Arc::new(Self {
            marks: Marks::new(context.node()),
            dead_topic: DeadTopic::new(&config.kafka_brokers, context.node()),
            queue_rows: (config.queue_rows / partitions.max(1)).max(config.batch_rows),
            waiting: Budget::new("consume_bytes", config.queue_bytes),
            partitions: Mutex::default(),
            kafka_trouble: Mutex::default(),
            since: Instant::now(),
            context,
            config,
            db,
            pace,
        })
    }

    /// How long a writer waits before so many rows.
    pub(crate) fn pace_wait(&self, rows: usize) -> Duration {
        self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.lock().take(rows, self.since.elapsed()))
    }

    pub(crate) fn pace_answered(&self, took: Duration) {
        let Some(pace) = &self.pace else { return };
        let mut pace = pace.lock();
        pace.answered(took, self.since.elapsed());
        metrics::gauge!("lapwing_persist_pace_rows").set(pace.rate());
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
