//! `lapwing probe`: one message, and each state that it passes with the time that took.
use std::{
    future::Future,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, bail};
use hyper::Method;
use lapwing_client::{Client, Message, Options, Outcome, RetryPolicy, Update, Updates, http::Api, proto};
use serde_json::Value;

use crate::config::Config;

const TENANT: &str = "probe";
const SENDER: &str = "probe-a";
const RECEIVER: &str = "probe-b";
const LIMIT: Duration = Duration::from_secs(10);
const STATES: usize = 5;

#[derive(Default)]
struct Probe {
    reached: usize,
}

/// What came of waiting for one state, and when.
struct Measured<T> {
    at: Duration,
    result: Option<anyhow::Result<(T, String)>>,
}

async fn measured<T>(began: Instant, work: impl Future<Output = anyhow::Result<(T, String)>>) -> Measured<T> {
    let left = LIMIT.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
    let result = tokio::time::timeout(left, work).await.ok();
    Measured { at: began.elapsed(), result }
}

impl Probe {
    fn show<T>(&mut self, name: &str, measured: Measured<T>) -> Option<T> {
        let ms = measured.at.as_secs_f64() * 1000.0;
        match measured.result {
            Some(Ok((value, what))) => {
                self.reached += 1;
                println!("  {name:<11} {ms:>8.1} ms  {what}");
                return Some(value);
            }
            Some(Err(error)) => println!("  {name:<11} {ms:>8.1} ms  NOT REACHED: {error:#}"),
            None => println!("  {name:<11} {ms:>8.1} ms  NOT REACHED within {} s", LIMIT.as_secs()),
        }
        None
    }
}

/// True: all states were reached.
pub(crate) async fn run(config: &Config) -> anyhow::Result<bool> {
    anyhow::ensure!(!config.client_urls.is_empty(), "no gateway for clients: give --client-url");
    let operator = config.operator()?;
    let stamp = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    operator.create_tenant(TENANT).await.context("cannot make the tenant of the probe")?;
    let key_name = format!("probe-{stamp}");
    let key = operator.create_key(TENANT, &key_name).await.context("cannot make the probe's key")?;
    let result = message(config, &operator.with_key(key), &format!("probe-{stamp}")).await;
    // The key has done its work; a probe that failed leaves none behind either.
    let removed = operator.call(Method::DELETE, &format!("/v1/tenants/{TENANT}/keys/{key_name}"), None).await;
    removed.context("cannot take the probe's key away again")?;
    result
}

async fn message(config: &Config, tenant: &Api, mid: &str) -> anyhow::Result<bool> {
    let conversation = known(tenant).await?;
    let urls = &config.client_urls;
    let (sender, mut own) = connect(tenant, &urls[0], SENDER).await?;
    // On the last gateway, so that with two the message crosses nodes.
    let (receiver, mut pushed) = connect(tenant, &urls[urls.len() - 1], RECEIVER).await?;
    println!("{conversation} · {SENDER} on {} · {RECEIVER} on {}", urls[0], urls[urls.len() - 1]);
    let mut probe = Probe::default();
    let text = format!("probe {mid}");
    let began = Instant::now();
    let accepted = measured(began, publish(&sender, &conversation, mid, &text)).await;
    if let Some(seq) = probe.show("accepted", accepted) {
        let routers = config.routers()?;
        let (dispatched, delivered, row) = tokio::join!(
            measured(began, dispatched(&routers, &conversation, seq)),
            measured(began, event(&mut pushed, mid)),
            measured(began, row(&mut own, &conversation, seq)),
        );
        probe.show("dispatched", dispatched);
        probe.show("delivered", delivered);
        probe.show("row", row);
        probe.show("history", measured(began, history(&receiver, &conversation, seq, &text)).await);
    }
    sender.close().await;
    receiver.close().await;
    println!("probe: {} of {STATES} states reached", probe.reached);
    Ok(probe.reached == STATES)
}

/// The conversation of the two; a key that was just made may take a moment to be known to this gateway.
async fn known(tenant: &Api) -> anyhow::Result<String> {
    let began = Instant::now();
    loop {
        match tenant.ensure_p2p(SENDER, RECEIVER).await {
            Ok(conversation) => return Ok(conversation),
            Err(_) if began.elapsed() < LIMIT => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(error) => return Err(error).context("cannot make the probe's conversation"),
        }
    }
}

async fn connect(tenant: &Api, url: &str, user: &str) -> anyhow::Result<(Client, Updates)> {
    let token = tenant.token(user, Duration::from_secs(300)).await.context("no token for the probe")?;
    let mut options = Options::new(url, token, "probe");
    options.receipts = true;
    options.patience = LIMIT;
    Ok(Client::connect(options).await?)
}

async fn publish(
    client: &Client,
    conversation: &str,
    mid: &str,
    text: &str,
) -> anyhow::Result<(u64, String)> {
    let mut message = Message::text(conversation, mid, text);
    message.receipt = true;
    let policy = RetryPolicy { max_elapsed: LIMIT, ..RetryPolicy::default() };
    let report = client.publish_with(&message, policy).await;
    match report.outcome {
        Outcome::Accepted(p) | Outcome::Duplicate(p) => {
            Ok((p.seq, format!("seq {} after {} attempts", p.seq, report.attempts)))
        }
        Outcome::Rejected(error) => {
            bail!("{} {}: {} (trace {})", error.code, error.name, error.message, error.trace_id)
        }
        Outcome::Unknown { code, reason } => bail!("unknown, {code}: {reason}"),
    }
}

async fn event(updates: &mut Updates, mid: &str) -> anyhow::Result<((), String)> {
    while let Some(update) = updates.next().await {
        match update {
            Update::Event(event) if event.client_mid == mid => {
                return Ok(((), format!("to {RECEIVER}, seq {}", event.seq)));
            }
            Update::Ended(error) => return Err(error.into()),
            _ => {}
        }
    }
    bail!("the session of {RECEIVER} ended")
}

/// Asks the routers; the partition's owner knows.
async fn dispatched(routers: &[Api], conversation: &str, seq: u64) -> anyhow::Result<((), String)> {
    let path = format!("/admin/trace?tenant={TENANT}&conversation={conversation}&seq={seq}");
    loop {
        let mut last = Value::Null;
        for router in routers {
            match router.call(Method::GET, &path, None).await {
                Ok(trace) if yes(&trace["dispatched"]) => {
                    let [offset, epoch, nodes, interested] =
                        ["offset", "epoch", "nodes", "interested"].map(|name| number(&trace[name]));
                    let what = format!("{nodes} of {interested} nodes, offset {offset}, epoch {epoch}");
                    return Ok(((), format!("{what} ({})", router.base())));
                }
                Ok(trace) => last = trace,
                Err(error) if error.code() == Some(421) => {}
                Err(error) => last = Value::String(error.to_string()),
            }
        }
        if last.is_string() {
            bail!("{last}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Protobuf's JSON leaves a zero out and writes large numbers as text.
fn number(value: &Value) -> String {
    match value {
        Value::Null => "0".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A field that says so, as a bool, a count, a list or a number in protobuf's JSON.
fn yes(value: &Value) -> bool {
    match value {
        Value::Bool(yes) => *yes,
        Value::Number(number) => number.as_f64().is_some_and(|n| n > 0.0),
        Value::String(text) => !text.is_empty() && text != "0",
        Value::Array(list) => !list.is_empty(),
        _ => false,
    }
}

async fn row(updates: &mut Updates, conversation: &str, seq: u64) -> anyhow::Result<((), String)> {
    while let Some(update) = updates.next().await {
        match update {
            Update::Persisted(p) if p.conversation == conversation => {
                if p.dead_lettered.contains(&seq) {
                    bail!("dead letter");
                }
                if p.seqs.contains(&seq) {
                    return Ok(((), format!("in MySQL, persisted_seq {}", p.persisted_seq)));
                }
            }
            Update::Ended(error) => return Err(error.into()),
            _ => {}
        }
    }
    bail!("the session of {SENDER} ended")
}

async fn history(client: &Client, conversation: &str, seq: u64, text: &str) -> anyhow::Result<((), String)> {
    loop {
        let request = proto::HistoryRequest {
            conversation: conversation.to_owned(),
            after: Some(seq - 1),
            limit: 1,
            seen: seq,
            ..Default::default()
        };
        let page = client.history(request).await?;
        let found = page.events.iter().find(|event| event.seq == seq);
        let body = found.and_then(|event| event.body.as_ref());
        match body {
            Some(proto::event::Body::Message(content)) => {
                let same = content.body == Some(proto::content::Body::Text(text.to_owned()));
                anyhow::ensure!(same, "history has another text at seq {seq}");
                return Ok(((), format!("head {}, persisted_seq {}", page.head, page.persisted_seq)));
            }
            Some(_) => bail!("history has another event at seq {seq}"),
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_yes_in_every_form() {
        for value in [json!(true), json!(3), json!("3"), json!(["g1"])] {
            assert!(yes(&value), "{value}");
        }
        for value in [json!(false), json!(0), json!("0"), json!([]), Value::Null] {
            assert!(!yes(&value), "{value}");
        }
    }
}
