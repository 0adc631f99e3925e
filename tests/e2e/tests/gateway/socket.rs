//! A WebSocket client that can also do what no client should.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Socket {
    stream: TcpStream,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    Text(String),
    Close(u16, String),
    Other(u8),
    End,
}

/// The status of an upgrade, whatever it is, and the connection.
pub(crate) async fn upgrade(address: &str, headers: &[(&str, &str)]) -> Result<(u16, TcpStream)> {
    let mut stream = TcpStream::connect(address).await?;
    let mut request = format!(
        "GET /v1/ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    );
    headers.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if tokio::time::timeout(PATIENCE, stream.read(&mut byte)).await?? == 0 {
            bail!("ended inside the head: {}", String::from_utf8_lossy(&head));
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head)?;
    let status = head.split(' ').nth(1).unwrap_or_default().parse()?;
    Ok((status, stream))
}

impl Socket {
    pub(crate) async fn open(address: &str, subprotocol: &str, origin: Option<&str>) -> Result<Self> {
        let mut headers = vec![("Sec-WebSocket-Protocol", subprotocol)];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        match upgrade(address, &headers).await? {
            (101, stream) => Ok(Self { stream }),
            (status, _) => bail!("status {status}"),
        }
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        // The other side may have ended already; what it said is what counts.
        let _ = self.stream.write_all(bytes).await;
    }

    pub(crate) async fn send(&mut self, frame: Value) {
        self.raw(&masked(0x81, frame.to_string().as_bytes())).await;
    }

    /// The next frame in JSON.
    pub(crate) async fn next(&mut self) -> Value {
        match self.frame().await {
            Frame::Text(text) => serde_json::from_str(&text).expect("JSON"),
            other => panic!("expected a text frame, got {other:?}"),
        }
    }

    /// The answer with this id; pushes before it are skipped.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let frame = self.next().await;
            if frame["id"].as_str() == Some(&id.to_string()) {
                return frame;
            }
        }
    }

    /// The close code at which the stream ends, whatever comes before it.
    pub(crate) async fn closed(&mut self) -> u16 {
        loop {
            match self.frame().await {
                Frame::Close(code, _) => return code,
                Frame::End => return 1006,
                _ => {}
            }
        }
    }

    pub(crate) async fn frame(&mut self) -> Frame {
        tokio::time::timeout(PATIENCE, self.read()).await.expect("a frame in time").unwrap_or(Frame::End)
    }

    async fn read(&mut self) -> Result<Frame> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).await?;
        let len = match head[1] {
            126 => u64::from(self.stream.read_u16().await?),
            127 => self.stream.read_u64().await?,
            len => u64::from(len),
        };
        let mut payload = vec![0; len as usize];
        self.stream.read_exact(&mut payload).await?;
        Ok(match head[0] & 0x0f {
            1 => Frame::Text(String::from_utf8(payload)?),
            8 => Frame::Close(
                u16::from_be_bytes([payload[0], payload[1]]),
                String::from_utf8(payload[2..].to_vec())?,
            ),
            other => Frame::Other(other),
        })
    }
}

/// A client's frame.
pub(crate) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [7, 1, 9, 3];
    let mut out = vec![first];
    match payload.len() {
        len @ 0..126 => out.push(0x80 | len as u8),
        len @ 126..65_536 => {
            out.push(0xfe);
            out.extend((len as u16).to_be_bytes());
        }
        len => {
            out.push(0xff);
            out.extend((len as u64).to_be_bytes());
        }
    }
    out.extend(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}
