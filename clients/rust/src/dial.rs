//! From an address to an upgraded socket: TCP, HTTP upgrade, subprotocol.
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::{Buf, Bytes};
use fastwebsockets::{FragmentCollectorRead, Role, after_handshake_split};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, Response, StatusCode, body::Incoming, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use crate::{
    codec::Encoding,
    error::{ClientError, ErrorKind, Step},
};

pub(crate) type Reader = FragmentCollectorRead<Prefixed>;

pub(crate) struct Socket {
    pub(crate) reader: Reader,
    pub(crate) writer: OwnedWriteHalf,
    pub(crate) tcp: Duration,
    pub(crate) upgrade: Duration,
}

/// Largest frame taken from a server: a body of 512 KiB and what is round it, or a page of history.
const MAX_FRAME: usize = 16 << 20;

pub(crate) async fn dial(url: &str, encoding: Encoding, limit: Duration) -> Result<Socket, ClientError> {
    let (authority, path) = split_url(url)?;
    let began = Instant::now();
    let stream = match timeout(limit, TcpStream::connect(&authority)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(ClientError::io(Step::Dial, url, error)),
        Err(_) => return Err(ClientError::new(Step::Dial, url, ErrorKind::Timeout(limit))),
    };
    // Small frames go out at once: Nagle's wait would be the largest part of an acknowledgement.
    stream.set_nodelay(true).map_err(|e| ClientError::io(Step::Dial, url, e))?;
    let tcp = began.elapsed();
    let (stream, left) = match timeout(limit, upgrade(stream, &authority, &path, encoding, url)).await {
        Ok(upgraded) => upgraded?,
        Err(_) => return Err(ClientError::new(Step::Upgrade, url, ErrorKind::Timeout(limit))),
    };
    let upgrade = began.elapsed() - tcp;
    let (read, writer) = stream.into_split();
    // fastwebsockets writes nothing here: all writes go through the link's one writer.
    let (mut reader, _) = after_handshake_split(Prefixed { left, read }, tokio::io::sink(), Role::Client);
    reader.set_max_message_size(MAX_FRAME);
    reader.set_auto_close(false);
    Ok(Socket { reader: FragmentCollectorRead::new(reader), writer, tcp, upgrade })
}

async fn upgrade(
    stream: TcpStream,
    authority: &str,
    path: &str,
    encoding: Encoding,
    url: &str,
) -> Result<(TcpStream, Bytes), ClientError> {
    let io = |e: &dyn std::fmt::Display| ClientError::io(Step::Upgrade, url, e);
    let request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::UPGRADE, "websocket")
        .header(header::CONNECTION, "upgrade")
        .header(header::SEC_WEBSOCKET_KEY, fastwebsockets::handshake::generate_key())
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_PROTOCOL, encoding.subprotocol())
        .body(Empty::<Bytes>::new())
        .map_err(|e| io(&e))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| io(&e))?;
    let exchange = async move {
        let response = sender.send_request(request).await.map_err(|e| io(&e))?;
        let response = accept(response, encoding, url).await?;
        hyper::upgrade::on(response).await.map_err(|e| io(&e))
    };
    let (_, upgraded) = tokio::join!(connection.with_upgrades(), exchange);
    // hyper's own read buffer (8 kB a connection) is dropped here; what it had already read is kept.
    match upgraded?.downcast::<TokioIo<TcpStream>>() {
        Ok(parts) => Ok((parts.io.into_inner(), parts.read_buf)),
        Err(_) => Err(io(&"the upgraded connection is not the socket that was dialled")),
    }
}

async fn accept(
    response: Response<Incoming>,
    encoding: Encoding,
    url: &str,
) -> Result<Response<Incoming>, ClientError> {
    let fail = |kind| Err(ClientError::new(Step::Upgrade, url, kind));
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = response.status().as_u16();
        let body = match Limited::new(response.into_body(), 4096).collect().await {
            Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
            Err(error) => error.to_string(),
        };
        return fail(ErrorKind::Status { status, body });
    }
    let named = response.headers().get(header::SEC_WEBSOCKET_PROTOCOL).and_then(|v| v.to_str().ok());
    if named != Some(encoding.subprotocol()) {
        let what = format!("asked for {}, the server chose {named:?}", encoding.subprotocol());
        return fail(ErrorKind::Protocol(what));
    }
    Ok(response)
}

/// `ws://host:port[/path]` → authority and path.
fn split_url(url: &str) -> Result<(String, String), ClientError> {
    let wrong = |what: &str| ClientError::new(Step::Resolve, url, ErrorKind::Protocol(what.to_owned()));
    let Some(rest) = url.strip_prefix("ws://").or_else(|| url.strip_prefix("http://")) else {
        return Err(wrong("an address is ws://host:port; TLS ends at a proxy in front"));
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) if !path.is_empty() => (authority, format!("/{path}")),
        Some((authority, _)) => (authority, "/v1/ws".to_owned()),
        None => (rest, "/v1/ws".to_owned()),
    };
    if authority.is_empty() {
        return Err(wrong("no host in the address"));
    }
    let port =
        if authority.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok()) { "" } else { ":80" };
    Ok((format!("{authority}{port}"), path))
}

/// The read half, behind the bytes that came together with the upgrade's answer.
pub(crate) struct Prefixed {
    left: Bytes,
    read: OwnedReadHalf,
}

impl AsyncRead for Prefixed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left.is_empty() {
            return Pin::new(&mut self.read).poll_read(cx, buf);
        }
        let n = self.left.len().min(buf.remaining());
        buf.put_slice(&self.left[..n]);
        self.left.advance(n);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(split_url("ws://h:7100").unwrap(), ("h:7100".into(), "/v1/ws".into()));
        assert_eq!(split_url("ws://h:7100/").unwrap(), ("h:7100".into(), "/v1/ws".into()));
        assert_eq!(split_url("ws://h/x/y").unwrap(), ("h:80".into(), "/x/y".into()));
        // R-GW-9
        let error = split_url("h:7100").unwrap_err();
        assert_eq!((error.step, error.address.as_str()), (Step::Resolve, "h:7100"));
    }
}
