//! Records applied a second on one real Redis: the product's batches, one script call a record, and the field's five commands.
//! All in one run, in turns, the median of the rounds.

use std::time::{Duration, Instant};

use ::redis::aio::MultiplexedConnection;
use anyhow::{Context, Result, ensure};
use lapwing_links::redis::Redis;
use lapwing_model::{Family, Op, PartitionId, Position, bucket::USER_SHARDS};
use lapwing_runtime::SecretUrl;
use lapwing_views::{Applied, Expect, Piece, Section, Views};

use crate::{
    records,
    report::Report,
    sample::{median, thousands},
    servers::{self, Needs},
};

mod baselines;
mod product;

const PARTITIONS: u32 = 8;
/// Of the baselines.
pub(crate) const IN_FLIGHT: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(30);

/// `stack.md`, 64 single script calls joined: calls a second.
const KNOWN_SINGLE: f64 = 109_000.0;
/// 64 conversations a call: conversations a second.
const KNOWN_BATCHED: f64 = 215_000.0;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Records of a batched round and of one with a call a record; the step-by-step rounds take a quarter
    #[arg(long, default_value_t = 120_000)]
    records: usize,
    #[arg(long, default_value_t = 1000)]
    conversations: usize,
    #[arg(long, default_value_t = 300)]
    body: usize,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Product,
    CallEach,
    StepByStep,
    PlainSteps,
    Single,
    Batched,
}

const WAYS: [Way; 6] =
    [Way::Product, Way::CallEach, Way::StepByStep, Way::PlainSteps, Way::Single, Way::Batched];

impl Way {
    fn shown(self) -> &'static str {
        match self {
            Way::Product => "product, batched (records)",
            Way::CallEach => "(a) one script call a record, 64 in flight (records)",
            Way::StepByStep => "(b) five prepared scripts a record in turn, 64 records in flight (records)",
            Way::PlainSteps => "the same five as plain commands (records)",
            Way::Single => "yardstick: INCR + SET NX in a script, 64 single calls in flight (calls)",
            Way::Batched => "yardstick: the same, 64 conversations a call (conversations)",
        }
    }
}

struct Round {
    a_second: f64,
    /// Microseconds of CPU each: Redis, and this program.
    redis: f64,
    own: f64,
}

struct Place {
    redis: Redis,
    views: Views,
    /// For what the product's own link has no call for.
    raw: MultiplexedConnection,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Report> {
    let command = format!("apply --records {} --rounds {}", arguments.records, arguments.rounds);
    let mut report = Report::begin("apply", "Apply: records into one Redis", command);
    let infra = servers::start(Needs::Redis).await?;
    let url = infra.redis().url();
    let redis = Redis::open("bench", &SecretUrl::new(url.clone()))?;
    let info = ::redis::IntoConnectionInfo::into_connection_info(&*url)?
        .set_tcp_settings(::redis::io::tcp::TcpSettings::default().set_nodelay(true));
    let config = ::redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let raw = ::redis::Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await?;
    let place = Place { views: Views::single(redis.clone(), PARTITIONS), redis, raw };
    let mut rounds: Vec<Vec<Round>> = WAYS.iter().map(|_| Vec::new()).collect();
    // One more in front, thrown away: connections, script caches, allocators.
    for number in 0..=arguments.rounds {
        for (way, into) in WAYS.into_iter().zip(&mut rounds) {
            let round = one(&place, way, number, &arguments).await?;
            if number > 0 {
                into.push(round);
            }
        }
    }
    drop(infra);
    report.note(servers::REDIS_NOTE);
    judge(&mut report, &rounds);
    Ok(report.end())
}

async fn one(place: &Place, way: Way, number: usize, arguments: &Arguments) -> Result<Round> {
    place.redis.command("flush", &["FLUSHALL", "SYNC"], TIMEOUT).await?;
    let all = if number == 0 { arguments.records / 10 } else { arguments.records };
    let count = if matches!(way, Way::StepByStep | Way::PlainSteps) { all / 4 } else { all };
    let tenant = format!("bench-{number}");
    // With a call a record the calls of one partition wait for each other, so there are as many partitions as calls in flight.
    let partitions = if way == Way::CallEach { IN_FLIGHT as u32 } else { PARTITIONS };
    let shape = records::Shape { conversations: arguments.conversations, body: arguments.body, partitions };
    let records = match way {
        Way::Single | Way::Batched => Vec::new(),
        _ => records::of(&tenant, count, &shape),
    };
    let heads = matches!(way, Way::Product | Way::CallEach).then(|| records::heads(&records));
    let own = || crate::machine::cpu(std::process::id());
    let (before, own_before, began) = (redis_cpu(&place.redis).await?, own(), Instant::now());
    match way {
        Way::Product => product::apply(&place.views, records).await?,
        Way::CallEach => baselines::call_each(&place.views, records).await?,
        Way::StepByStep => baselines::step_by_step(&place.raw, &records, true).await?,
        Way::PlainSteps => baselines::step_by_step(&place.raw, &records, false).await?,
        Way::Single => baselines::scripts(&place.raw, count, 1).await?,
        Way::Batched => baselines::scripts(&place.raw, count, 64).await?,
    }
    let seconds = began.elapsed().as_secs_f64();
    let (used, own) = (redis_cpu(&place.redis).await? - before, own() - own_before);
    if let Some(heads) = heads {
        whole(&place.raw, count as u64, &heads).await?;
    }
    Ok(Round {
        a_second: count as f64 / seconds,
        redis: used * 1e6 / count as f64,
        own: own * 1e6 / count as f64,
    })
}

/// CPU seconds that the instance has used, by its own count (in microseconds, unlike /proc).
async fn redis_cpu(redis: &Redis) -> Result<f64> {
    let answer = redis.command("info", &["INFO", "cpu"], TIMEOUT).await?;
    let text: String = lapwing_links::redis::from_redis_value(answer).context("INFO cpu")?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse::<f64>().ok())
    };
    let sum = of("used_cpu_user").zip(of("used_cpu_sys")).map(|(user, sys)| user + sys);
    sum.with_context(|| format!("INFO cpu has no used_cpu_user: {text}"))
}

fn judge(report: &mut Report, rounds: &[Vec<Round>]) {
    let speed = |way: Way| median(rounds[way as usize].iter().map(|round| round.a_second));
    let rows = WAYS.map(|way| {
        let of = &rounds[way as usize];
        let spread = of.iter().map(|round| round.a_second);
        let (low, high) = (spread.clone().fold(f64::MAX, f64::min), spread.fold(0.0, f64::max));
        vec![
            way.shown().to_owned(),
            thousands(speed(way)),
            format!("{}–{}", thousands(low), thousands(high)),
            format!("{:.1} µs", median(of.iter().map(|round| round.redis))),
            format!("{:.1} µs", median(of.iter().map(|round| round.own))),
        ]
    });
    let head = ["way", "a second (median)", "lowest–highest round", "CPU of Redis each", "of its client"];
    report.table(&head, rows.to_vec());
    // A round's ways ran next to each other, so the ratio is taken round by round.
    let ratio = |way: Way| {
        let pairs = rounds[Way::Product as usize].iter().zip(&rounds[way as usize]);
        median(pairs.map(|(product, other)| product.a_second / other.a_second))
    };
    let (product, single) = (speed(Way::Product), speed(Way::Single));
    let (to_a, to_b) = (ratio(Way::CallEach), ratio(Way::StepByStep));
    report.goal("≥ 50,000 records/s applied", format!("{}/s", thousands(product)), product >= 50_000.0);
    report.goal("≥ 1.3 × (a)", format!("{to_a:.2} ×"), to_a >= 1.3);
    report.goal("≥ 4 × (b)", format!("{to_b:.2} ×"), to_b >= 4.0);
    let plain = ratio(Way::PlainSteps);
    report.figure("against the five as plain commands, which no goal names", format!("{plain:.2} ×"));
    // The baselines' clients are no straw men: they reach what such calls are known to reach.
    for (what, seen, known) in [
        ("64 single calls", single, KNOWN_SINGLE),
        ("64 conversations a call", speed(Way::Batched), KNOWN_BATCHED),
        ("(b)'s single calls", 5.0 * speed(Way::StepByStep), KNOWN_SINGLE),
    ] {
        let goal = format!("baseline: {what} within 30 % of {} or above", thousands(known));
        report.goal(goal, format!("{}/s", thousands(seen)), seen >= 0.7 * known);
    }
}

/// All that was to be applied stands there, each once: else the round is no result.
async fn whole(connection: &MultiplexedConnection, count: u64, heads: &[(String, u64)]) -> Result<()> {
    let ask = |verb: &str, key: String| {
        let (mut connection, mut command) = (connection.clone(), ::redis::cmd(verb));
        command.arg(key);
        async move { command.query_async::<u64>(&mut connection).await }
    };
    let mut events = 0;
    for (place, head) in heads {
        let mut asked = ::redis::cmd("HGET");
        let found: Option<u64> =
            asked.arg(format!("head:{place}")).arg("h").query_async(&mut connection.clone()).await?;
        ensure!(found == Some(*head), "head:{place} is {found:?}, not {head}");
        events += ask("LLEN", format!("hot:{place}")).await?;
    }
    ensure!(events == count, "{events} events in the hot windows, not {count}");
    let mids: Vec<String> = ::redis::cmd("KEYS").arg("mid:*").query_async(&mut connection.clone()).await?;
    let counted = futures::future::try_join_all(mids.into_iter().map(|key| ask("HLEN", key))).await?;
    let mids: u64 = counted.into_iter().sum();
    ensure!(mids == count, "{mids} client_mids in the dedupe window, not {count}");
    Ok(())
}

pub(crate) fn section(
    id: &PartitionId,
    family: Family,
    (from, to): (Position, Position),
    ops: Vec<Op>,
) -> Section {
    let piece = match family {
        Family::Commit => Piece::commit(0),
        Family::User => Piece { family, first: 0, last: USER_SHARDS - 1, instance: 0 },
    };
    Section::new(id, piece, Expect::Move(from, to), ops)
}

pub(crate) async fn call(views: &Views, sections: &[Section]) -> Result<Vec<Applied>> {
    Ok(views.apply(0, sections).await?)
}

/// Every section must have been taken: a baseline that is refused would be fast.
pub(crate) fn all_applied(answers: &[Applied]) -> Result<()> {
    let well = answers.iter().all(|answer| *answer == Applied::Ok);
    ensure!(well, "a section was not applied: {answers:?}");
    Ok(())
}
