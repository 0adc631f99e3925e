//! Small helpers of both HTTP ports.

use std::collections::HashMap;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
};
use lapwing_model::{Code, Refusal};
use lapwing_runtime::telemetry;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

pub type Answer = Response<Full<Bytes>>;

/// Above the largest body of a message in base64.
const MAX_BODY: usize = 1 << 20;

pub fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    answer(status, "application/json", serde_json::to_vec(body).unwrap_or_default())
}

/// `{"error": …}` with the status of its code and the trace's id (R-GW-9).
pub fn error(refusal: &Refusal, traceparent: &str) -> Answer {
    let line = refusal.code.line();
    let class = line.class.as_str_name().trim_start_matches("CLASS_").to_ascii_lowercase();
    let body = json!({"error": {
        "code": line.http,
        "name": line.name,
        "class": class,
        "temporary": line.temporary,
        "retry_after_ms": refusal.retry_after_ms,
        "message": refusal.message,
        "cause": refusal.cause,
        "trace_id": telemetry::trace_id(traceparent),
    }});
    let status = StatusCode::from_u16(line.http as u16).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json(status, &body)
}

pub fn trace_of<B>(request: &Request<B>) -> String {
    let incoming = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    match incoming.filter(|text| telemetry::is_traceparent(text)) {
        Some(text) => text.to_owned(),
        None => telemetry::new_traceparent(),
    }
}

pub fn bearer<B>(request: &Request<B>) -> Result<&str, Refusal> {
    let value = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    value
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::trim)
        .ok_or_else(|| Refusal::new(Code::Unauthenticated, "the header `Authorization: Bearer …` is missing"))
}

/// Decoded query parameters.
pub fn query<B>(request: &Request<B>) -> HashMap<String, String> {
    let pairs = request.uri().query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(name), percent_decode(value))
        })
        .collect()
}

pub fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut i) = (Vec::with_capacity(bytes.len()), 0);
    while i < bytes.len() {
        let hex = bytes.get(i + 1..i + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[i], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                i += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        i += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

const BODY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

pub async fn read_json<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Refusal> {
    let reading = Limited::new(request.into_body(), MAX_BODY).collect();
    let Ok(body) = tokio::time::timeout(BODY_TIMEOUT, reading).await else {
        return Err(Refusal::new(Code::Invalid, "body: not there in time"));
    };
    let body = body.map_err(|error| {
        let code =
            if error.is::<http_body_util::LengthLimitError>() { Code::TooLarge } else { Code::Invalid };
        Refusal::new(code, format!("body: {error}"))
    })?;
    let bytes = body.to_bytes();
    let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
    serde_json::from_slice(&bytes).map_err(|error| Refusal::new(Code::Invalid, format!("body: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let request = Request::builder().uri("/x?a=1&b=%C3%A4+%2f&c").body(()).unwrap();
        let query = query(&request);
        assert_eq!((query["a"].as_str(), query["b"].as_str(), query["c"].as_str()), ("1", "ä /", ""));
        assert_eq!(percent_decode("100%"), "100%");
    }

    // R-GW-9
    #[test]
    fn every_error_has_its_trace() {
        let request = Request::builder().uri("/").header("traceparent", "junk").body(()).unwrap();
        let traceparent = trace_of(&request);
        assert_eq!(telemetry::trace_id(&traceparent).len(), 32);
        let answer = error(&Refusal::new(Code::RateLimited, "slow down"), &traceparent);
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(bearer(&request).unwrap_err().code, Code::Unauthenticated);
    }
}
