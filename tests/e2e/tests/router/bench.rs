//! Servers, routers, and the few requests that the tests make.

use std::time::{Duration, Instant};

use lapwing_links::nats::{Nats, SubscriptionOptions};
use lapwing_model::{ConversationKey, PartitionId, kind};
use lapwing_proto::{
    Message as _,
    bus::{self, RouterReply, RouterRequest, router_reply, router_request::Body},
    client::{self, Published},
};
use lapwing_runtime::{Health, SecretUrl, Tasks};
use lapwing_servers::cluster::{Cluster, Options};

pub(crate) const PARTITIONS: u32 = 8;

pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) nats: Nats,
    _tasks: Tasks,
}

impl Bench {
    pub(crate) async fn start(routers: usize) -> Self {
        Self::with(Options { gateways: 0, routers, persisters: 0, ..Options::default() }).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let cluster = Cluster::start(options).await.expect("servers");
        let tasks = Tasks::new();
        let url = SecretUrl::new(cluster.nats().url());
        let nats = Nats::connect(&url, "test", &tasks, &Health::new()).await.expect("NATS");
        Self { cluster, nats, _tasks: tasks }
    }

    /// The owner as the heartbeats tell, or nothing within the time.
    pub(crate) async fn owner(&self, id: &PartitionId, within: Duration) -> Option<String> {
        let mut beats = self
            .nats
            .subscribe("lw.r.hb", SubscriptionOptions::named("test heartbeats"))
            .await
            .expect("subscription");
        let wanted = |beat: &bus::RouterHeartbeat| {
            beat.owned.iter().any(|of| of.serving && of.topic == *id.topic && of.partition == id.partition)
        };
        tokio::time::timeout(within, async {
            loop {
                let beat = beats.next().await?;
                let beat = bus::RouterHeartbeat::decode(beat.payload).ok()?;
                if wanted(&beat) {
                    return Some(beat.router);
                }
            }
        })
        .await
        .ok()
        .flatten()
    }

    /// Asks whoever owns the conversation, until it is not "not owner" any more, as a gateway does.
    pub(crate) async fn ask(&self, key: &ConversationKey, body: Body) -> router_reply::Body {
        let id = PartitionId::of(key, PARTITIONS).expect("a conversation id");
        let end = Instant::now() + Duration::from_secs(20);
        let request = RouterRequest { partition: Some((&id).into()), body: Some(body) };
        let payload: bytes::Bytes = request.encode_to_vec().into();
        while Instant::now() < end {
            let Some(owner) = self.owner(&id, Duration::from_secs(2)).await else { continue };
            let subject = format!("lw.r.{owner}");
            let Ok(reply) = self.nats.request(&subject, &[], payload.clone(), Duration::from_secs(5)).await
            else {
                continue;
            };
            let reply = RouterReply::decode(reply).expect("a reply").body.expect("a body");
            if !matches!(reply, router_reply::Body::NotOwner(_)) {
                return reply;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{key}: nobody owned {id} for 20 s");
    }

    pub(crate) async fn p2p(&self, tenant: &str, a: &str, b: &str) -> ConversationKey {
        let key = ConversationKey::new(tenant, kind::p2p_id(tenant, a, b));
        let ensure = bus::EnsureP2p { a: a.into(), b: b.into() };
        let command = bus::Command {
            tenant: tenant.into(),
            conversation: key.conversation.to_string(),
            body: Some(bus::command::Body::EnsureP2p(ensure)),
        };
        match self.ask(&key, Body::Command(command)).await {
            router_reply::Body::Command(reply) => assert_eq!(reply.conversation, *key.conversation),
            other => panic!("{other:?}"),
        }
        key
    }

    pub(crate) async fn publish(
        &self,
        key: &ConversationKey,
        sender: &str,
        mid: &str,
        text: &str,
        attempt: u32,
    ) -> Result<Published, client::Error> {
        let item = bus::PublishItem {
            client_mid: mid.into(),
            content: Some(content(text)),
            attempt,
            ..bus::PublishItem::default()
        };
        let batch = bus::PublishBatch {
            tenant: key.tenant.to_string(),
            conversation: key.conversation.to_string(),
            sender: sender.into(),
            device: "d1".into(),
            session: "s1".into(),
            items: vec![item],
            sent_at_ms: lapwing_runtime::time::now_ms(),
            ..bus::PublishBatch::default()
        };
        match self.ask(key, Body::Publish(batch)).await {
            router_reply::Body::Publish(reply) => match reply.outcomes[0].outcome.clone() {
                Some(bus::publish_outcome::Outcome::Published(published)) => Ok(published),
                Some(bus::publish_outcome::Outcome::Error(error)) => Err(error),
                other => panic!("{other:?}"),
            },
            router_reply::Body::Error(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn content(text: &str) -> client::Content {
    client::Content { body: Some(client::content::Body::Text(text.into())), ..Default::default() }
}
