//! The server API and the gateway's HTTP endpoints: JSON over a pooled connection.
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, header};
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::TokioExecutor,
};
use lapwing_proto::client as proto;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{ClientError, ErrorKind, Step};

/// One base address with one key (tenant key, operator key or token), or none.
#[derive(Clone)]
pub struct Api {
    base: String,
    key: Option<String>,
    pool: Pool<HttpConnector, Full<Bytes>>,
    pub timeout: Duration,
}

#[derive(Debug, Deserialize)]
struct Failure {
    error: Refusal,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Refusal {
    code: u32,
    name: String,
    temporary: bool,
    retry_after_ms: u32,
    message: String,
    cause: String,
    trace_id: String,
}

const MAX_ANSWER: usize = 64 << 20;

impl Api {
    pub fn new(base: impl Into<String>, key: Option<String>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(5)));
        let pool = Pool::builder(TokioExecutor::new()).pool_max_idle_per_host(64).build(connector);
        let base = base.into().trim_end_matches('/').to_owned();
        Self { base, key, pool, timeout: Duration::from_secs(30) }
    }

    pub fn with_key(&self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self.clone() }
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// Status and body, whatever the status is.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Bytes), ClientError> {
        let address = format!("{method} {}{path}", self.base);
        let fail = |e: &dyn std::fmt::Display| ClientError::io(Step::Http, &address, e);
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let bytes = match body {
            Some(body) => serde_json::to_vec(body).map_err(|e| fail(&e))?,
            None => Vec::new(),
        };
        let request = request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(bytes)))
            .map_err(|e| fail(&e))?;
        let exchange = async {
            let response = self.pool.request(request).await.map_err(|e| fail(&root(&e)))?;
            let status = response.status().as_u16();
            let body =
                Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|e| fail(&e))?;
            Ok((status, body.to_bytes()))
        };
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::new(Step::Http, address, ErrorKind::Timeout(self.timeout))),
        }
    }

    /// The JSON of a 2xx answer; anything else is an error with the server's own words.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, ClientError> {
        let address = format!("{method} {}{path}", self.base);
        let (status, bytes) = self.send(method, path, body).await?;
        if !(200..300).contains(&status) {
            return Err(ClientError::new(Step::Http, address, refusal(status, &bytes)));
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes)
            .map_err(|e| ClientError::new(Step::Http, address, ErrorKind::Protocol(e.to_string())))
    }

    pub async fn create_tenant(&self, tenant: &str) -> Result<Value, ClientError> {
        self.call(Method::POST, "/v1/tenants", Some(&json!({ "tenant": tenant }))).await
    }

    pub async fn create_key(&self, tenant: &str, name: &str) -> Result<String, ClientError> {
        let path = format!("/v1/tenants/{tenant}/keys");
        self.string("key", &path, json!({ "name": name })).await
    }

    pub async fn token(&self, user: &str, ttl: Duration) -> Result<String, ClientError> {
        self.string("token", "/v1/tokens", json!({ "user": user, "ttl_s": ttl.as_secs() })).await
    }

    /// The conversation's id.
    pub async fn ensure_p2p(&self, a: &str, b: &str) -> Result<String, ClientError> {
        self.string("conversation", "/v1/p2p", json!({ "users": [a, b] })).await
    }

    /// The conversation's id.
    pub async fn create_group(&self, name: &str, members: &[String]) -> Result<String, ClientError> {
        let settings = json!({ "historyForNewMembers": true, "title": name });
        let body = json!({ "name": name, "members": members, "settings": settings });
        self.string("conversation", "/v1/groups", body).await
    }

    pub async fn add_members(&self, group: &str, users: &[String]) -> Result<Value, ClientError> {
        let path = format!("/v1/groups/{group}/members");
        self.call(Method::POST, &path, Some(&json!({ "users": users }))).await
    }

    pub async fn remove_members(&self, group: &str, users: &[String]) -> Result<Value, ClientError> {
        let path = format!("/v1/groups/{group}/members");
        self.call(Method::DELETE, &path, Some(&json!({ "users": users }))).await
    }

    /// `query` as in `after=0&limit=100`.
    pub async fn history(&self, conversation: &str, query: &str) -> Result<proto::HistoryPage, ClientError> {
        let path = format!("/v1/conversations/{conversation}/history?{query}");
        let value = self.call(Method::GET, &path, None).await?;
        let kind = |e: serde_json::Error| ErrorKind::Protocol(e.to_string());
        serde_json::from_value(value).map_err(|e| ClientError::new(Step::History, path, kind(e)))
    }

    async fn string(&self, field: &str, path: &str, body: Value) -> Result<String, ClientError> {
        let answer = self.call(Method::POST, path, Some(&body)).await?;
        match answer.get(field).and_then(Value::as_str) {
            Some(text) => Ok(text.to_owned()),
            None => {
                let kind = ErrorKind::Protocol(format!("no {field:?} in the answer {answer}"));
                Err(ClientError::new(Step::Http, format!("POST {}{path}", self.base), kind))
            }
        }
    }
}

fn refusal(status: u16, body: &[u8]) -> ErrorKind {
    match serde_json::from_slice::<Failure>(body) {
        Ok(Failure { error }) => ErrorKind::Answer(Box::new(proto::Error {
            code: if error.code == 0 { u32::from(status) } else { error.code },
            name: error.name,
            temporary: error.temporary,
            retry_after_ms: error.retry_after_ms,
            message: error.message,
            cause: error.cause,
            trace_id: error.trace_id,
            ..Default::default()
        })),
        Err(_) => {
            let body = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
            ErrorKind::Status { status, body }
        }
    }
}

/// hyper's own message names no cause; the last one in the chain does.
fn root(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
