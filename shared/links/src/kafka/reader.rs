//! One partition, read in order from an offset, for as long as it takes.
//!
//! The position moves only over records that were handed out, or by [`PartitionReader::seek`]: an offset that is out of range and
//! a record that cannot be decoded are errors with a name, never a jump. Each request has its own timeout; after any failure
//! the next one goes over a fresh client, since rskafka has no timeouts and keeps a dead leader.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lapwing_runtime::metrics::LINK_EVENTS_TOTAL;
use rskafka::client::error::{Error, ProtocolError, RequestError};
use rskafka::client::partition::{OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::record::RecordAndOffset;

use super::{Fresh, Kafka};

/// What a request may take beyond the wait that it asks for.
const SLACK: Duration = Duration::from_secs(5);
const BACKOFF_FIRST: Duration = Duration::from_millis(20);
const BACKOFF_CAP: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRecord {
    pub offset: i64,
    pub key: Option<Bytes>,
    /// `None` is a tombstone of a compacted topic.
    pub value: Option<Bytes>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub timestamp_ms: i64,
}

impl RawRecord {
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(header, _)| header == name)?;
        std::str::from_utf8(value).ok()
    }

    /// Bytes of key, value and headers.
    pub fn size(&self) -> usize {
        self.key.as_ref().map_or(0, Bytes::len)
            + self.value.as_ref().map_or(0, Bytes::len)
            + self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }
}

/// Records in offset order (maybe none within the wait) and the offset behind the last one that all in-sync replicas have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub records: Vec<RawRecord>,
    pub high_watermark: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The log does not have this offset: it was deleted by retention, or it is beyond the end of a log that was lost. Where to go
    /// on is the caller's decision (rebuild, alarm), never a default.
    #[error("{at}: offset {offset} is not in the log")]
    OffsetOutOfRange { at: String, offset: i64 },
    /// The batch at this offset cannot be decoded, twice over. The position stays: dead-letter what is unreadable, probe forward
    /// with [`PartitionReader::seek`].
    #[error("{at}: what stands at offset {offset} cannot be decoded: {text}")]
    Malformed { at: String, offset: i64, text: String },
    #[error("{at}: there is no such topic or partition")]
    UnknownPartition { at: String },
    #[error("{at}: no answer within {after_ms} ms")]
    Timeout { at: String, after_ms: u64 },
    /// No broker, no leader, a broken connection. Call again; the reader waits before it tries.
    #[error("{at}: {text}")]
    Unavailable { at: String, text: String },
}

impl ReadError {
    /// Calling again may help; otherwise somebody has to decide.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Unavailable { .. } | Self::UnknownPartition { .. })
    }
}

pub struct PartitionReader {
    kafka: Kafka,
    topic: String,
    partition: i32,
    position: i64,
    reading: Link,
    asking: Link,
    failures: u32,
    stuck: u32,
}

/// A partition client and the generation of the client it came from.
#[derive(Default)]
struct Link {
    open: Option<Arc<PartitionClient>>,
    failed_generation: u64,
    generation: u64,
}

impl PartitionReader {
    /// Reads from `offset` on. Connects at the first call.
    pub fn open(kafka: &Kafka, topic: &str, partition: i32, offset: i64) -> Self {
        Self {
            kafka: kafka.clone(),
            topic: topic.to_owned(),
            partition,
            position: offset,
            reading: Link::default(),
            asking: Link::default(),
            failures: 0,
            stuck: 0,
        }
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }

    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The offset that the next fetch asks for.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// Moves the position, on purpose.
    pub fn seek(&mut self, offset: i64) {
        self.position = offset;
        self.stuck = 0;
    }

    /// Waits up to `max_wait` for at least one record, then returns what is there, about `max_bytes` of it. After an error it first
    /// waits (20 ms, growing to 500 ms), so a loop around it does not spin. Dropping the future moves nothing.
    pub async fn next(&mut self, max_wait: Duration, max_bytes: usize) -> Result<Fetched, ReadError> {
        self.pause().await;
        let mut result = self.fetch(max_wait, max_bytes).await;
        if let Err(ReadError::Malformed { text, .. }) = &result {
            // A bit that fell over on the way is no reason to stop a partition.
            tracing::warn!(
                topic = self.topic,
                partition = self.partition,
                offset = self.position,
                "fetched again: {text}"
            );
            result = self.fetch(max_wait, max_bytes).await;
        }
        match &result {
            Ok(fetched) => {
                self.failures = 0;
                if let Some(last) = fetched.records.last() {
                    self.position = last.offset + 1;
                }
            }
            Err(error) => {
                self.failures += 1;
                metrics::counter!(LINK_EVENTS_TOTAL, "link" => "kafka", "event" => kind(error)).increment(1);
            }
        }
        result
    }

    /// The first offset that the log still has.
    pub async fn earliest(&mut self) -> Result<i64, ReadError> {
        self.offset_at(OffsetAt::Earliest).await
    }

    /// The offset behind the last record (the high watermark).
    pub async fn latest(&mut self) -> Result<i64, ReadError> {
        self.offset_at(OffsetAt::Latest).await
    }

    /// The first offset whose record is not older than this; `None` if all are older.
    pub async fn at_time(&mut self, timestamp_ms: i64) -> Result<Option<i64>, ReadError> {
        let Some(time) = rskafka::chrono::DateTime::from_timestamp_millis(timestamp_ms) else {
            return Ok(None);
        };
        self.offset_at(OffsetAt::Timestamp(time)).await.map(|offset| (offset >= 0).then_some(offset))
    }

    async fn pause(&self) {
        if self.failures > 0 {
            let grown = BACKOFF_FIRST.saturating_mul(1 << (self.failures - 1).min(6));
            tokio::time::sleep(grown.min(BACKOFF_CAP)).await;
        }
    }

    async fn fetch(&mut self, max_wait: Duration, max_bytes: usize) -> Result<Fetched, ReadError> {
        let client = self.client(false).await?;
        let (offset, limit) = (self.position, max_wait + SLACK);
        let bytes = 1..i32::try_from(max_bytes).unwrap_or(i32::MAX).max(2);
        let wait_ms = i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX);
        let (records, high_watermark) =
            match tokio::time::timeout(limit, client.fetch_records(offset, bytes, wait_ms)).await {
                Ok(Ok(fetched)) => fetched,
                Ok(Err(error)) => return Err(self.failed(false, &error)),
                Err(_) => return Err(self.timed_out(false, limit)),
            };
        self.check_progress(&records, high_watermark)?;
        Ok(Fetched { records: records.into_iter().map(raw).collect(), high_watermark })
    }

    /// Nothing decoded although there is something: the library leaves out what it cannot show (control or emptied batches).
    fn check_progress(&mut self, records: &[RecordAndOffset], high_watermark: i64) -> Result<(), ReadError> {
        if !records.is_empty() || high_watermark <= self.position {
            self.stuck = 0;
            return Ok(());
        }
        self.stuck += 1;
        if self.stuck < 3 {
            return Ok(());
        }
        let text = format!("no record came three times, though the log goes on to {high_watermark}");
        Err(ReadError::Malformed { at: self.at(), offset: self.position, text })
    }

    async fn offset_at(&mut self, at: OffsetAt) -> Result<i64, ReadError> {
        self.pause().await;
        // On a connection of its own: behind a long poll it would wait for the poll's end.
        let client = self.client(true).await?;
        match tokio::time::timeout(SLACK, client.get_offset(at)).await {
            Ok(Ok(offset)) => {
                self.failures = 0;
                Ok(offset)
            }
            Ok(Err(error)) => {
                self.failures += 1;
                Err(self.failed(true, &error))
            }
            Err(_) => {
                self.failures += 1;
                Err(self.timed_out(true, SLACK))
            }
        }
    }

    async fn client(&mut self, asking: bool) -> Result<Arc<PartitionClient>, ReadError> {
        let link = if asking { &self.asking } else { &self.reading };
        if let Some(open) = &link.open {
            return Ok(open.clone());
        }
        let Fresh { generation, client } = match self.kafka.client(link.failed_generation).await {
            Ok(fresh) => fresh,
            Err(text) => return Err(ReadError::Unavailable { at: self.at(), text }),
        };
        let opening =
            client.partition_client(self.topic.clone(), self.partition, UnknownTopicHandling::Error);
        let opened = tokio::time::timeout(SLACK, opening).await;
        let link = if asking { &mut self.asking } else { &mut self.reading };
        link.generation = generation;
        match opened {
            Ok(Ok(opened)) => {
                let opened = Arc::new(opened);
                link.open = Some(opened.clone());
                Ok(opened)
            }
            Ok(Err(error)) => Err(self.failed(asking, &error)),
            Err(_) => Err(self.timed_out(asking, SLACK)),
        }
    }

    /// Gives the connection up; the next request makes a fresh one.
    fn give_up(&mut self, asking: bool) {
        let link = if asking { &mut self.asking } else { &mut self.reading };
        link.open = None;
        link.failed_generation = link.generation;
    }

    fn timed_out(&mut self, asking: bool, limit: Duration) -> ReadError {
        self.give_up(asking);
        ReadError::Timeout { at: self.at(), after_ms: limit.as_millis() as u64 }
    }

    fn failed(&mut self, asking: bool, error: &Error) -> ReadError {
        let (at, offset, text) = (self.at(), self.position, error.to_string());
        match error {
            // The broker answered and the connection is sound: keep it.
            Error::ServerError { protocol_error: ProtocolError::OffsetOutOfRange, .. } => {
                return ReadError::OffsetOutOfRange { at, offset };
            }
            _ => self.give_up(asking),
        }
        match error {
            Error::ServerError { protocol_error: ProtocolError::UnknownTopicOrPartition, .. } => {
                ReadError::UnknownPartition { at }
            }
            Error::ServerError { protocol_error: ProtocolError::CorruptMessage, .. } => {
                ReadError::Malformed { at, offset, text }
            }
            Error::Request(
                RequestError::ReadError(_)
                | RequestError::ReadVersionedError(_)
                | RequestError::TooMuchData { .. },
            ) if !asking => ReadError::Malformed { at, offset, text },
            // Said of records with a time that is none; the same words are used for missing metadata.
            Error::InvalidResponse(reason) if reason.to_lowercase().contains("timestamp") => {
                ReadError::Malformed { at, offset, text }
            }
            _ => ReadError::Unavailable { at, text },
        }
    }

    fn at(&self) -> String {
        format!("{}/{}", self.topic, self.partition)
    }
}

fn raw(record: RecordAndOffset) -> RawRecord {
    let RecordAndOffset { record, offset } = record;
    RawRecord {
        offset,
        key: record.key.map(Bytes::from),
        value: record.value.map(Bytes::from),
        headers: record.headers.into_iter().collect(),
        timestamp_ms: record.timestamp.timestamp_millis(),
    }
}

fn kind(error: &ReadError) -> &'static str {
    match error {
        ReadError::OffsetOutOfRange { .. } => "read_out_of_range",
        ReadError::Malformed { .. } => "read_malformed",
        ReadError::UnknownPartition { .. } => "read_unknown_partition",
        ReadError::Timeout { .. } => "read_timeout",
        ReadError::Unavailable { .. } => "read_unavailable",
    }
}
