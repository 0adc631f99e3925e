use std::time::{Duration, Instant};

use lapwing_links::kafka::{
    AdminError, Kafka, PartitionReader, Producer, ProducerOptions, RawRecord, ReadError, TopicSpec,
};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::infra;

const SECOND: Duration = Duration::from_secs(1);
const TOPIC: &str = "lapwing.p2p";
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Reads until `count` records are there, over any temporary errors; answers those errors too.
async fn read(reader: &mut PartitionReader, count: usize) -> (Vec<RawRecord>, Vec<ReadError>) {
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while records.len() < count {
        assert!(start.elapsed() < Duration::from_secs(60), "{} of {count} read; {errors:?}", records.len());
        match reader.next(Duration::from_millis(500), 1 << 20).await {
            Ok(fetched) => records.extend(fetched.records),
            Err(error) if error.is_temporary() => errors.push(error),
            Err(error) => panic!("{error}"),
        }
    }
    (records, errors)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_is_read_back_in_order_with_its_headers() {
    let infra = infra().await;
    infra.kafka().start().await.unwrap();
    let kafka = Kafka::new(&infra.kafka().brokers(), "test");
    let producer = Producer::new(&kafka, ProducerOptions::default()).unwrap();
    let mut reader = PartitionReader::open(&kafka, TOPIC, 3, 0);
    assert_eq!((reader.earliest().await, reader.latest().await), (Ok(0), Ok(0)));

    let sends: Vec<_> = (0..1000)
        .map(|n| {
            producer.send(TOPIC, 3, b"conv", &[("traceparent", TRACE)], format!("{n}").as_bytes()).unwrap()
        })
        .collect();
    for (n, sent) in sends.into_iter().enumerate() {
        assert_eq!(sent.await, Ok(n as i64));
    }
    assert_eq!(producer.in_flight_bytes(), 0);
    let (records, _) = read(&mut reader, 1000).await;
    for (n, record) in records.iter().enumerate() {
        assert_eq!((record.offset, record.value.as_deref()), (n as i64, Some(format!("{n}").as_bytes())));
        assert_eq!(
            (record.key.as_deref(), record.header("traceparent")),
            (Some(b"conv".as_slice()), Some(TRACE))
        );
        assert!(record.timestamp_ms > 1_700_000_000_000);
    }
    assert_eq!((reader.position(), reader.latest().await), (1000, Ok(1000)));
    assert_eq!(reader.at_time(records[0].timestamp_ms).await, Ok(Some(0)));
    let empty = reader.next(Duration::from_millis(50), 1 << 20).await.unwrap();
    assert_eq!((empty.records.len(), empty.high_watermark), (0, 1000));

    // One at a time through the log and back, the path of a publish.
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        let sent = producer.send(TOPIC, 3, b"conv", &[], &[7; 300]).unwrap();
        let (records, _) = read(&mut reader, 1).await;
        assert_eq!(sent.await, Ok(records[0].offset));
        times.push(start.elapsed());
    }
    times.sort();
    eprintln!("produce + read back: P50 {:?}, P95 {:?}", times[100], times[190]);
    assert!(times[100] < Duration::from_millis(20), "{:?}", times[100]);
}

// A latest() behind a long poll on the same connection would wait for the poll's end (pitfalls.md)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offset_query_does_not_wait_behind_a_long_poll() {
    let infra = infra().await;
    infra.kafka().start().await.unwrap();
    let kafka = Kafka::new(&infra.kafka().brokers(), "test");
    let mut polling = PartitionReader::open(&kafka, TOPIC, 0, 0);
    let mut asking = PartitionReader::open(&kafka, TOPIC, 0, 0);
    asking.latest().await.unwrap();
    polling.next(Duration::from_millis(10), 1 << 20).await.unwrap();
    let poll = polling.next(Duration::from_secs(3), 1 << 20);
    let ask = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let start = Instant::now();
        asking.latest().await.unwrap();
        start.elapsed()
    };
    let (polled, asked) = tokio::join!(poll, ask);
    assert!(polled.unwrap().records.is_empty());
    assert!(asked < Duration::from_millis(500), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_position_never_jumps() {
    let infra = infra().await;
    infra.kafka().start().await.unwrap();
    let kafka = Kafka::new(&infra.kafka().brokers(), "test");
    let mut beyond = PartitionReader::open(&kafka, TOPIC, 0, 10_000);
    for _ in 0..2 {
        let error = beyond.next(Duration::from_millis(50), 1 << 20).await.unwrap_err();
        assert_eq!(error, ReadError::OffsetOutOfRange { at: "lapwing.p2p/0".to_owned(), offset: 10_000 });
        assert!(!error.is_temporary());
        assert_eq!(beyond.position(), 10_000);
    }
    let start = Instant::now();
    let mut nowhere = PartitionReader::open(&kafka, "lapwing.none", 0, 0);
    let error = nowhere.next(Duration::from_millis(50), 1 << 20).await.unwrap_err();
    assert_eq!(error, ReadError::UnknownPartition { at: "lapwing.none/0".to_owned() });
    assert!(start.elapsed() < Duration::from_secs(5));

    // A record that the library cannot decode: a header without a value (pitfalls.md)
    let foreign: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", infra.kafka().brokers())
        .set("linger.ms", "0")
        .create()
        .unwrap();
    for n in 0..3 {
        let value: Option<&str> = if n == 1 { None } else { Some("x") };
        let headers = OwnedHeaders::new().insert(Header { key: "h", value });
        let payload = format!("{n}");
        let record = FutureRecord::<str, str>::to(TOPIC).partition(5).payload(&payload).headers(headers);
        foreign.send(record, SECOND).await.unwrap();
    }
    let mut reader = PartitionReader::open(&kafka, TOPIC, 5, 0);
    let mut seen = Vec::new();
    let mut unreadable = Vec::new();
    while reader.position() < 3 {
        // Small fetches, so that what is sound before the bad record is had first.
        match reader.next(Duration::from_millis(200), 100).await {
            Ok(fetched) => seen.extend(fetched.records.into_iter().map(|record| record.offset)),
            Err(ReadError::Malformed { offset, .. }) => {
                unreadable.push(offset);
                reader.seek(offset + 1);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((seen, unreadable), (vec![0, 2], vec![1]));
}

// R-REL: Kafka killed and started again, and paused; nothing lost, doubled or out of order
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producer_and_reader_outlive_a_kill_and_a_pause_of_the_broker() {
    let infra = infra().await;
    infra.kafka().start().await.unwrap();
    let kafka = Kafka::new(&infra.kafka().brokers(), "test");
    let producer = Producer::new(&kafka, ProducerOptions::default()).unwrap();
    const COUNT: usize = 3000;

    let sending = async {
        let mut sent = Vec::new();
        for n in 0..COUNT {
            sent.push(producer.send(TOPIC, 1, b"", &[], format!("{n}").as_bytes()).unwrap());
            tokio::time::sleep(Duration::from_millis(6)).await;
        }
        let mut offsets = Vec::new();
        for sent in sent {
            offsets.push(sent.await.unwrap());
        }
        offsets
    };
    let reading = async {
        let mut reader = PartitionReader::open(&kafka, TOPIC, 1, 0);
        let result = read(&mut reader, COUNT).await;
        assert_eq!(reader.latest().await, Ok(COUNT as i64));
        result
    };
    let faults = async {
        tokio::time::sleep(SECOND).await;
        infra.kafka().kill9().await;
        infra.kafka().start().await.unwrap();
        tokio::time::sleep(SECOND).await;
        infra.kafka().pause().unwrap();
        tokio::time::sleep(Duration::from_secs(7)).await;
        infra.kafka().resume().unwrap();
    };
    let (offsets, (records, errors), ()) = tokio::join!(sending, reading, faults);
    assert_eq!(offsets, (0..COUNT as i64).collect::<Vec<_>>(), "acknowledged in the order of the calls");
    let values: Vec<String> =
        records.iter().map(|r| String::from_utf8(r.value.clone().unwrap().to_vec()).unwrap()).collect();
    assert_eq!(values, (0..COUNT).map(|n| n.to_string()).collect::<Vec<_>>());
    eprintln!("the reader saw {} errors, such as {:?}", errors.len(), errors.first());
    assert!(!errors.is_empty(), "the faults did not bite");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_made_with_their_settings_and_never_changed() {
    let infra = infra().await;
    infra.kafka().start().await.unwrap();
    let kafka = Kafka::new(&infra.kafka().brokers(), "test");
    let spec = |name: &str, partitions| TopicSpec {
        name: name.to_owned(),
        partitions,
        replication: 1,
        settings: vec![("cleanup.policy".to_owned(), "compact".to_owned())],
    };
    assert_eq!(kafka.partition_count(TOPIC).await, Ok(Some(8)));
    assert_eq!(kafka.topic_exists("t.new").await, Ok(false));
    for _ in 0..2 {
        kafka.ensure_topics(&[spec("t.new", 4), spec(TOPIC, 8)]).await.unwrap();
    }
    assert_eq!(kafka.partition_count("t.new").await, Ok(Some(4)));
    let other = kafka.ensure_topics(&[spec("t.new", 8)]).await.unwrap_err();
    assert_eq!(other, AdminError::OtherPartitionCount { topic: "t.new".to_owned(), found: 4, expected: 8 });
    infra.kafka().kill9().await;
    let start = Instant::now();
    assert!(matches!(kafka.topics().await, Err(AdminError::Unavailable(_))));
    assert!(start.elapsed() < Duration::from_secs(16));
    infra.kafka().start().await.unwrap();
    assert_eq!(kafka.partition_count(TOPIC).await, Ok(Some(8)));
}
