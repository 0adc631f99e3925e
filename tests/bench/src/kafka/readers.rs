//! The product's reader (rskafka, long poll), and rdkafka's consumer on an assigned partition.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lapwing_links::kafka::{Kafka, PartitionReader, Producer};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{Consumer, StreamConsumer},
    message::Message,
};

use super::{Library, TOPIC, follow};

const PARTITION: i32 = 0;
const LONG_POLL: Duration = Duration::from_secs(1);
const FETCH_BYTES: usize = 4 << 20;
const SILENCE: Duration = Duration::from_secs(10);

/// Reads one partition in order, whichever library does it.
enum Reader {
    Plain { consumer: Box<StreamConsumer> },
    Product(Box<PartitionReader>),
}

impl Reader {
    fn open(library: Library, kafka: &Kafka, from: i64) -> Result<Self> {
        if library == Library::Rskafka {
            return Ok(Self::Product(Box::new(PartitionReader::open(kafka, TOPIC, PARTITION, from))));
        }
        let consumer: StreamConsumer = ClientConfig::new()
            .set("bootstrap.servers", kafka.brokers())
            .set("group.id", "bench")
            .set("enable.auto.commit", "false")
            .set("fetch.min.bytes", "1")
            .set("fetch.wait.max.ms", "1000")
            .set("socket.nagle.disable", "true")
            .create()
            .context("rdkafka consumer")?;
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition_offset(TOPIC, PARTITION, Offset::Offset(from))?;
        consumer.assign(&partitions)?;
        Ok(Self::Plain { consumer: Box::new(consumer) })
    }

    /// Offsets and values of what is there, at least one.
    async fn next(&mut self) -> Result<Vec<(i64, Option<u64>)>> {
        let stamp = |value: &[u8]| value.get(..8)?.try_into().ok().map(u64::from_be_bytes);
        let read = async {
            match self {
                Self::Plain { consumer } => {
                    let message = consumer.recv().await?;
                    Ok(vec![(message.offset(), message.payload().and_then(stamp))])
                }
                Self::Product(reader) => loop {
                    let fetched = reader.next(LONG_POLL, FETCH_BYTES).await?;
                    if !fetched.records.is_empty() {
                        let of = |record: lapwing_links::kafka::RawRecord| {
                            (record.offset, record.value.as_deref().and_then(stamp))
                        };
                        return Ok(fetched.records.into_iter().map(of).collect());
                    }
                },
            }
        };
        match tokio::time::timeout(SILENCE, read).await {
            Ok(read) => read,
            Err(_) => bail!("nothing was read for 10 s"),
        }
    }
}

async fn end(kafka: &Kafka) -> Result<i64> {
    Ok(PartitionReader::open(kafka, TOPIC, PARTITION, 0).latest().await?)
}

/// Send → read, in µs: the product's producer at so many records a second, each with the time of its sending in it.
pub(crate) async fn latency(
    library: Library,
    kafka: &Kafka,
    producer: &Producer,
    rate: u32,
    time: Duration,
    body: usize,
) -> Result<Vec<u32>> {
    let mut expected = end(kafka).await?;
    let mut reader = Reader::open(library, kafka, expected)?;
    // One record in front: the reader is connected and waits when the measuring begins.
    producer.send(TOPIC, PARTITION, b"key", &[], &stamped(Duration::ZERO, body))?.await?;
    for (offset, _) in reader.next().await? {
        follow(&mut expected, offset)?;
    }
    let began = Instant::now();
    let count = (f64::from(rate) * time.as_secs_f64()) as usize;
    let sending = async {
        let step = Duration::from_secs_f64(1.0 / f64::from(rate));
        let mut ticks = tokio::time::interval(step.max(Duration::from_millis(1)));
        let mut sent = 0;
        while sent < count {
            ticks.tick().await;
            let due = (began.elapsed().as_secs_f64() * f64::from(rate)) as usize + 1;
            while sent < due.min(count) {
                // The outcome is what is read back.
                drop(producer.send(TOPIC, PARTITION, b"key", &[], &stamped(began.elapsed(), body))?);
                sent += 1;
            }
        }
        Ok(())
    };
    let reading = async {
        let mut times = Vec::with_capacity(count);
        while times.len() < count {
            let batch = reader.next().await?;
            let now = began.elapsed().as_micros() as u64;
            for (offset, stamp) in batch {
                follow(&mut expected, offset)?;
                let sent = stamp.context("a record without its time")?;
                times.push(now.saturating_sub(sent) as u32);
            }
        }
        Ok::<_, anyhow::Error>(times)
    };
    let ((), times) = tokio::try_join!(sending, reading)?;
    Ok(times)
}

fn stamped(at: Duration, body: usize) -> Vec<u8> {
    let mut value = vec![b'x'; body.max(8)];
    value[..8].copy_from_slice(&(at.as_micros() as u64).to_be_bytes());
    value
}

/// The newest `count` records of the partition, records a second, connecting included.
pub(crate) async fn throughput(library: Library, kafka: &Kafka, count: usize) -> Result<f64> {
    let end = end(kafka).await?;
    let mut expected = end - count as i64;
    ensure!(expected >= 0, "there are only {end} records");
    let began = Instant::now();
    let mut reader = Reader::open(library, kafka, expected)?;
    while expected < end {
        let batch = reader.next().await?;
        for (offset, _) in batch {
            follow(&mut expected, offset)?;
        }
    }
    Ok(count as f64 / began.elapsed().as_secs_f64())
}
