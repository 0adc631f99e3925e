//! The clients' port: connections by address, HTTP, and the upgrade to a WebSocket.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use lapwing_gateway_core::Encoding;
use lapwing_model::{Code, Refusal};
use lapwing_proto::client::HistoryRequest;
use lapwing_runtime::{OnError, throttle::Throttle};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};

use crate::{
    connection, demo, gateway::Gateway, history, http, http::Answer, nodes, publish::check_conversation,
    tenants,
};

#[derive(Default)]
pub struct Addresses(Mutex<HashMap<IpAddr, usize>>);

/// A connection's place among those of its address.
pub struct Place {
    addresses: Arc<Addresses>,
    ip: IpAddr,
}

impl Addresses {
    fn take(self: &Arc<Self>, ip: IpAddr, max: usize) -> Option<Place> {
        let mut counts = self.0.lock();
        let count = counts.entry(ip).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Place { addresses: self.clone(), ip })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.addresses.0.lock();
        if let Some(count) = counts.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.ip);
            }
        }
    }
}

pub async fn run(gateway: Arc<Gateway>, listener: TcpListener) {
    static REFUSED: Throttle = Throttle::every_ms(1000);
    let stop = gateway.tasks.stopping();
    let addresses = Arc::new(Addresses::default());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors: it heals when connections end.
                tracing::warn!("a connection cannot be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(place) = addresses.take(remote.ip(), gateway.limits.ip_connections) else {
            if let Some(suppressed) = REFUSED.pass() {
                tracing::warn!(ip = %remote.ip(), suppressed, "too many connections from one address");
            }
            continue;
        };
        let _ = stream.set_nodelay(true);
        let owned = gateway.clone();
        gateway.tasks.spawn("client connection", OnError::Log, serve(owned, stream, remote, Arc::new(place)));
    }
}

async fn serve(gateway: Arc<Gateway>, stream: TcpStream, remote: SocketAddr, place: Arc<Place>) {
    let stop = gateway.tasks.stopping();
    let handshake = gateway.limits.handshake;
    let service = service_fn(move |request| {
        let (gateway, place) = (gateway.clone(), place.clone());
        async move { Ok::<_, std::convert::Infallible>(route(gateway, request, remote, place).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(handshake)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    tokio::select! {
        // Its errors are the client's: gone, too slow, not HTTP.
        _ = &mut connection => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(Duration::from_secs(1), connection).await;
        }
    }
}

async fn route(
    gateway: Arc<Gateway>,
    request: Request<Incoming>,
    remote: SocketAddr,
    place: Arc<Place>,
) -> Answer {
    let traceparent = http::trace_of(&request);
    let path = request.uri().path().to_owned();
    let answered = match (request.method(), path.as_str()) {
        (&Method::GET, "/v1/ws") => upgrade(&gateway, request, remote, place),
        (&Method::GET, "/v1/nodes") => {
            let list = gateway.nodes.list(nodes::own(&gateway), std::time::Instant::now());
            let mut answer = http::json(StatusCode::OK, &list);
            // Any page may ask where to connect; nothing here is a secret.
            answer.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            Ok(answer)
        }
        (&Method::GET, path) if path.starts_with("/v1/conversations/") => {
            client_history(&gateway, &request, &traceparent).await
        }
        _ => demo::route(&gateway, request, &traceparent).await,
    };
    answered.unwrap_or_else(|refusal| http::error(&refusal, &traceparent))
}

fn upgrade(
    gateway: &Arc<Gateway>,
    mut request: Request<Incoming>,
    remote: SocketAddr,
    place: Arc<Place>,
) -> Result<Answer, Refusal> {
    let invalid = |what: &str| Refusal::new(Code::Invalid, what.to_owned());
    if !fastwebsockets::upgrade::is_upgrade_request(&request) {
        return Err(invalid("this is a WebSocket address"));
    }
    if !origin_fits(&gateway.config.origins, &request) {
        return Err(Refusal::new(Code::Forbidden, "this Origin may not connect").cause("origin"));
    }
    let offered = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let encoding = offered.filter_map(|value| value.to_str().ok()).find_map(Encoding::negotiate);
    let encoding =
        encoding.ok_or_else(|| invalid("offer the subprotocol lapwing.v1.proto or lapwing.v1.json"))?;
    if gateway.health_draining() {
        return Err(Refusal::new(Code::NotReady, "this node is going away; take another of /v1/nodes"));
    }
    let upgraded = hyper::upgrade::on(&mut request);
    let (response, _) = fastwebsockets::upgrade::upgrade(&mut request)
        .map_err(|error| invalid(&format!("WebSocket handshake: {error}")))?;
    let owned = gateway.clone();
    gateway.tasks.spawn("session", OnError::Log, async move {
        let _place = place;
        let handshake = tokio::time::timeout(owned.limits.handshake, upgraded).await;
        if let Ok(Ok(upgraded)) = handshake {
            connection::run(owned, upgraded, encoding, remote).await;
        }
    });
    let mut answer = response.map(|_| Full::default());
    answer
        .headers_mut()
        .insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(encoding.subprotocol()));
    Ok(answer)
}

/// A page of another site must not use its visitor's network place; programs send no Origin.
fn origin_fits<B>(allowed: &[String], request: &Request<B>) -> bool {
    let Some(origin) = request.headers().get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let own = origin.split_once("://").map(|(_, host)| host);
    (own.is_some() && own == host) || allowed.iter().any(|allowed| allowed == origin)
}

async fn client_history(
    gateway: &Gateway,
    request: &Request<Incoming>,
    traceparent: &str,
) -> Result<Answer, Refusal> {
    let (conversation, asked) = history_request(request)?;
    let identity = gateway.auth.verify(http::bearer(request)?)?;
    tenants::serving(gateway, &identity.tenant).await?;
    let key = lapwing_model::ConversationKey::new(identity.tenant, conversation);
    let page = history::page(gateway, &key, Some(&identity.user), &asked, traceparent).await?;
    Ok(http::json(StatusCode::OK, &page))
}

/// `/v1/conversations/{id}/history?after=&before=&limit=&reverse=`
pub fn history_request<B>(request: &Request<B>) -> Result<(String, HistoryRequest), Refusal> {
    let path = request.uri().path().strip_prefix("/v1/conversations/");
    let id = path.and_then(|path| path.strip_suffix("/history")).unwrap_or_default();
    let id = http::percent_decode(id);
    check_conversation(&id)?;
    let query = http::query(request);
    let number = |name: &str| match query.get(name).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text
            .parse::<u64>()
            .map(Some)
            .map_err(|_| Refusal::new(Code::Invalid, format!("{name}={text} is not a number"))),
    };
    let limit = u32::try_from(number("limit")?.unwrap_or(100)).unwrap_or(u32::MAX);
    let asked = HistoryRequest {
        conversation: id.clone(),
        after: number("after")?,
        before: number("before")?,
        limit,
        reverse: query.get("reverse").is_some_and(|value| value == "true" || value == "1"),
        seen: number("seen")?.unwrap_or(0),
    };
    Ok((id, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(origin: Option<&str>) -> Request<()> {
        let builder = Request::builder().uri("/v1/ws").header("host", "127.0.0.1:7100");
        let builder = match origin {
            Some(origin) => builder.header("origin", origin),
            None => builder,
        };
        builder.body(()).unwrap()
    }

    #[test]
    fn foreign_origins_are_refused() {
        let allowed = ["https://chat.example.com".to_owned()];
        assert!(origin_fits(&allowed, &request(None)));
        assert!(origin_fits(&allowed, &request(Some("http://127.0.0.1:7100"))));
        assert!(origin_fits(&allowed, &request(Some("https://chat.example.com"))));
        for bad in
            ["http://evil.example.com", "null", "http://127.0.0.1:7101", "https://chat.example.com.evil"]
        {
            assert!(!origin_fits(&allowed, &request(Some(bad))), "{bad}");
        }
    }

    // R-GW-4: connections per address.
    #[test]
    fn an_address_has_a_bounded_number_of_places() {
        let addresses = Arc::new(Addresses::default());
        let ip = IpAddr::from([127, 0, 0, 1]);
        let first = addresses.take(ip, 2).unwrap();
        let _second = addresses.take(ip, 2).unwrap();
        assert!(addresses.take(ip, 2).is_none());
        drop(first);
        assert!(addresses.take(ip, 2).is_some());
    }

    #[test]
    fn a_history_address_is_read() {
        let request = Request::builder().uri("/v1/conversations/grp.a/history?after=5&limit=7&reverse=true");
        let (id, asked) = history_request(&request.body(()).unwrap()).unwrap();
        assert_eq!((id.as_str(), asked.after, asked.limit, asked.reverse), ("grp.a", Some(5), 7, true));
        for bad in ["/v1/conversations/grp.a/history?after=x", "/v1/conversations/a%20b/history"] {
            let request = Request::builder().uri(bad).body(()).unwrap();
            assert_eq!(history_request(&request).unwrap_err().code, Code::Invalid);
        }
    }
}
