//! The private stack of a scenario: what is unusual about it, and how it starts.

use anyhow::Context;
use lapwing_servers::{
    Cluster, Infra, InfraOptions, Options, install, kafka::Brokers, ports, proxy::Proxy, redis::Redis,
    small_disk::SmallDisk,
};

use crate::population::Population;

/// What a scenario's stack has beside two gateways and two persisters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stack {
    pub routers: usize,
    pub brokers: Brokers,
    /// Services reach Redis by way of a proxy, beside which a replica stands.
    pub replica: bool,
    /// Services find Kafka by way of a proxy, as behind a name whose address changes.
    pub named_kafka: bool,
    /// Services reach all four servers by way of proxies, Kafka's own address among them.
    pub linked: bool,
    /// Kafka's data is on a disk that can be filled.
    pub small_disk: bool,
    /// That are there before the load, of a tenant of their own; a second, empty Redis stands beside the first.
    pub conversations: u64,
}

impl Stack {
    pub(crate) const PLAIN: Self = Self {
        routers: 2,
        brokers: Brokers::One,
        replica: false,
        named_kafka: false,
        linked: false,
        small_disk: false,
        conversations: 0,
    };
}

/// Many times what a scenario writes.
const DISK_MIB: u32 = 256;

/// The other Redis, and the ways to both.
pub(crate) struct Replica {
    pub(crate) redis: Redis,
    /// From the services to what counts as Redis.
    pub(crate) front: Proxy,
    /// From the replica to its primary.
    pub(crate) link: Proxy,
}

/// The ways from all services to each server.
pub(crate) struct Links {
    pub(crate) nats: Proxy,
    pub(crate) redis: Proxy,
    pub(crate) kafka: Proxy,
    pub(crate) mysql: Proxy,
}

pub(crate) struct Parts {
    /// Before the cluster, whose folder it is mounted in.
    pub(crate) disk: Option<SmallDisk>,
    pub(crate) population: Option<Population>,
    pub(crate) second: Option<Redis>,
    pub(crate) cluster: Cluster,
    pub(crate) replica: Option<Replica>,
    pub(crate) kafka: Option<Proxy>,
    pub(crate) links: Option<Links>,
}

pub(crate) async fn start(stack: Stack) -> anyhow::Result<Parts> {
    let infra = InfraOptions { brokers: stack.brokers, ..InfraOptions::default() };
    let mut infra = Infra::prepare(infra).await?;
    let disk = if stack.small_disk { Some(SmallDisk::under(&infra.kafka().data(), DISK_MIB)?) } else { None };
    let mut env = Vec::new();
    let links = if stack.linked { Some(links(&mut infra, &mut env).await?) } else { None };
    infra.start_all().await?;
    let second = if stack.conversations > 0 { Some(second(&infra, &mut env).await?) } else { None };
    let replica = if stack.replica { Some(replica(&infra, &mut env).await?) } else { None };
    let kafka = if stack.named_kafka {
        let proxy = Proxy::start(&infra.kafka().address()).await?;
        env.push(("LAPWING_KAFKA_BROKERS".to_owned(), proxy.address()));
        Some(proxy)
    } else {
        None
    };
    let options = Options {
        profile: "bench".to_owned(),
        log: "json".to_owned(),
        routers: stack.routers,
        env,
        ..Options::default()
    };
    let cluster = Cluster::with_infra(infra, &options)?;
    cluster.start_services().await.context("the private stack")?;
    cluster.state().save(&cluster.infra().folder().join("state.json"))?;
    let population = match stack.conversations {
        0 => None,
        many => Some(Population::make(&cluster, many).await.context("the population")?),
    };
    Ok(Parts { disk, population, second, cluster, replica, kafka, links })
}

async fn links(infra: &mut Infra, env: &mut Vec<(String, String)>) -> anyhow::Result<Links> {
    let links = Links {
        nats: Proxy::start(&infra.nats().address()).await?,
        redis: Proxy::start(&infra.redis().address()).await?,
        kafka: Proxy::start(&infra.kafka().address()).await?,
        mysql: Proxy::start(&infra.mariadb().address()).await?,
    };
    infra.kafka_mut().advertise(&links.kafka.address())?;
    let urls = [
        ("LAPWING_NATS_URL", infra.nats().url_at(&links.nats.address())),
        ("LAPWING_REDIS_URL", infra.redis().url_at(&links.redis.address())),
        ("LAPWING_KAFKA_BROKERS", links.kafka.address()),
        ("LAPWING_MYSQL_URL", infra.mariadb().url_at(&links.mysql.address())),
    ];
    env.extend(urls.map(|(key, url)| (key.to_owned(), url)));
    Ok(links)
}

async fn second(infra: &Infra, env: &mut Vec<(String, String)>) -> anyhow::Result<Redis> {
    let tools = install::ensure().await?;
    let redis = Redis::prepare(&tools, &infra.folder().join("redis-two"), ports::any()?, false)?;
    redis.start().await.context("the second Redis")?;
    let urls = format!("one={} two={}", infra.redis().url(), redis.url());
    let all = [
        ("LAPWING_REDIS_URL", urls.as_str()),
        ("LAPWING_REDIS_BUCKETS", "0-255=one"),
        ("LAPWING_REDIS_USERS", "0-63=one"),
    ];
    env.extend(all.map(|(key, value)| (key.to_owned(), value.to_owned())));
    Ok(redis)
}

async fn replica(infra: &Infra, env: &mut Vec<(String, String)>) -> anyhow::Result<Replica> {
    let (front, link) =
        (Proxy::start(&infra.redis().address()).await?, Proxy::start(&infra.redis().address()).await?);
    env.push(("LAPWING_REDIS_URL".to_owned(), infra.redis().url_at(&front.address())));
    let tools = install::ensure().await?;
    let folder = infra.folder().join("redis-replica");
    let redis = infra.redis().replica(&tools, &folder, ports::any()?, &link.address())?;
    redis.start().await.context("the replica")?;
    Ok(Replica { redis, front, link })
}
