//! A small HTTP/1.1 client for loopback: health, metrics and the server API. One connection a request.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&self.body).with_context(|| format!("no JSON in the answer: {}", self.body))
    }
}

pub async fn get(address: &str, path: &str) -> Result<Answer> {
    request(address, "GET", path, None, None).await
}

/// POST of JSON with a bearer key; any status but 2xx is an error that holds the answer.
pub async fn post(
    address: &str,
    path: &str,
    key: &str,
    body: &serde_json::Value,
) -> Result<serde_json::Value> {
    let answer = request(address, "POST", path, Some(key), Some(&body.to_string())).await?;
    if !(200..300).contains(&answer.status) {
        bail!("POST http://{address}{path} answered {}: {}", answer.status, answer.body.trim());
    }
    answer.json()
}

pub async fn request(
    address: &str,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: Option<&str>,
) -> Result<Answer> {
    let work = exchange(address, method, path, key, body);
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(answer) => answer.with_context(|| format!("{method} http://{address}{path} failed")),
        Err(_) => bail!("{method} http://{address}{path}: no answer within {TIMEOUT:?}"),
    }
}

async fn exchange(
    address: &str,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: Option<&str>,
) -> Result<Answer> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    if let Some(key) = key {
        head.push_str(&format!("authorization: Bearer {key}\r\n"));
    }
    if let Some(body) = body {
        head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    head.push_str(body.unwrap_or_default());
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).await?;
    parse(&raw)
}

fn parse(raw: &[u8]) -> Result<Answer> {
    let split =
        raw.windows(4).position(|four| four == b"\r\n\r\n").context("the answer has no end of headers")?;
    let head = String::from_utf8_lossy(&raw[..split]).to_lowercase();
    let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).context("no status")?;
    let rest = &raw[split + 4..];
    let body = if head.contains("transfer-encoding: chunked") { unchunk(rest)? } else { rest.to_vec() };
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}

fn unchunk(mut rest: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").context("a chunk has no length")?;
        let text = String::from_utf8_lossy(&rest[..end]).into_owned();
        let size = usize::from_str_radix(text.split(';').next().unwrap_or_default().trim(), 16)?;
        if size == 0 {
            return Ok(body);
        }
        let chunk = rest.get(end + 2..end + 2 + size).context("a chunk is cut short")?;
        body.extend_from_slice(chunk);
        rest = &rest[end + 2 + size..];
        rest = rest.strip_prefix(b"\r\n").context("a chunk is longer than it says")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_plain_and_chunked_answers() {
        let plain = parse(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap();
        assert_eq!((plain.status, plain.body.as_str()), (200, "hi"));
        let chunked =
            parse(b"HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n3\r\n you\r\n0\r\n\r\n");
        assert!(chunked.is_err(), "a chunk longer than its length");
        let chunked =
            parse(b"HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n4\r\n you\r\n0\r\n\r\n");
        let chunked = chunked.unwrap();
        assert_eq!((chunked.status, chunked.body.as_str()), (503, "hi you"));
    }
}
