//! Both directions of a client's socket. The reader only reads and judges frames; the writer coalesces what has piled
//! up into one write, and is the only one who ends the connection.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use lapwing_gateway_core::wire::{Incoming, Reader, Violation, close_frame};
use lapwing_runtime::{queue::Receiver, time::mono_ms};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use crate::{close::Close, session::Outbox};

const COALESCE: usize = 64 << 10;
const COALESCE_FRAMES: usize = 256;
/// For the last frames and the close frame of a connection that ends.
const GOODBYE: Duration = Duration::from_secs(2);
const READ_STEP: usize = 4 << 10;

/// The TCP stream out of hyper's hands, with the bytes that it had read ahead.
pub fn take_over(upgraded: Upgraded) -> Option<(TcpStream, BytesMut)> {
    let parts = upgraded.downcast::<TokioIo<TcpStream>>().ok()?;
    // Copied, so that hyper's buffer goes.
    Some((parts.io.into_inner(), BytesMut::from(&parts.read_buf[..])))
}

pub struct SocketReader {
    half: OwnedReadHalf,
    buf: BytesMut,
    frames: Reader,
    step: usize,
}

pub enum Read {
    Message(Incoming),
    Broken(Violation),
    Ended,
}

impl SocketReader {
    pub fn new(half: OwnedReadHalf, buf: BytesMut, max_frame: usize, read_buffer: usize) -> Self {
        Self { half, buf, frames: Reader::new(max_frame), step: read_buffer.max(READ_STEP) }
    }

    /// Cancel-safe: what was read stays in the buffer.
    pub async fn next(&mut self) -> Read {
        loop {
            match self.frames.next(&mut self.buf) {
                Ok(Some(message)) => return Read::Message(message),
                Ok(None) => {}
                Err(violation) => return Read::Broken(violation),
            }
            if self.buf.is_empty() && self.buf.capacity() > self.step {
                self.buf = BytesMut::new(); // one large frame must not keep its buffer for the connection's life
            }
            self.buf.reserve(READ_STEP.max(self.buf.len().min(self.step)));
            match self.half.read_buf(&mut self.buf).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Read::Ended,
            }
        }
    }
}

/// Writes until the outbox is told to close. `first` goes before everything that was queued meanwhile.
pub async fn write(
    mut half: OwnedWriteHalf,
    first: Option<Bytes>,
    mut queue: Receiver<Bytes>,
    out: Arc<Outbox>,
) {
    let stop = out.stopped();
    // The first frame counts as under way, also for a connection that was told to close before its writer began.
    out.writing_since.store(first.as_ref().map_or(0, |_| mono_ms().max(1)), Ordering::Relaxed);
    let ended = {
        let writing = write_queue(&mut half, first, &mut queue, &out);
        tokio::pin!(writing);
        tokio::select! {
            ended = &mut writing => ended,
            () = stop.cancelled() => {
                let idle = out.writing_since.load(Ordering::Relaxed) == 0 && out.is_empty();
                if idle { Ok(()) } else { timeout(GOODBYE, &mut writing).await.unwrap_or_else(|late| Err(late.into())) }
            }
        }
    };
    if ended.is_err() {
        // A frame may be half out: a close frame behind it would be read as payload.
        out.close(Close::Lost);
        let _ = timeout(GOODBYE, half.shutdown()).await;
    } else {
        say_goodbye(half, out.closing().unwrap_or(Close::Lost)).await;
    }
    // Not a drop: there is nobody to read it, and who comes again says by its cursors where it stands.
    queue.close();
    drop(queue.try_pop_up_to(usize::MAX, usize::MAX));
}

async fn write_queue(
    half: &mut OwnedWriteHalf,
    first: Option<Bytes>,
    queue: &mut Receiver<Bytes>,
    out: &Outbox,
) -> std::io::Result<()> {
    if let Some(first) = first {
        write_marked(half, &first, out).await?;
    }
    loop {
        // What is queued still goes out, unless the reader is the one who does not take it.
        if let Some(close) = out.closing()
            && (queue.is_empty() || close == Close::SlowConsumer)
        {
            return Ok(());
        }
        let frames = queue.pop_up_to(COALESCE_FRAMES, COALESCE).await;
        match frames.as_slice() {
            [] => return Ok(()),
            [one] => write_marked(half, one, out).await?,
            many => {
                let mut burst = Vec::with_capacity(many.iter().map(Bytes::len).sum());
                many.iter().for_each(|frame| burst.extend_from_slice(frame));
                write_marked(half, &burst, out).await?;
            }
        }
    }
}

async fn say_goodbye(mut half: OwnedWriteHalf, close: Close) {
    let _ = timeout(GOODBYE, async {
        if close != Close::Lost {
            half.write_all(&close_frame(close.code(), close.reason())).await?;
        }
        half.shutdown().await
    })
    .await;
}

async fn write_marked(half: &mut OwnedWriteHalf, bytes: &[u8], out: &Outbox) -> std::io::Result<()> {
    out.writing_since.store(mono_ms().max(1), Ordering::Relaxed);
    let written = half.write_all(bytes).await;
    out.writing_since.store(0, Ordering::Relaxed);
    written
}

#[cfg(test)]
mod tests {
    use lapwing_gateway_core::wire;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (listener.accept().await.unwrap().0, client)
    }

    fn frame(byte: u8, len: usize) -> Bytes {
        wire::message(wire::BINARY, &vec![byte; len])
    }

    async fn everything(mut client: TcpStream) -> Vec<u8> {
        let mut all = Vec::new();
        let _ = timeout(Duration::from_secs(10), client.read_to_end(&mut all)).await;
        all
    }

    // What was queued before the word to close goes out before the close frame; the welcome goes first of all.
    #[tokio::test]
    async fn a_close_comes_behind_what_was_queued() {
        let (server, client) = pair().await;
        let (out, queue) = Outbox::new(1 << 20);
        let out = Arc::new(out);
        out.push(frame(1, 10));
        out.push(frame(2, 300));
        out.close(Close::GoingAway);
        out.push(frame(3, 10));
        out.close(Close::SlowConsumer);
        write(server.into_split().1, Some(frame(0, 5)), queue, out.clone()).await;
        let expected =
            [frame(0, 5), frame(1, 10), frame(2, 300), frame(3, 10), close_frame(4000, "going_away")]
                .concat();
        assert_eq!(everything(client).await, expected);
    }

    // R-GW-9: a refused connect is told why before it is closed.
    #[tokio::test]
    async fn the_first_frame_goes_out_before_a_close_that_came_earlier() {
        for _ in 0..20 {
            let (server, client) = pair().await;
            let (out, queue) = Outbox::new(1000);
            out.close(Close::Unauthenticated);
            write(server.into_split().1, Some(frame(0, 5)), queue, Arc::new(out)).await;
            let expected = [frame(0, 5), close_frame(4501, "unauthenticated")].concat();
            assert_eq!(everything(client).await, expected);
        }
    }

    // R-GW-3
    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_left_within_the_grace() {
        let (server, client) = pair().await;
        let (out, queue) = Outbox::new(64 << 20);
        let out = Arc::new(out);
        for _ in 0..32 {
            out.push(frame(1, 1 << 20));
        }
        let (_reader, half) = server.into_split();
        let writing = write(half, None, queue, out.clone());
        let closing = async {
            while out.writing_since.load(Ordering::Relaxed) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_ne!(out.writing_since.load(Ordering::Relaxed), 0, "the sweep sees a write that stands");
            out.close(Close::SlowConsumer);
        };
        let since = std::time::Instant::now();
        tokio::join!(writing, closing);
        assert!(since.elapsed() < GOODBYE * 3, "{:?}", since.elapsed());
        assert!(everything(client).await.len() < 32 << 20, "the rest was dropped");
    }

    // R-GW-3: events stop at the watermark, answers may pass it, and nothing passes twice of it.
    #[tokio::test]
    async fn the_way_out_is_bounded_in_bytes() {
        let (out, mut queue) = Outbox::new(1000);
        assert!(out.push_event(&frame(1, 5000)), "one frame may pass the watermark");
        assert!(!out.push_event(&frame(1, 10)) && out.is_over());
        assert!(queue.try_pop().is_some() && out.has_room());
        assert!(out.push_event(&frame(1, 900)));
        assert!(!out.push_event(&frame(1, 100)));
        out.push(frame(2, 900));
        assert_eq!(out.closing(), None);
        out.push(frame(2, 900));
        assert_eq!(out.closing(), Some(Close::SlowConsumer));
    }
}
