//! ⑨ consume: reads a partition from the stored position, judges each record, and hands what is to be written to the writer.

use std::{sync::Arc, time::Duration};

use lapwing_links::kafka::{Fetched, PartitionReader, RawRecord, ReadError};
use lapwing_model::{Kind, PartitionId, Void};
use lapwing_persister_core::{Step, TopicReader};
use lapwing_runtime::{
    metrics::stage,
    queue::{PushError, Sender},
    throttle::Throttle,
};
use tokio_util::sync::CancellationToken;
use tracing::debug_span;

use crate::{
    partition::{End, Progress},
    persister::Persister,
};

/// A record's meaning, and when it was written to the log.
pub(crate) struct Taken {
    pub(crate) step: Step,
    pub(crate) timestamp_ms: u64,
}

pub(crate) struct Consumer {
    pub(crate) persister: Arc<Persister>,
    pub(crate) partition: PartitionId,
    pub(crate) log: PartitionReader,
    pub(crate) reader: TopicReader,
    pub(crate) progress: Arc<Progress>,
    pub(crate) queue: Sender<Taken>,
    pub(crate) stop: CancellationToken,
}

const WAIT: Duration = Duration::from_secs(1);
const FETCH_BYTES: usize = 1 << 20;
/// After a fetch that brought little, the next one waits a moment: many single-record fetches cost the broker more than this
/// costs anybody, since nobody is answered from here.
const LITTLE: usize = 64;
const PAUSE: Duration = Duration::from_millis(10);
/// What a decoded record takes beside its bytes.
const OVERHEAD: usize = 512;

impl Consumer {
    pub(crate) async fn run(mut self) -> End {
        let end = match self.consume_until_stopped().await {
            Ok(()) => End::Stopped,
            Err(end) => end,
        };
        self.persister.kafka_trouble(&self.partition, None);
        if let End::Broken(why) = &end {
            self.alarm(why);
        }
        end
    }

    async fn consume_until_stopped(&mut self) -> Result<(), End> {
        loop {
            let fetched = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(()),
                fetched = self.log.next(WAIT, FETCH_BYTES) => fetched,
            };
            let fetched = match fetched {
                Ok(fetched) => fetched,
                Err(error) => {
                    self.trouble(&error)?;
                    continue;
                }
            };
            self.persister.kafka_trouble(&self.partition, None);
            let little = fetched.records.len() < LITTLE;
            if !self.take(fetched).await? {
                return Ok(());
            }
            if little {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// False: told to stop.
    async fn take(&mut self, fetched: Fetched) -> Result<bool, End> {
        self.progress.heard(fetched.high_watermark.max(0) as u64);
        let Some(last) = fetched.records.last().map(|record| record.offset) else { return Ok(true) };
        let kind = Kind::of_topic(&self.partition.topic).map_or("none", Kind::name);
        let timer = stage("consume").kind(kind);
        let _span =
            debug_span!("consume", partition = %self.partition, records = fetched.records.len()).entered();
        let steps =
            fetched.records.into_iter().map(|record| self.judge(record)).collect::<Result<Vec<_>, _>>()?;
        drop(_span);
        timer.done("ok");
        let count = steps.len();
        for (index, taken) in steps.into_iter().enumerate() {
            // A record that only moves the position is worth a place in the queue at the end of a fetch.
            if taken.step.items.is_empty() && index + 1 < count {
                continue;
            }
            if !self.hand_over(taken).await {
                return Ok(false);
            }
        }
        debug_assert!(self.log.position() > last);
        Ok(true)
    }

    fn judge(&mut self, record: RawRecord) -> Result<Taken, End> {
        let offset = record.offset.max(0) as u64;
        let step = self.reader.judge(offset, record.value).map_err(|stop| End::Broken(stop.to_string()))?;
        if let Some(void) = step.void {
            self.count_void(offset, void);
        }
        Ok(Taken { step, timestamp_ms: record.timestamp_ms.max(0) as u64 })
    }

    fn count_void(&self, offset: u64, void: Void) {
        static VOID: Throttle = Throttle::every_ms(1000);
        let why = match void {
            Void::Epoch => "epoch",
            Void::Doubled => "doubled",
            Void::Hole => "hole",
        };
        metrics::counter!("lapwing_void_records_total", "stage" => "consume", "why" => why).increment(1);
        // A void record of the newest claim is never skipped quietly.
        if void != Void::Epoch
            && let Some(suppressed) = VOID.pass()
        {
            tracing::warn!(partition = %self.partition, offset, why, suppressed, "a record of the newest claim is void");
        }
    }

    /// Waits for room; the log is the backlog, never this process's memory. False: told to stop.
    async fn hand_over(&mut self, mut taken: Taken) -> bool {
        let weight = taken.step.items.iter().map(|item| item.raw().len() + OVERHEAD).sum();
        loop {
            let pushing = self.queue.push_timeout(taken, weight, Duration::from_secs(1));
            let pushed = tokio::select! {
                biased;
                () = self.stop.cancelled() => return false,
                pushed = pushing => pushed,
            };
            match pushed {
                Ok(()) => return true,
                Err(PushError::Closed(_)) => return false,
                Err(PushError::Full(back)) => taken = back,
            }
            // Nothing is fetched meanwhile, and the backlog still has to be seen.
            if let Ok(high) = self.log.latest().await {
                self.progress.heard(high.max(0) as u64);
            }
        }
    }

    /// Temporary trouble is shown and read again; anything else ends the partition's work: never a jump over records.
    fn trouble(&self, error: &ReadError) -> Result<(), End> {
        if error.is_temporary() {
            self.persister.kafka_trouble(&self.partition, Some(error.to_string()));
            return Ok(());
        }
        Err(End::Broken(error.to_string()))
    }

    fn alarm(&self, why: &str) {
        tracing::error!(
            partition = %self.partition, position = ?self.progress.state().stored,
            "ALARM: the partition stops here, nothing is skipped: {why}"
        );
    }
}
