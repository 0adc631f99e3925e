//! The server API: a tenant's backend by its key (`Authorization: Bearer lwk.<tenant>.<secret>`), tenants themselves by the
//! operator's key.

use std::{sync::Arc, time::Duration};

use hyper::{Method, Request, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use lapwing_model::{Code, ConversationKey, Refusal, ids::check_id};
use lapwing_proto::client::{self, Content, Publish, content, publish::Target};
use lapwing_runtime::OnError;
use serde::Deserialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::{
    accept::history_request,
    auth::{self, MAX_TTL_S},
    gateway::Gateway,
    history,
    http::{self, Answer},
    publish::{self, invalid},
    tenants,
};

pub mod commands;
mod operator;

pub async fn run(gateway: Arc<Gateway>, listener: TcpListener) {
    let stop = gateway.tasks.stopping();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                gateway.tasks.spawn("api connection", OnError::Log, serve(gateway.clone(), stream));
            }
            Err(error) => {
                tracing::warn!("a connection of the server API cannot be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(gateway: Arc<Gateway>, stream: TcpStream) {
    let stop = gateway.tasks.stopping();
    let handshake = gateway.limits.handshake;
    let service = service_fn(move |request| {
        let gateway = gateway.clone();
        async move { Ok::<_, std::convert::Infallible>(route(&gateway, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(handshake)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = &mut connection => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(Duration::from_secs(5), connection).await;
        }
    }
}

async fn route(gateway: &Arc<Gateway>, request: Request<Incoming>) -> Answer {
    let traceparent = http::trace_of(&request);
    let path = request.uri().path().to_owned();
    let answered = if path == "/v1/tenants" || path.starts_with("/v1/tenants/") {
        operator::route(gateway, request, &traceparent).await
    } else {
        of_tenant(gateway, request, &traceparent).await
    };
    answered.unwrap_or_else(|refusal| http::error(&refusal, &traceparent))
}

async fn of_tenant(
    gateway: &Arc<Gateway>,
    request: Request<Incoming>,
    traceparent: &str,
) -> Result<Answer, Refusal> {
    let tenant = authenticate(gateway, http::bearer(&request)?).await?;
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (request.method().clone(), segments.as_slice()) {
        (Method::POST, ["v1", "p2p"]) => {
            let body: Users = http::read_json(request).await?;
            ok(&commands::ensure_p2p(gateway, &tenant, &body.users, traceparent).await?)
        }
        (Method::POST, ["v1", "groups"]) => {
            let body: NewGroup = http::read_json(request).await?;
            let NewGroup { name, members, settings } = body;
            ok(&commands::create_group(gateway, &tenant, &name, members, settings, traceparent).await?)
        }
        (Method::POST, ["v1", "groups", name, "members"]) => {
            let name = http::percent_decode(name);
            let body: Users = http::read_json(request).await?;
            ok(&commands::add_members(gateway, &tenant, &name, body.users, traceparent).await?)
        }
        (Method::DELETE, ["v1", "groups", name, "members"]) => {
            let name = http::percent_decode(name);
            let body: Users = http::read_json(request).await?;
            ok(&commands::remove_members(gateway, &tenant, &name, body.users, traceparent).await?)
        }
        (Method::POST, ["v1", "publish"]) => publish_one(gateway, &tenant, request, traceparent).await,
        (Method::POST, ["v1", "tokens"]) => {
            let body: TokenFor = http::read_json(request).await?;
            token(gateway, &tenant, &body)
        }
        (Method::GET, ["v1", "conversations", _, "history"]) => {
            let (conversation, asked) = history_request(&request)?;
            let key = ConversationKey::new(tenant, conversation);
            ok(&history::page(gateway, &key, None, &asked, traceparent).await?)
        }
        (method, _) => Err(Refusal::new(Code::NotFound, format!("nothing at {method} {path}"))),
    }
}

fn ok(body: &impl serde::Serialize) -> Result<Answer, Refusal> {
    Ok(http::json(StatusCode::OK, body))
}

/// The tenant whose key it is. A wrong key and an unknown tenant answer alike.
async fn authenticate(gateway: &Gateway, key: &str) -> Result<String, Refusal> {
    let wrong = || Refusal::new(Code::Unauthenticated, "this key is not known");
    let (tenant, secret) = auth::parse_api_key(key).ok_or_else(wrong)?;
    let state = tenants::get(gateway, tenant).await?;
    let record = state.record.as_ref().filter(|_| state.found).ok_or_else(wrong)?;
    if !auth::holds_key(record, secret) {
        return Err(wrong());
    }
    if record.suspended {
        return Err(
            Refusal::new(Code::Forbidden, format!("tenant {tenant} is suspended")).cause("tenant_suspended")
        );
    }
    Ok(tenant.to_owned())
}

#[derive(Deserialize)]
struct Users {
    users: Vec<String>,
}

#[derive(Deserialize)]
struct NewGroup {
    name: String,
    #[serde(default)]
    members: Vec<String>,
    #[serde(default)]
    settings: commands::Settings,
}

#[derive(Deserialize)]
struct TokenFor {
    user: String,
    #[serde(default = "an_hour")]
    ttl_s: u64,
}

fn an_hour() -> u64 {
    3600
}

fn token(gateway: &Gateway, tenant: &str, body: &TokenFor) -> Result<Answer, Refusal> {
    check_id("user", &body.user).map_err(invalid)?;
    if body.ttl_s == 0 || body.ttl_s > MAX_TTL_S {
        return Err(Refusal::new(Code::Invalid, format!("ttl_s must be 1 to {MAX_TTL_S}")));
    }
    let (token, expires_at) = gateway
        .auth
        .sign(tenant, &body.user, body.ttl_s)
        .map_err(|error| Refusal::new(Code::NotReady, format!("the token cannot be signed: {error}")))?;
    ok(&json!({"token": token, "expires_at": expires_at}))
}

#[derive(Deserialize)]
struct NewMessage {
    conversation: Option<String>,
    to_user: Option<String>,
    #[serde(default)]
    sender: String,
    client_mid: String,
    content: NewContent,
    #[serde(default = "first")]
    attempt: u32,
    #[serde(default)]
    receipt: bool,
}

fn first() -> u32 {
    1
}

#[derive(Deserialize)]
struct NewContent {
    text: Option<String>,
    /// base64
    data: Option<String>,
    #[serde(default, rename = "type")]
    kind: String,
}

async fn publish_one(
    gateway: &Arc<Gateway>,
    tenant: &str,
    request: Request<Incoming>,
    traceparent: &str,
) -> Result<Answer, Refusal> {
    let message: NewMessage = http::read_json(request).await?;
    if !message.sender.is_empty() {
        check_id("sender", &message.sender).map_err(invalid)?;
    }
    let target = match (message.conversation, message.to_user) {
        (Some(conversation), None) => Target::Conversation(conversation),
        (None, Some(_)) if message.sender.is_empty() => {
            return Err(Refusal::new(Code::Invalid, "to_user needs a sender"));
        }
        (None, Some(user)) => Target::ToUser(user),
        _ => return Err(Refusal::new(Code::Invalid, "give conversation or to_user, not both")),
    };
    let conversation = publish::target(tenant, &message.sender, Some(&target))?;
    let key = ConversationKey::new(tenant, conversation);
    let publish = Publish {
        target: Some(target),
        client_mid: message.client_mid,
        content: Some(content_of(message.content)?),
        attempt: message.attempt,
        first_attempt_age_ms: 0,
        receipt: message.receipt,
    };
    let published = publish::call(gateway, &key, &message.sender, publish, traceparent).await?;
    let (status, outcome) = match published.outcome() {
        client::Outcome::Duplicate => (StatusCode::OK, "duplicate"),
        _ => (StatusCode::ACCEPTED, "accepted"),
    };
    let body = json!({
        "conversation": published.conversation,
        "seq": published.seq,
        "client_mid": published.client_mid,
        "n": published.n,
        "sent_at_ms": published.sent_at_ms,
        "outcome": outcome,
    });
    Ok(http::json(status, &body))
}

fn content_of(new: NewContent) -> Result<Content, Refusal> {
    let body = match (new.text, new.data) {
        (Some(text), None) => content::Body::Text(text),
        (None, Some(data)) => {
            let decoded = data_encoding::BASE64.decode(data.as_bytes());
            let decoded = decoded.map_err(|error| {
                Refusal::new(Code::Invalid, format!("content.data is not base64: {error}"))
            })?;
            content::Body::Data(decoded.into())
        }
        _ => return Err(Refusal::new(Code::Invalid, "content is either text or data")),
    };
    Ok(Content { body: Some(body), r#type: new.kind })
}
