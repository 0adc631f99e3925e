//! ⑨ consume: reads a partition from the stored position, judges each record, and hands what is to be written to the writer.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lapwing_links::kafka::{Fetched, PartitionReader, RawRecord, ReadError};
use lapwing_model::{Kind, PartitionId, Void};
use lapwing_persister_core::{Placement, Step, TopicReader, Unreadable};
use lapwing_runtime::{
    metrics::stage,
    queue::{PushError, Sender},
    throttle::Throttle,
    time::now_ms,
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
    pub(crate) instance: usize,
    pub(crate) placement: Arc<Placement>,
    pub(crate) log: PartitionReader,
    pub(crate) reader: TopicReader,
    pub(crate) progress: Arc<Progress>,
    pub(crate) queue: Sender<Taken>,
    pub(crate) stop: CancellationToken,
}

const WAIT: Duration = Duration::from_secs(1);
const FETCH_BYTES: usize = 1 << 20;
/// The broker gives at least one batch, however large.
const ONE_BATCH: usize = 1;
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
        let stop = self.stop.clone();
        loop {
            let fetched = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                fetched = self.fetch() => fetched,
            };
            let fetched = match fetched {
                Ok(fetched) => fetched,
                Err(ReadError::Malformed { text, .. }) => {
                    if !self.step_over(&text).await? {
                        return Ok(());
                    }
                    continue;
                }
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

    /// A fetch of many batches fails as a whole when one of them cannot be decoded, so it is then asked for one batch.
    async fn fetch(&mut self) -> Result<Fetched, ReadError> {
        match self.log.next(WAIT, FETCH_BYTES).await {
            Err(ReadError::Malformed { .. }) => self.log.next(WAIT, ONE_BATCH).await,
            other => other,
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
        Ok(Taken { step: self.of_this_instance(step), timestamp_ms: record.timestamp_ms.max(0) as u64 })
    }

    /// What another instance takes only moves the position here.
    fn of_this_instance(&self, mut step: Step) -> Step {
        step.items.retain(|item| self.placement.takes(&self.partition, self.instance, item));
        step.items = step.items.into_iter().map(|item| self.placement.routed(item)).collect();
        step
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

    /// What the client cannot decode (a foreign record, a broken batch) is stepped over up to the next readable record; the
    /// rule of validity then tells whether anything of the epoch was in it. False: told to stop.
    async fn step_over(&mut self, text: &str) -> Result<bool, End> {
        let from = self.log.position();
        let found = self.next_readable(from).await;
        self.log.seek(from);
        let next = match found {
            Ok(Some(next)) => next,
            // Nothing readable stands behind it yet: what cannot be read may still be a write under way.
            Ok(None) => {
                self.persister.kafka_trouble(&self.partition, Some(format!("offset {from}: {text}")));
                return Ok(true);
            }
            Err(error) => return self.trouble(&error).map(|()| true),
        };
        tracing::error!(partition = %self.partition, from, next, "ALARM: offsets {from} to {} cannot be decoded: {text}", next - 1);
        let problem = format!("offsets {from} to {} cannot be decoded: {text}", next - 1);
        let (offset, behind) = (from.max(0) as u64, next.max(0) as u64);
        let unreadable = Unreadable { offset, raw: Bytes::new(), problem };
        let step = self.reader.step_over(unreadable, behind);
        let step = self.of_this_instance(step);
        self.log.seek(next);
        Ok(self.hand_over(Taken { step, timestamp_ms: now_ms() }).await)
    }

    /// The first offset behind `from` that can be read: by doubling steps, then by halving.
    async fn next_readable(&mut self, from: i64) -> Result<Option<i64>, ReadError> {
        let high = self.log.latest().await?;
        let (mut bad, mut good) = (from, None);
        let mut step = 1;
        while good.is_none() && bad + 1 < high {
            let probe = (from + step).min(high - 1);
            match self.readable_at(probe).await? {
                Some(first) => good = Some(first),
                None => bad = probe,
            }
            step *= 2;
        }
        let Some(mut good) = good else { return Ok(None) };
        while bad + 1 < good {
            let probe = bad + (good - bad) / 2;
            match self.readable_at(probe).await? {
                Some(first) if first < good => good = first,
                // It answered with the one that is known: everything from the probe up to it is not there at all.
                Some(_) => good = probe,
                None => bad = probe,
            }
        }
        Ok(Some(good))
    }

    async fn readable_at(&mut self, offset: i64) -> Result<Option<i64>, ReadError> {
        self.log.seek(offset);
        match self.log.next(Duration::from_millis(100), ONE_BATCH).await {
            Ok(fetched) => Ok(fetched.records.first().map(|record| record.offset)),
            Err(ReadError::Malformed { .. }) => Ok(None),
            Err(error) => Err(error),
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
