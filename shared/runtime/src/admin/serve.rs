//! The HTTP side of the admin address.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::RwLock;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use super::watch::QueueWatch;
use super::{Admin, AdminError, AdminRequest, AdminResult, HANDLER_TIMEOUT, Inner};
use crate::config::{Common, percent_decode};
use crate::{Health, OnError, Tasks, limits, telemetry};

const BODY_LIMIT: usize = 4 << 20;
/// Probes and operators need few; what comes above this is closed at once.
const CONNECTION_LIMIT: usize = 256;

/// A running admin thread; it serves until [`Running::stop`].
pub(crate) struct Running {
    pub(crate) admin: Admin,
    stop: CancellationToken,
    thread: std::thread::JoinHandle<()>,
}

impl Running {
    pub(crate) fn stop(self) {
        self.stop.cancel();
        let _ = self.thread.join();
    }
}

/// Binds the admin address and serves it from a thread of its own. Handlers run on `handlers`.
pub(crate) fn start(
    service: &'static str,
    common: &Common,
    health: Health,
    handlers: tokio::runtime::Handle,
) -> anyhow::Result<Running> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot make the runtime of the admin address")?;
    let bound = {
        let _inside = runtime.enter();
        limits::bind(common.admin_addr, "LAPWING_ADMIN_ADDR")
    };
    let listener = match bound {
        Ok(listener) => listener,
        Err(error) => {
            // Dropping a runtime from within another one panics.
            runtime.shutdown_background();
            return Err(error);
        }
    };
    let admin = Admin {
        inner: Arc::new(Inner {
            service,
            node: common.node.clone(),
            addr: listener.local_addr().context("the admin address has no port")?,
            operator_key: common.operator_key.clone(),
            health,
            routes: RwLock::new(HashMap::new()),
            handlers,
        }),
    };
    let stop = CancellationToken::new();
    let serving = serve(listener, admin.clone(), stop.clone());
    let thread = std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || runtime.block_on(serving))
        .context("cannot start the admin thread")?;
    Ok(Running { admin, stop, thread })
}

async fn serve(listener: tokio::net::TcpListener, admin: Admin, stop: CancellationToken) {
    let connections = Tasks::new();
    let places = Arc::new(tokio::sync::Semaphore::new(CONNECTION_LIMIT));
    let mut watch = QueueWatch::default();
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = second.tick() => {
                crate::metrics::upkeep();
                watch.look(&admin.inner.health, crate::queue::fullest(), crate::time::mono_ms());
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Ok(place) = places.clone().try_acquire_owned() else { continue };
                    let serving = connection(stream, peer, admin.clone(), stop.clone());
                    connections.spawn("admin connection", OnError::Log, async move {
                        serving.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!("admin address cannot accept: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    let _ = connections.drain(Duration::from_millis(500)).await;
}

async fn connection(stream: tokio::net::TcpStream, peer: SocketAddr, admin: Admin, stop: CancellationToken) {
    let service = service_fn(move |request| {
        let admin = admin.clone();
        async move { Ok::<_, Infallible>(answer(request, peer, &admin).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(10))
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

async fn answer(request: Request<Incoming>, peer: SocketAddr, admin: &Admin) -> Response<Full<Bytes>> {
    match (request.method().as_str(), request.uri().path()) {
        ("GET", "/livez") => text(200, "ok\n"),
        ("GET", "/readyz") => match admin.inner.health.ready() {
            Ok(()) => text(200, "ok\n"),
            Err(reason) => text(503, format!("{reason}\n")),
        },
        ("GET", "/healthz") => json_answer(200, &admin.healthz()),
        ("GET", "/metrics") => text(200, crate::metrics::render()),
        _ => {
            let trace_id = telemetry::trace_id(&telemetry::new_traceparent()).to_owned();
            match routed(request, peer, admin, &trace_id).await {
                Ok(value) => json_answer(200, &value),
                Err(AdminError { status, name, message }) => json_answer(
                    status,
                    &json!({ "error": { "name": name, "message": message, "trace_id": trace_id } }),
                ),
            }
        }
    }
}

async fn routed(request: Request<Incoming>, peer: SocketAddr, admin: &Admin, trace_id: &str) -> AdminResult {
    authorise(&request, admin)?;
    let (head, body) = request.into_parts();
    let (method, path) = (head.method.as_str().to_owned(), head.uri.path().to_owned());
    let route = admin.inner.routes.read().get(&(method.clone(), path.clone())).cloned();
    let route = route.ok_or_else(|| AdminError::not_found(format!("there is no {method} {path} here")))?;
    let reading = Limited::new(body, BODY_LIMIT).collect();
    let body = match tokio::time::timeout(Duration::from_secs(10), reading).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return Err(AdminError::invalid(format!("body: {error}"))),
        Err(_) => return Err(AdminError::new(408, "timeout", "the body did not arrive within 10 s")),
    };
    let query = head.uri.query().map(parse_query).unwrap_or_default();
    tracing::info!(%peer, method, path, trace_id, "admin call");
    let work = (route.handler)(AdminRequest { method: method.clone(), path: path.clone(), query, body });
    // On the service's runtime and never dropped: a handler may hold a database future.
    let running = {
        let _inside = admin.inner.handlers.enter();
        #[expect(
            clippy::disallowed_methods,
            reason = "owned by this call, which reports a panic and a timeout"
        )]
        tokio::spawn(work)
    };
    match tokio::time::timeout(HANDLER_TIMEOUT, running).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(AdminError::new(500, "internal", format!("{method} {path}: {error}"))),
        Err(_) => Err(AdminError::new(
            504,
            "timeout",
            format!("{method} {path} did not end within 30 s; it goes on"),
        )),
    }
}

fn authorise(request: &Request<Incoming>, admin: &Admin) -> Result<(), AdminError> {
    let Some(key) = &admin.inner.operator_key else {
        return Err(AdminError::new(
            403,
            "forbidden",
            "no operator key is configured: set LAPWING_OPERATOR_KEY_FILE",
        ));
    };
    let given = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    let same: bool = given.as_bytes().ct_eq(key.expose().as_bytes()).into();
    if same && !given.is_empty() {
        Ok(())
    } else {
        Err(AdminError::new(401, "unauthenticated", "wants `Authorization: Bearer <operator key>`"))
    }
}

fn parse_query(query: &str) -> HashMap<String, String> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    percent_decode(&text.replace('+', " "))
}

fn text(status: u16, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", body.into())
}

fn json_answer(status: u16, body: &Value) -> Response<Full<Bytes>> {
    respond(status, "application/json", Bytes::from(format!("{body}\n")))
}

fn respond(status: u16, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() =
        hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded() {
        let query = parse_query("topic=lapwing.p2p&name=a%2Fb+c%zz&flag&x=%C3%A4");
        assert_eq!(query["topic"], "lapwing.p2p");
        assert_eq!(query["name"], "a/b c%zz");
        assert_eq!(query["flag"], "");
        assert_eq!(query["x"], "ä");
    }
}
