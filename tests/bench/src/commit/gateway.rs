//! The same commit path with everything in front of it: client, WebSocket, gateway, NATS.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use lapwing_client::{Client, Handler, Message, Options, Order, RawEvent, http::Api};
use lapwing_runtime::{OnError, Tasks};
use lapwing_servers::Cluster;

use crate::{machine, sample::percentile};

pub(crate) struct Run {
    pub(crate) accepted: u64,
    pub(crate) other: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// CPU seconds of router, gateway, NATS, Kafka and this process (the clients).
    pub(crate) cpu: [f64; 5],
}

pub(crate) struct Clients {
    clients: Vec<Client>,
    /// Conversations of each client.
    conversations: Vec<Vec<String>>,
    text: String,
    run: u64,
}

struct Ignore;

impl Handler for Ignore {
    fn event(&self, _event: &RawEvent<'_>, _order: Order) {}
}

const CLIENTS: usize = 50;
const AT_ONCE: usize = 32;
/// A new tenant's key has to reach the gateway.
const PATIENCE: Duration = Duration::from_secs(20);

impl Clients {
    /// Each client has its share of the conversations, with peers that are not connected.
    pub(crate) async fn connect(cluster: &Cluster, conversations: usize, body: usize) -> Result<Self> {
        let operator = Api::new(cluster.gateway(0).api_url(), Some(cluster.operator_key().to_owned()));
        let tenant = "t-bench-gateway";
        operator.create_tenant(tenant).await.context("cannot make the tenant")?;
        let key = operator.create_key(tenant, "bench").await.context("cannot make its key")?;
        let api = Api::new(cluster.gateway(0).api_url(), Some(key));
        let began = Instant::now();
        while let Err(error) = api.token("user00", Duration::from_secs(3600)).await {
            anyhow::ensure!(began.elapsed() < PATIENCE, "the tenant's key is not taken: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let each = conversations.div_ceil(CLIENTS);
        let api = &api;
        let made: Vec<(Client, Vec<String>)> = stream::iter(0..CLIENTS)
            .map(|number| async move {
                let user = format!("user{number:02}");
                let mut own = Vec::with_capacity(each);
                for peer in 0..each {
                    own.push(api.ensure_p2p(&user, &format!("{user}-peer{peer}")).await?);
                }
                let token = api.token(&user, Duration::from_secs(3600)).await?;
                let options = Options::new(cluster.gateway(0).client_url(), token, "bench");
                Ok::<_, anyhow::Error>((Client::connect_raw(options, Arc::new(Ignore)).await?, own))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let (clients, conversations) = made.into_iter().unzip();
        let text = "lorem ipsum dolor sit amet ".repeat(body / 27 + 1)[..body].to_owned();
        Ok(Self { clients, conversations, text, run: 0 })
    }

    /// One message under way in each of so many conversations; `pause`: between an answer and the next message.
    pub(crate) async fn run(
        &mut self,
        cluster: &Cluster,
        seconds: f64,
        lanes: usize,
        pause: Option<Duration>,
    ) -> Result<Run> {
        self.run += 1;
        let tasks = Tasks::new();
        let (times, other) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0u64)));
        let pids = [
            cluster.router(0).pid(),
            cluster.gateway(0).pid(),
            cluster.nats().pid(),
            cluster.kafka().pid(),
            Some(std::process::id()),
        ];
        let used = || pids.map(|pid| pid.map_or(0.0, machine::cpu));
        let (before, began) = (used(), Instant::now());
        let end = began + Duration::from_secs_f64(seconds);
        for lane in 0..lanes {
            let of = lane % self.clients.len();
            let conversations = &self.conversations[of];
            let conversation = conversations[(lane / self.clients.len()) % conversations.len()].clone();
            let (client, text, run) = (self.clients[of].clone(), self.text.clone(), self.run);
            let (times, other) = (times.clone(), other.clone());
            tasks.spawn("lane", OnError::Log, async move {
                let (mut own, mut number) = (Vec::new(), 0u64);
                while Instant::now() < end {
                    number += 1;
                    let mid = format!("run{run}-lane{lane}-{number}");
                    let since = Instant::now();
                    let report = client.publish(&Message::text(&*conversation, mid, &*text)).await;
                    if report.outcome.is_accepted() {
                        own.push(since.elapsed().as_micros() as u32);
                    } else {
                        *other.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    }
                    if let Some(pause) = pause {
                        tokio::time::sleep(pause).await;
                    }
                }
                times.lock().unwrap_or_else(PoisonError::into_inner).append(&mut own);
            });
        }
        let left = Duration::from_secs_f64(seconds + 60.0);
        tasks.drain(left).await.map_err(|lanes| anyhow::anyhow!("{} lanes did not end", lanes.len()))?;
        let (seconds, after) = (began.elapsed().as_secs_f64(), used());
        let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
        let other = *other.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Run {
            accepted: times.len() as u64,
            other,
            seconds,
            p50_us: percentile(&mut times, 0.5),
            p99_us: percentile(&mut times, 0.99),
            cpu: std::array::from_fn(|place| after[place] - before[place]),
        })
    }

    pub(crate) async fn close(self) {
        futures::future::join_all(self.clients.iter().map(Client::close)).await;
    }
}
