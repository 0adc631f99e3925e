//! What a conversation costs a router: the growth of a real one's resident memory, idle and active, and whether the bound holds.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use lapwing_links::nats::Nats;
use lapwing_model::{ConversationKey, PartitionId, kind};
use lapwing_proto::{
    Message as _,
    bus::{self, RouterReply, RouterRequest, publish_outcome::Outcome, router_reply, router_request::Body},
    client,
};
use lapwing_runtime::{Health, SecretUrl, Tasks};
use lapwing_servers::{Cluster, Options};

use crate::{
    machine,
    report::Report,
    sample::thousands,
    servers::{self, Needs},
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// P2p conversations that one user each looks at
    #[arg(long, default_value_t = 200_000)]
    conversations: usize,
    /// So many of them get a message, too
    #[arg(long, default_value_t = 50_000)]
    active: usize,
    #[arg(long, default_value_t = 300)]
    body: usize,
    /// The bound that the last part has to keep
    #[arg(long, default_value_t = 64 << 20)]
    bound: usize,
}

const PARTITIONS: u32 = 8;
const TENANT: &str = "t-bench-memory";
const AT_ONCE: usize = 256;
const ATTACHED: usize = 500;
/// What is loaded before the first look, so that queues, connections and the allocator have what they need.
const WARM: usize = 5000;
/// Backlogs are applied.
const REST: Duration = Duration::from_secs(5);

struct Bench {
    cluster: Cluster,
    nats: Nats,
    keys: Vec<ConversationKey>,
    _tasks: Tasks,
}

#[derive(Clone, Copy)]
struct Look {
    rss: f64,
    weight: f64,
    conversations: f64,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Report> {
    ensure!(arguments.active <= arguments.conversations, "--active is a part of --conversations");
    let Arguments { conversations, active, body, bound } = arguments;
    let command = format!("memory --conversations {conversations} --active {active} --bound {bound}");
    let mut report = Report::begin("memory", "Memory: bytes of a conversation in a router", command);
    let bench = Bench::start(WARM + conversations).await?;
    bench.create().await?;

    bench.restart(usize::MAX >> 1).await?;
    bench.attach(0..WARM).await?;
    let empty = bench.look().await?;
    report.figure("router before", format!("{:.0} MiB, {WARM} conversations", empty.rss / 1048576.0));
    bench.attach(WARM..bench.keys.len()).await?;
    let idle = bench.look().await?;
    ensure!(idle.conversations as usize == bench.keys.len(), "{} are in memory", idle.conversations);
    let each = |after: f64, before: f64, count: usize| (after - before) / count as f64;
    let (cost, weight) =
        (each(idle.rss, empty.rss, conversations), each(idle.weight, empty.weight, conversations));
    report.figure(
        format!("idle: {} conversations, head and one member", thousands(conversations as f64)),
        format!("{cost:.0} B each, counted as {weight:.0} B"),
    );
    bench.publish(active, body).await?;
    let busy = bench.look().await?;
    report.figure(
        format!("active: {} of them with one message of {body} B", thousands(active as f64)),
        format!(
            "{:.0} B more each: recent events, receipts and client_mids, which have bounds of their own; counted as {:.0} B",
            each(busy.rss, idle.rss, active),
            each(busy.weight, idle.weight, active)
        ),
    );

    bench.restart(bound).await?;
    bench.attach(0..bench.keys.len()).await?;
    let bounded = bench.look().await?;
    report.figure(
        format!("bound to {} MiB, all of them looked at", bound >> 20),
        format!(
            "{} in memory, counted as {:.1} MiB, {:.0} MiB resident",
            thousands(bounded.conversations),
            bounded.weight / 1048576.0,
            bounded.rss / 1048576.0
        ),
    );
    let ratio = weight / cost;
    report.goal(
        "a conversation counts for what it costs, within a third",
        format!("{ratio:.2} ×"),
        (0.67..1.5).contains(&ratio),
    );
    report.goal(
        "the bound holds",
        format!("{:.1} MiB", bounded.weight / 1048576.0),
        bounded.weight <= bound as f64 && bounded.conversations < bench.keys.len() as f64,
    );
    bench.cluster.stop().await;
    Ok(report.end())
}

impl Bench {
    async fn start(conversations: usize) -> Result<Self> {
        let options = Options {
            gateways: 0,
            routers: 1,
            persisters: 0,
            profile: "bench".to_owned(),
            env: vec![("LAPWING_LOG_FILTER".to_owned(), "warn".to_owned())],
            ..Options::default()
        };
        let cluster = Cluster::with_infra(servers::start(Needs::Routers).await?, &options)?;
        cluster.start_services().await?;
        let tasks = Tasks::new();
        let url = SecretUrl::new(cluster.nats().url());
        let nats = Nats::connect(&url, "bench", &tasks, &Health::new()).await?;
        let key = |n| ConversationKey::new(TENANT, kind::p2p_id(TENANT, &user(n), &peer(n)));
        Ok(Self { cluster, nats, keys: (0..conversations).map(key).collect(), _tasks: tasks })
    }

    /// With an empty memory.
    async fn restart(&self, bound: usize) -> Result<()> {
        // What was released is in the view, so that the next owner has nothing to fold.
        tokio::time::sleep(REST).await;
        let router = self.cluster.router(0);
        // Else its resident memory would tell of the peak, not of what is held.
        let purge = ("MIMALLOC_PURGE_DELAY", "0");
        router.set_environment(&[("LAPWING_CONVERSATION_BYTES", &bound.to_string()), purge]);
        router.restart().await
    }

    async fn ask(&self, id: &PartitionId, body: Body) -> Result<router_reply::Body> {
        let subject = format!("lw.r.{}", self.cluster.router(0).node());
        let request = RouterRequest { partition: Some(id.into()), body: Some(body) };
        let payload = bytes::Bytes::from(request.encode_to_vec());
        for _ in 0..200 {
            let answer = self.nats.request(&subject, &[], payload.clone(), Duration::from_secs(10)).await?;
            let reply = RouterReply::decode(answer)?.body.context("an empty reply")?;
            let again = match &reply {
                router_reply::Body::NotOwner(_) => true,
                router_reply::Body::Error(error) => error.temporary,
                router_reply::Body::Attach(reply) => reply.items.iter().any(|item| item.not_ready),
                router_reply::Body::Publish(reply) => {
                    let refused = |of: &bus::PublishOutcome| matches!(&of.outcome, Some(Outcome::Error(e)) if e.temporary);
                    reply.outcomes.iter().any(refused)
                }
                _ => false,
            };
            if !again {
                return Ok(reply);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("{id}: the router is not ready for 20 s")
    }

    async fn create(&self) -> Result<()> {
        let one = |n: usize| async move {
            let key = &self.keys[n];
            let ensure = bus::EnsureP2p { a: user(n), b: peer(n) };
            let command = bus::Command {
                tenant: TENANT.to_owned(),
                conversation: key.conversation.to_string(),
                body: Some(bus::command::Body::EnsureP2p(ensure)),
            };
            match self.ask(&partition(key)?, Body::Command(command)).await? {
                router_reply::Body::Command(_) => Ok(()),
                other => bail!("{key}: {other:?}"),
            }
        };
        stream::iter(0..self.keys.len()).map(one).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// As a gateway does when a user's session starts.
    async fn attach(&self, range: std::ops::Range<usize>) -> Result<()> {
        let mut items: BTreeMap<PartitionId, Vec<bus::AttachItem>> = BTreeMap::new();
        for n in range {
            let key = &self.keys[n];
            items.entry(partition(key)?).or_default().push(bus::AttachItem {
                tenant: TENANT.to_owned(),
                conversation: key.conversation.to_string(),
                user: user(n),
            });
        }
        let batches =
            items.iter().flat_map(|(id, items)| items.chunks(ATTACHED).map(move |items| (id, items)));
        let one = |(counter, (id, items)): (usize, (&PartitionId, &[bus::AttachItem]))| {
            let batch = bus::AttachBatch {
                node: "bench".to_owned(),
                incarnation: 1,
                counter: counter as u64 + 1,
                items: items.to_vec(),
            };
            let id = id.clone();
            async move {
                match self.ask(&id, Body::Attach(batch)).await? {
                    router_reply::Body::Attach(reply) if reply.items.iter().all(|item| item.found) => Ok(()),
                    _ => bail!("{id}: not every user sees its conversation"),
                }
            }
        };
        let batches: Vec<_> = batches.enumerate().collect();
        stream::iter(batches).map(one).buffer_unordered(4).try_collect().await
    }

    async fn publish(&self, count: usize, body: usize) -> Result<()> {
        let text = "lorem ipsum dolor sit amet ".repeat(body / 27 + 1)[..body].to_owned();
        let one = |n: usize| {
            let content = client::Content {
                body: Some(client::content::Body::Text(text.clone())),
                ..client::Content::default()
            };
            async move {
                let key = &self.keys[n];
                let item = bus::PublishItem {
                    client_mid: format!("0192f0c1-5a3b-7c4d-8e9f-{n:012}"),
                    content: Some(content),
                    attempt: 1,
                    receipt: true,
                    ..bus::PublishItem::default()
                };
                let batch = bus::PublishBatch {
                    tenant: TENANT.to_owned(),
                    conversation: key.conversation.to_string(),
                    sender: user(n),
                    device: "bench".to_owned(),
                    items: vec![item],
                    sent_at_ms: lapwing_runtime::time::now_ms(),
                    ..bus::PublishBatch::default()
                };
                match self.ask(&partition(key)?, Body::Publish(batch)).await? {
                    router_reply::Body::Publish(reply)
                        if matches!(reply.outcomes[0].outcome, Some(Outcome::Published(_))) =>
                    {
                        Ok(())
                    }
                    other => bail!("{key}: {other:?}"),
                }
            }
        };
        stream::iter(WARM..WARM + count).map(one).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn look(&self) -> Result<Look> {
        tokio::time::sleep(REST).await;
        let router = self.cluster.router(0);
        let metrics = router.metrics().await?;
        let gauge = |name: &str| {
            let line = metrics.lines().find(|line| line.split(' ').next() == Some(name));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .with_context(|| format!("/metrics has no {name}"))
        };
        Ok(Look {
            rss: machine::resident(router.pid().context("the router does not run")?) as f64,
            weight: gauge("lapwing_conversation_bytes")?,
            conversations: gauge("lapwing_conversations")?,
        })
    }
}

fn partition(key: &ConversationKey) -> Result<PartitionId> {
    PartitionId::of(key, PARTITIONS).with_context(|| format!("{key} is no conversation"))
}

/// As long as a UUID.
fn user(n: usize) -> String {
    format!("0192f0c1-5a3b-7c4d-8e9f-{n:012}")
}

fn peer(n: usize) -> String {
    format!("0192f0c1-5a3b-7c4d-9e9f-{n:012}")
}
