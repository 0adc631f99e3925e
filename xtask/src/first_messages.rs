//! The tenant `demo` and its first messages, through the server API like any customer's back end.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use lapwing_servers::{Cluster, http, secrets};
use serde_json::{Value, json};

pub(crate) const TENANT: &str = "demo";

/// The demo tenant's server API key is kept beside the other secrets.
pub(crate) fn key_file(folder: &Path) -> PathBuf {
    folder.join("secrets").join("demo_key")
}

/// Makes the tenant, lets alice and bob write to each other and in a group, and checks the answers.
pub(crate) async fn send(cluster: &Cluster) -> Result<()> {
    let key = tenant_key(cluster).await?;
    let p2p = cluster.api_post(&key, "/v1/p2p", json!({ "users": ["alice", "bob"] })).await?;
    let p2p = text(&p2p, "conversation")?;
    let group = json!({ "name": "lobby", "members": ["alice", "bob"] });
    let group = text(&cluster.api_post(&key, "/v1/groups", group).await?, "conversation")?;
    let run = &secrets::generate()[..8];
    let lines = [
        (&p2p, "alice", "Hello Bob, this message went through NATS, Kafka, Redis and MariaDB."),
        (&p2p, "bob", "Hello Alice, so did mine."),
        (&group, "alice", "And this one is for the whole lobby."),
    ];
    let mut last = (String::new(), 0);
    for (index, (conversation, sender, words)) in lines.into_iter().enumerate() {
        let body = json!({
            "conversation": conversation, "sender": sender,
            "client_mid": format!("dev-up-{run}-{index}"), "content": { "text": words },
        });
        let answer = cluster.api_post(&key, "/v1/publish", body).await?;
        let seq: u64 = text(&answer, "seq")?.parse().context("the seq is no number")?;
        ensure!(last.0 != *conversation || seq > last.1, "{conversation}: seq {seq} came after {}", last.1);
        println!("    {sender}: {words}  ({conversation}, seq {seq})");
        last = (conversation.clone(), seq);
    }
    Ok(())
}

/// The kept key if the services still know it, otherwise a new one.
async fn tenant_key(cluster: &Cluster) -> Result<String> {
    let file = key_file(cluster.infra().folder());
    if let Ok(key) = std::fs::read_to_string(&file) {
        let body = json!({ "user": "alice", "ttl_s": 60 }).to_string();
        let address = cluster.gateway(0).api_address();
        let answer = http::request(&address, "POST", "/v1/tokens", Some(key.trim()), Some(&body)).await?;
        if answer.status == 200 {
            return Ok(key.trim().to_owned());
        }
    }
    let key = cluster.tenant(TENANT).await?;
    secrets::write_private(&file, &key)?;
    Ok(key)
}

fn text(answer: &Value, field: &str) -> Result<String> {
    match &answer[field] {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => anyhow::bail!("the answer holds no {field}: {answer}"),
    }
}
