//! rskafka and rdkafka as producers and as readers, in turns on the same broker (ADR 2).

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lapwing_links::kafka::{Kafka, Producer, ProducerOptions};

use crate::{
    report::Report,
    sample::{median, percentile, thousands},
    servers::{self, Needs},
};

mod producers;
mod readers;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(long, default_value_t = 300)]
    body: usize,
    /// Batches of each size in a round
    #[arg(long, default_value_t = 200)]
    batches: usize,
    /// Records of a throughput round
    #[arg(long, default_value_t = 200_000)]
    records: usize,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub(crate) const TOPIC: &str = "lapwing.p2p";
const SIZES: [usize; 5] = [1, 10, 50, 100, 200];
/// Produced by the product's producer, records a second.
const RATES: [u32; 3] = [200, 1000, 5000];
const READING: Duration = Duration::from_secs(2);

/// Both kinds of client for the same work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Library {
    Rdkafka,
    Rskafka,
}

const LIBRARIES: [Library; 2] = [Library::Rdkafka, Library::Rskafka];

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::Rdkafka => "rdkafka",
            Self::Rskafka => "rskafka",
        }
    }
}

/// A round's latencies in µs.
#[derive(Clone, Copy)]
struct Latency {
    p50: f64,
    p99: f64,
}

/// By library, then by batch size or rate, then by round.
struct Rounds {
    produce: [Vec<Vec<Latency>>; 2],
    read: [Vec<Vec<Latency>>; 2],
    produced: [Vec<f64>; 2],
    fetched: [Vec<f64>; 2],
}

pub(crate) async fn run(arguments: Arguments) -> Result<Report> {
    let command = format!("kafka --batches {} --rounds {}", arguments.batches, arguments.rounds);
    let mut report = Report::begin("kafka", "Kafka: rdkafka and rskafka", command);
    let infra = servers::start(Needs::Kafka).await?;
    let kafka = Kafka::new(&infra.kafka().brokers(), "bench");
    let product = Producer::new(&kafka, ProducerOptions::default())?;
    let plain = producers::Plain::open(&infra.kafka().brokers()).await?;
    let mut rounds = Rounds {
        produce: [vec![Vec::new(); SIZES.len()], vec![Vec::new(); SIZES.len()]],
        read: [vec![Vec::new(); RATES.len()], vec![Vec::new(); RATES.len()]],
        produced: Default::default(),
        fetched: Default::default(),
    };
    // One more in front, thrown away.
    for number in 0..=arguments.rounds {
        let quick = number == 0;
        for (place, size) in SIZES.into_iter().enumerate() {
            for (library, of) in LIBRARIES.into_iter().zip(&mut rounds.produce) {
                let count = if quick { 20 } else { arguments.batches };
                let seen = latency(library, &product, &plain, size, count, arguments.body).await?;
                if !quick {
                    of[place].push(seen);
                }
            }
        }
        for (place, rate) in RATES.into_iter().enumerate() {
            let time = if quick { READING / 10 } else { READING };
            for (library, of) in LIBRARIES.into_iter().zip(&mut rounds.read) {
                let mut times =
                    readers::latency(library, &kafka, &product, rate, time, arguments.body).await?;
                if !quick {
                    of[place].push(of_times(&mut times));
                }
            }
        }
        let count = if quick { arguments.records / 10 } else { arguments.records };
        for (library, of) in LIBRARIES.into_iter().enumerate().map(|(place, library)| (library, place)) {
            let produced = throughput(library, &product, &plain, count, arguments.body).await?;
            // What was just produced is read by the same library, from where it begins.
            let fetched = readers::throughput(library, &kafka, count).await?;
            if !quick {
                rounds.produced[of].push(produced);
                rounds.fetched[of].push(fetched);
            }
        }
    }
    drop(product);
    drop(infra);
    judge(&mut report, &rounds);
    Ok(report.end())
}

/// One batch at a time, from the first send to the last acknowledgement.
async fn latency(
    library: Library,
    product: &Producer,
    plain: &producers::Plain,
    size: usize,
    count: usize,
    body: usize,
) -> Result<Latency> {
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let records = producers::bodies(size, body);
        let began = Instant::now();
        match library {
            Library::Rdkafka => producers::rdkafka(product, (number % 8) as i32, &records).await?,
            Library::Rskafka => plain.produce(number % 8, records).await?,
        }
        times.push(began.elapsed().as_micros() as u32);
    }
    Ok(of_times(&mut times))
}

/// Records a second into one partition with 8 batches of 200 on their way.
async fn throughput(
    library: Library,
    product: &Producer,
    plain: &producers::Plain,
    count: usize,
    body: usize,
) -> Result<f64> {
    let began = Instant::now();
    match library {
        Library::Rdkafka => producers::rdkafka_much(product, count, body).await?,
        Library::Rskafka => plain.produce_much(count, body).await?,
    }
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

fn of_times(times: &mut [u32]) -> Latency {
    Latency { p50: percentile(times, 0.5), p99: percentile(times, 0.99) }
}

fn judge(report: &mut Report, rounds: &Rounds) {
    let shown = |of: &[Latency]| {
        let p50 = median(of.iter().map(|seen| seen.p50)) / 1000.0;
        let p99 = median(of.iter().map(|seen| seen.p99)) / 1000.0;
        format!("{p50:.2} / {p99:.2}")
    };
    let names = LIBRARIES.map(Library::name);
    report.note("Produce, one batch at a time, acks = all, P50 / P99 in ms, median of the rounds:");
    let rows = SIZES.iter().enumerate().map(|(place, size)| {
        vec![size.to_string(), shown(&rounds.produce[0][place]), shown(&rounds.produce[1][place])]
    });
    let rows: Vec<_> = rows.collect();
    report.table(&["records in a batch", names[0], names[1]], rows);
    report.note(
        "Produced by the product's rdkafka producer, from send to read-back by this reader, P50 / P99 in ms:",
    );
    let rows = RATES.iter().enumerate().map(|(place, rate)| {
        vec![rate.to_string(), shown(&rounds.read[0][place]), shown(&rounds.read[1][place])]
    });
    let rows: Vec<_> = rows.collect();
    report.table(&["records a second", names[0], names[1]], rows);
    let much =
        |of: &[Vec<f64>; 2]| of.each_ref().map(|of| format!("{}/s", thousands(median(of.iter().copied()))));
    let (produced, fetched) = (much(&rounds.produced), much(&rounds.fetched));
    let rows = vec![
        vec!["produced".to_owned(), produced[0].clone(), produced[1].clone()],
        vec!["fetched".to_owned(), fetched[0].clone(), fetched[1].clone()],
    ];
    report.note("Throughput, one partition, records a second:");
    report.table(&["", names[0], names[1]], rows);
    let p50 = |library: usize, of: &[Vec<Vec<Latency>>; 2], place: usize| {
        median(of[library][place].iter().map(|seen| seen.p50)) / 1000.0
    };
    // What ADR 2 rests on.
    let worst = |library: usize| {
        (0..SIZES.len()).map(|place| p50(library, &rounds.produce, place)).fold(0.0, f64::max)
    };
    let (ours, other) = (worst(0), worst(1));
    let goal = "ADR 2: the producer's worst P50 over the batch sizes is rdkafka's to win";
    report.goal(goal, format!("rdkafka {ours:.2} ms, rskafka {other:.2} ms"), ours < other);
    let pairs = (0..RATES.len()).map(|place| p50(1, &rounds.read, place) / p50(0, &rounds.read, place));
    let ratio = median(pairs);
    let goal = "ADR 2: read-back by rskafka is at most 1.25 × rdkafka's P50";
    report.goal(goal, format!("{ratio:.2} ×"), ratio <= 1.25);
}

/// Offsets must come without a gap, or what was measured is not the log.
pub(crate) fn follow(expected: &mut i64, offset: i64) -> Result<()> {
    ensure!(offset == *expected, "offset {offset} was read where {expected} was due");
    *expected += 1;
    Ok(())
}
