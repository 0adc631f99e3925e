//! A cluster with a tenant, and clients of it.

use std::time::Duration;

use lapwing_client::{Client, Options as ClientOptions, Update, Updates, proto};
use lapwing_servers::{
    cluster::{Cluster, Options},
    http::{self, Answer},
};
use serde_json::{Value, json};

use crate::socket::Socket;

pub(crate) const TENANT: &str = "t-gateway";
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) key: String,
}

impl World {
    pub(crate) async fn start(gateways: usize, env: &[(&str, &str)]) -> Self {
        Self::with_routers(gateways, 1, env).await
    }

    pub(crate) async fn with_routers(gateways: usize, routers: usize, env: &[(&str, &str)]) -> Self {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let options = Options { gateways, routers, persisters: 1, env, ..Options::default() };
        let cluster = Cluster::start(options).await.expect("cluster");
        let key = cluster.tenant(TENANT).await.expect("tenant");
        Self { cluster, key }
    }

    pub(crate) async fn token(&self, user: &str) -> String {
        self.cluster.token(&self.key, user).await.expect("token")
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        self.cluster.api_post(&self.key, path, body).await.expect(path)
    }

    /// Any request to the server API with any key.
    pub(crate) async fn api(&self, method: &str, path: &str, key: &str, body: Value) -> Answer {
        let address = self.cluster.gateway(0).api_address();
        http::request(&address, method, path, Some(key), Some(&body.to_string())).await.expect(path)
    }

    pub(crate) async fn group(&self, name: &str, members: &[&str]) -> String {
        let made = self.post("/v1/groups", json!({ "name": name, "members": members })).await;
        made["conversation"].as_str().expect("conversation").to_owned()
    }

    pub(crate) async fn socket(&self, gateway: usize) -> Socket {
        Socket::open(&self.cluster.gateway(gateway).client_address(), "lapwing.v1.json", None)
            .await
            .expect("upgrade")
    }

    /// A connected session in JSON, and its welcome.
    pub(crate) async fn session(&self, gateway: usize, user: &str, device: &str) -> (Socket, Value) {
        let mut socket = self.socket(gateway).await;
        let token = self.token(user).await;
        socket.send(json!({ "id": "1", "connect": { "token": token, "device": device } })).await;
        let answer = socket.next().await;
        assert!(answer["welcome"].is_object(), "{answer}");
        (socket, answer["welcome"].clone())
    }

    pub(crate) async fn client(
        &self,
        gateway: usize,
        user: &str,
        cursors: &[(&str, u64)],
    ) -> (Client, Updates) {
        let url = self.cluster.gateway(gateway).client_url();
        let mut options = ClientOptions::new(url, self.token(user).await, format!("{user}-phone"));
        options.receipts = true;
        options.cursors = cursors.iter().map(|(id, seq)| ((*id).to_owned(), *seq)).collect();
        Client::connect(options).await.expect("connect")
    }
}

/// The next event of a conversation.
pub(crate) async fn event(updates: &mut Updates, conversation: &str) -> proto::Event {
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            match updates.next().await.expect("the stream goes on") {
                Update::Event(event) if event.conversation == conversation => return *event,
                _ => {}
            }
        }
    });
    found.await.expect("an event in time")
}

pub(crate) async fn update<T>(updates: &mut Updates, mut pick: impl FnMut(Update) -> Option<T>) -> T {
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = pick(updates.next().await.expect("the stream goes on")) {
                return found;
            }
        }
    });
    found.await.expect("an update in time")
}

pub(crate) fn text(event: &proto::Event) -> &str {
    match &event.body {
        Some(proto::event::Body::Message(proto::Content {
            body: Some(proto::content::Body::Text(text)),
            ..
        })) => text,
        _ => "",
    }
}
