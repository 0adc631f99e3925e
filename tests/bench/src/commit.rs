//! Accepted messages a second: real routers, Kafka and Redis, fed in process; beside it the way through NATS and a gateway.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use lapwing_model::{
    Kind, PartitionId,
    bucket::{self, BUCKETS, USER_SHARDS},
};
use lapwing_servers::{Cluster, Infra, Options, install, ports, redis::Redis};

use crate::{
    feed::{Answer, Order, StageTime},
    machine,
    report::Report,
    sample::thousands,
    servers::{self, Needs},
};

mod fed;
mod gateway;

use fed::Fed;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Of the run without a limit
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    #[arg(long, default_value_t = 1000)]
    conversations: usize,
    #[arg(long, default_value_t = 300)]
    body: usize,
    /// Messages under way, at most one a session; two sessions a conversation
    #[arg(long, default_value_t = 2000)]
    in_flight: usize,
    /// Further runs with so many routers, each fed its own partitions
    #[arg(long, value_delimiter = ',', default_value = "2,4")]
    routers: Vec<usize>,
    /// Further runs with the views on so many Redis instances
    #[arg(long, value_delimiter = ',', default_value = "2,4")]
    redis: Vec<usize>,
    /// Only the run without a limit: no light load, no ladder, no gateway
    #[arg(long)]
    only: bool,
}

/// Of the runs beside the main one.
const SHORT: f64 = 10.0;
const PARTITIONS: u32 = 8;
/// On a slow machine four routers, Kafka and Redis take their time to start.
const SHARES: usize = 90;
/// Messages a second that count as light load.
const LIGHT: f64 = 100.0;

struct Seen {
    answer: Answer,
    /// CPU seconds of the fed processes, Kafka, Redis, and all of the machine.
    router: f64,
    kafka: f64,
    redis: f64,
    busy: f64,
}

impl Seen {
    fn a_second(&self) -> f64 {
        self.answer.accepted as f64 / self.answer.seconds
    }

    fn each(&self, cpu: f64) -> String {
        format!("{:.1} µs", cpu * 1e6 / self.answer.accepted.max(1) as f64)
    }

    /// Cores that others used meanwhile.
    fn others(&self) -> f64 {
        (self.busy - self.router - self.kafka - self.redis).max(0.0) / self.answer.seconds
    }
}

struct Bench {
    infra: Infra,
    /// Beside the first one.
    more_redis: Vec<Redis>,
    fed: Vec<Fed>,
    /// Each set of conversations has a tenant of its own, so that nothing is a duplicate of an earlier run.
    tenants: u32,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Report> {
    let command = format!(
        "commit --seconds {} --in-flight {}{}",
        arguments.seconds,
        arguments.in_flight,
        if arguments.only { " --only" } else { "" }
    );
    let mut report = Report::begin("commit", "Commit: messages accepted by one router", command);
    let mut bench = Bench {
        infra: servers::start(Needs::Routers).await?,
        more_redis: Vec::new(),
        fed: Vec::new(),
        tenants: 0,
    };
    report.note(servers::REDIS_NOTE);
    bench.routers(1, &arguments).await?;
    // Caches, connections, the JVM.
    bench.feed(SHORT / 2.0, arguments.in_flight, None).await?;
    let most = bench.feed(arguments.seconds, arguments.in_flight, None).await?;
    throughput(&mut report, &most, &arguments);
    if !arguments.only {
        let light = bench.feed(SHORT, arguments.in_flight, Some(LIGHT)).await?;
        let shown = shown_latency(&light);
        report.figure(format!("reply at {LIGHT} messages/s, in process"), shown);
        shares(&mut report, &mut bench, &arguments, &light, most.a_second()).await?;
        ladder(&mut report, &mut bench, &arguments, &most).await?;
    }
    bench.stop().await?;
    if !arguments.only {
        through_gateway(&mut report, bench.infra, &arguments).await?;
    }
    Ok(report.end())
}

/// Rendezvous hashing gives some sets of names very uneven shares of eight partitions; of these each has its even one.
fn names(count: usize) -> Vec<String> {
    let even = |names: &Vec<String>| {
        let mut shares = vec![0; names.len()];
        for partition in 0..PARTITIONS {
            let id = PartitionId::new(Kind::P2p.topic(), partition).to_string();
            let owner = bucket::rendezvous(&id, names.iter().map(String::as_str));
            if let Some(place) = names.iter().position(|name| Some(name.as_str()) == owner) {
                shares[place] += 1;
            }
        }
        shares.iter().all(|share| *share == PARTITIONS as usize / names.len())
    };
    let set = |turn: u32| (1..=count).map(|number| format!("r{turn}-{number}")).collect();
    (0..10_000).map(set).find(even).unwrap_or_else(|| set(0))
}

impl Bench {
    /// So many fed routers instead of those before, ready and with conversations that belong to them.
    async fn routers(&mut self, count: usize, arguments: &Arguments) -> Result<()> {
        self.stop().await?;
        let urls = std::iter::once(self.infra.redis().url()).chain(self.more_redis.iter().map(|of| of.url()));
        let views = spread(&urls.collect::<Vec<_>>());
        for name in names(count) {
            self.fed.push(Fed::start(&name, &self.infra, &views)?);
        }
        // Whoever starts first takes everything and then gives shares away: asked until the shares make the whole.
        for _ in 0..SHARES {
            self.tenants += 1;
            let order = Order::Prepare {
                tenant: format!("t-bench-{}", self.tenants),
                conversations: arguments.conversations,
                body: arguments.body,
            };
            let asked = self.fed.iter_mut().map(|fed| fed.ask(&order, Duration::from_secs(60)));
            let made = futures::future::try_join_all(asked).await?;
            if made.iter().map(|answer| answer.conversations).sum::<usize>() == arguments.conversations
                && made.iter().all(|answer| answer.conversations > 0)
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        bail!(
            "{count} routers did not share the partitions out, each at least one, within {SHARES} looks a second apart"
        )
    }

    async fn feed(&mut self, seconds: f64, in_flight: usize, rate: Option<f64>) -> Result<Seen> {
        let routers: Vec<u32> = self.fed.iter().map(Fed::pid).collect();
        let kafka: Vec<u32> = self.infra.kafka().pid().into_iter().collect();
        let redis =
            std::iter::once(self.infra.redis().pid()).chain(self.more_redis.iter().map(|of| of.pid()));
        let redis: Vec<u32> = redis.flatten().collect();
        let used = || {
            let [routers, kafka, redis] =
                [&routers, &kafka, &redis].map(|all| all.iter().map(|pid| machine::cpu(*pid)).sum());
            [routers, kafka, redis, machine::busy()]
        };
        let share = self.fed.len();
        let order =
            Order::Run { seconds, in_flight: in_flight / share, rate: rate.map(|rate| rate / share as f64) };
        let before: [f64; 4] = used();
        let limit = Duration::from_secs_f64(seconds + 60.0);
        let answers =
            futures::future::try_join_all(self.fed.iter_mut().map(|fed| fed.ask(&order, limit))).await?;
        let after = used();
        let [router, kafka, redis, busy] = std::array::from_fn(|place| after[place] - before[place]);
        let answer = together(answers);
        ensure!(answer.wrong == 0, "{} conversations have seqs that are not 1 … n", answer.wrong);
        ensure!(answer.accepted > 0, "nothing was accepted: {}", answer.refusal);
        Ok(Seen { answer, router, kafka, redis, busy })
    }

    /// So many instances, which begin with nothing.
    async fn redis(&mut self, count: usize) -> Result<()> {
        self.stop().await?;
        let tools = install::ensure().await?;
        while self.more_redis.len() + 1 < count {
            let folder = self.infra.folder().join(format!("redis{}", self.more_redis.len() + 2));
            let redis = Redis::prepare(&tools, &folder, ports::any()?, false)?;
            redis.start().await?;
            servers::no_rewrite(&redis.url()).await?;
            self.more_redis.push(redis);
        }
        Ok(())
    }

    async fn stop(&mut self) -> Result<()> {
        for fed in std::mem::take(&mut self.fed) {
            fed.stop().await?;
        }
        Ok(())
    }
}

/// Sums; of the latencies the worst.
fn together(answers: Vec<Answer>) -> Answer {
    let mut whole = Answer::default();
    for answer in answers {
        whole.conversations += answer.conversations;
        whole.accepted += answer.accepted;
        whole.refused += answer.refused;
        whole.seconds = whole.seconds.max(answer.seconds);
        whole.p50_us = whole.p50_us.max(answer.p50_us);
        whole.p99_us = whole.p99_us.max(answer.p99_us);
        whole.max_us = whole.max_us.max(answer.max_us);
        whole.wrong += answer.wrong;
        whole.unapplied += answer.unapplied;
        whole.catch_up_s = whole.catch_up_s.max(answer.catch_up_s);
        if whole.refusal.is_empty() {
            whole.refusal = answer.refusal;
        }
        if whole.stages.is_empty() {
            whole.stages = answer.stages;
        }
    }
    whole
}

fn shown_latency(seen: &Seen) -> String {
    let ms = |us: f64| us / 1000.0;
    let of = &seen.answer;
    format!("P50 {:.2} ms · P99 {:.2} ms · max {:.1} ms", ms(of.p50_us), ms(of.p99_us), ms(of.max_us))
}

fn throughput(report: &mut Report, most: &Seen, arguments: &Arguments) {
    let (a_second, answer) = (most.a_second(), &most.answer);
    report.figure(
        format!("accepted, {} conversations, {} B, apply on", arguments.conversations, arguments.body),
        format!("{}/s over {:.0} s, {} refused", thousands(a_second), answer.seconds, answer.refused),
    );
    if !answer.refusal.is_empty() {
        report.note(format!("The first refusal: {}", answer.refusal));
    }
    report.figure("reply without a limit", shown_latency(most));
    report.figure(
        "records that the views did not have at the last reply",
        format!("{}, applied {:.1} s later", thousands(answer.unapplied as f64), answer.catch_up_s),
    );
    report.figure("CPU a message: router with its feeder", most.each(most.router));
    report.figure("CPU a message: Kafka", most.each(most.kafka));
    report.figure("CPU a message: Redis", most.each(most.redis));
    report.figure("cores used by others meanwhile", format!("{:.2}", most.others()));
    let goal = "≥ 50,000 accepted/s, fed in process";
    report.goal(goal, format!("{}/s", thousands(a_second)), a_second >= 50_000.0);
}

/// Stage latencies at parts of the limit.
async fn shares(
    report: &mut Report,
    bench: &mut Bench,
    arguments: &Arguments,
    light: &Seen,
    limit: f64,
) -> Result<()> {
    let cell = |stage: &StageTime| format!("{:.2} / {:.2}", stage.p50_ms, stage.p99_ms);
    let mut rows: Vec<Vec<String>> =
        light.answer.stages.iter().map(|stage| vec![stage.stage.clone(), cell(stage)]).collect();
    for share in [0.25, 0.5, 0.75] {
        let seen = bench.feed(SHORT, arguments.in_flight, Some(limit * share)).await?;
        let name = format!("{:.0} % of the limit ({}/s)", share * 100.0, thousands(limit * share));
        report.figure(
            format!("reply at {name}"),
            format!("{}, {}/s accepted", shown_latency(&seen), thousands(seen.a_second())),
        );
        for stage in &seen.answer.stages {
            if let Some(row) = rows.iter_mut().find(|row| row[0] == stage.stage) {
                row.push(cell(stage));
            }
        }
    }
    report.note("Stage latencies, P50 / P99 in ms, from the buckets of `lapwing_stage_seconds`:");
    let light = format!("at {LIGHT}/s");
    report.table(&["stage", &light, "at 25 %", "at 50 %", "at 75 %"], rows);
    Ok(())
}

async fn ladder(report: &mut Report, bench: &mut Bench, arguments: &Arguments, one: &Seen) -> Result<()> {
    let row = |count: usize, seen: &Seen| {
        let [router, kafka, redis] = [seen.router, seen.kafka, seen.redis].map(|cpu| seen.each(cpu));
        vec![
            count.to_string(),
            format!("{}/s", thousands(seen.a_second())),
            shown_latency(seen),
            router,
            kafka,
            redis,
        ]
    };
    let mut rows = vec![row(1, one)];
    for &count in &arguments.routers {
        bench.routers(count, arguments).await?;
        bench.feed(SHORT / 4.0, arguments.in_flight, None).await?;
        rows.push(row(count, &bench.feed(SHORT, arguments.in_flight, None).await?));
    }
    report.note("Routers on the same cores, each a process with a feeder of its own:");
    let cpu = ["accepted", "reply", "CPU a message: routers", "Kafka", "Redis"];
    report.table(&[&["routers"], &cpu[..]].concat(), rows);
    let mut rows = vec![row(1, one)];
    for &count in &arguments.redis {
        bench.redis(count).await?;
        bench.routers(1, arguments).await?;
        bench.feed(SHORT / 4.0, arguments.in_flight, None).await?;
        rows.push(row(count, &bench.feed(SHORT, arguments.in_flight, None).await?));
    }
    report.note("Redis instances on the same cores, one router:");
    report.table(&[&["Redis"], &cpu[..]].concat(), rows);
    Ok(())
}

/// What a router is told of the instances: each has an equal part.
fn spread(urls: &[String]) -> [(&'static str, String); 3] {
    let parts = |size: u32| {
        let count = urls.len() as u32;
        let part =
            |number: u32| format!("{}-{}=i{number}", size * number / count, size * (number + 1) / count - 1);
        (0..count).map(part).collect::<Vec<_>>().join(" ")
    };
    let named: Vec<String> =
        urls.iter().enumerate().map(|(number, url)| format!("i{number}={url}")).collect();
    [
        ("LAPWING_REDIS_URL", named.join(" ")),
        ("LAPWING_REDIS_BUCKETS", parts(BUCKETS)),
        ("LAPWING_REDIS_USERS", parts(USER_SHARDS)),
    ]
}

async fn through_gateway(report: &mut Report, infra: Infra, arguments: &Arguments) -> Result<()> {
    let options = Options {
        gateways: 1,
        routers: 1,
        persisters: 0,
        profile: "bench".to_owned(),
        env: vec![("LAPWING_LOG_FILTER".to_owned(), "warn".to_owned())],
        ..Options::default()
    };
    let cluster = Cluster::with_infra(infra, &options)?;
    cluster.start_services().await?;
    let mut clients = gateway::Clients::connect(&cluster, arguments.conversations, arguments.body).await?;
    clients.run(&cluster, SHORT / 4.0, arguments.conversations, None).await?;
    let most = clients.run(&cluster, 2.0 * SHORT, arguments.conversations, None).await?;
    report.figure(
        "accepted through a gateway and NATS, 50 clients",
        format!(
            "{}/s, P50 {:.1} ms · P99 {:.1} ms, {} otherwise",
            thousands(most.accepted as f64 / most.seconds),
            most.p50_us / 1000.0,
            most.p99_us / 1000.0,
            most.other
        ),
    );
    let names = ["router", "gateway", "NATS", "Kafka", "clients"];
    let each = most.cpu.map(|cpu| cpu * 1e6 / most.accepted.max(1) as f64);
    let shown: Vec<String> =
        names.iter().zip(each).map(|(name, each)| format!("{name} {each:.1} µs")).collect();
    report.figure("CPU a message on that way", shown.join(" · "));
    let light = clients.run(&cluster, SHORT, 1, Some(Duration::from_millis(10))).await?;
    let (p50, p99) = (light.p50_us / 1000.0, light.p99_us / 1000.0);
    report.figure("ACK at light load as a client sees it", format!("P50 {p50:.2} ms · P99 {p99:.2} ms"));
    report.goal("ACK P50 < 2 ms at light load, everything on one machine", format!("{p50:.2} ms"), p50 < 2.0);
    clients.close().await;
    cluster.stop().await;
    Ok(())
}
