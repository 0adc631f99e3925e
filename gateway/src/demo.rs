//! The demo page, embedded, and what it needs to work without typing a token, if a demo tenant is configured.

use std::sync::Arc;

use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
};
use include_dir::{Dir, include_dir};
use lapwing_model::{Code, Refusal, ids::check_id};
use serde::Deserialize;
use serde_json::json;

use crate::{
    gateway::Gateway,
    http::{self, Answer},
    publish::invalid,
    server_api::commands,
};

static SITE: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../clients/demo/site");

const TOKEN_TTL_S: u64 = 12 * 3600;
/// Own scripts and styles only, own WebSocket only, in nobody's frame.
const POLICY: &str = "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; style-src 'self' 'unsafe-inline'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub async fn route(
    gateway: &Arc<Gateway>,
    request: Request<Incoming>,
    traceparent: &str,
) -> Result<Answer, Refusal> {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::GET, "/demo/token") => token(gateway, &request).await,
        (&Method::POST, "/demo/group") => group(gateway, request, traceparent).await,
        (&Method::POST, "/demo/p2p") => p2p(gateway, request, traceparent).await,
        (&Method::GET | &Method::HEAD, path) => file(path),
        _ => Err(nothing(&path)),
    }
}

fn nothing(path: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("nothing at {path}"))
}

fn file(path: &str) -> Result<Answer, Refusal> {
    let name = match path {
        "/" | "/demo" | "/demo/" => "index.html",
        _ => path.strip_prefix("/demo/").unwrap_or(path.trim_start_matches('/')),
    };
    let file = SITE.get_file(name).ok_or_else(|| nothing(path))?;
    let content_type = match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        _ => "application/octet-stream",
    };
    let mut answer = http::answer(StatusCode::OK, content_type, file.contents());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(answer)
}

/// The tenant of the demo; without one its helpers do not exist.
fn tenant(gateway: &Gateway) -> Result<String, Refusal> {
    gateway.config.demo_tenant.clone().filter(|tenant| !tenant.is_empty()).ok_or_else(|| nothing("/demo"))
}

async fn token(gateway: &Gateway, request: &Request<Incoming>) -> Result<Answer, Refusal> {
    let tenant = tenant(gateway)?;
    let user = http::query(request).remove("user").unwrap_or_default();
    check_id("user", &user).map_err(invalid)?;
    let (token, expires_at) = gateway
        .auth
        .sign(&tenant, &user, TOKEN_TTL_S)
        .map_err(|error| Refusal::new(Code::NotReady, format!("the token cannot be signed: {error}")))?;
    let body = json!({"token": token, "tenant": tenant, "user": user, "expires_at": expires_at});
    Ok(http::json(StatusCode::OK, &body))
}

#[derive(Deserialize)]
struct Group {
    name: String,
    members: Vec<String>,
}

async fn group(gateway: &Gateway, request: Request<Incoming>, traceparent: &str) -> Result<Answer, Refusal> {
    let tenant = tenant(gateway)?;
    let group: Group = http::read_json(request).await?;
    let settings = commands::Settings { history_for_new_members: true, title: group.name.clone() };
    let made =
        commands::create_group(gateway, &tenant, &group.name, group.members.clone(), settings, traceparent)
            .await?;
    if !made.changed && !group.members.is_empty() {
        // The group was there: the page's users join it.
        commands::add_members(gateway, &tenant, &group.name, group.members, traceparent).await?;
    }
    Ok(http::json(StatusCode::OK, &made))
}

#[derive(Deserialize)]
struct P2p {
    users: Vec<String>,
}

async fn p2p(gateway: &Gateway, request: Request<Incoming>, traceparent: &str) -> Result<Answer, Refusal> {
    let tenant = tenant(gateway)?;
    let p2p: P2p = http::read_json(request).await?;
    Ok(http::json(StatusCode::OK, &commands::ensure_p2p(gateway, &tenant, &p2p.users, traceparent).await?))
}
