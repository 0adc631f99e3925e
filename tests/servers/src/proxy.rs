//! A TCP proxy in this process, for faults on the way: another target, cut connections, a link that stands still.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ports::{self, Port};

/// Ends with this value, its connections too.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    way: Arc<Way>,
    /// Aborted when dropped.
    _listening: JoinSet<()>,
}

#[derive(Debug)]
struct Way {
    target: Mutex<String>,
    /// Connections of an older generation are cut.
    generation: watch::Sender<u64>,
    /// Nothing is passed on while this is set.
    stalled: watch::Sender<bool>,
    /// So many connections are cut behind a request with these bytes, before its answer.
    losing: Mutex<(Vec<u8>, usize)>,
    open: AtomicUsize,
}

const CHUNK: usize = 64 << 10;

impl Proxy {
    pub async fn start(target: &str) -> Result<Self> {
        let port = ports::any()?;
        let listener = TcpListener::bind(port.address())
            .await
            .with_context(|| format!("the proxy cannot listen on {}", port.address()))?;
        let way = Arc::new(Way {
            target: Mutex::new(target.to_owned()),
            generation: watch::Sender::new(0),
            stalled: watch::Sender::new(false),
            losing: Mutex::default(),
            open: AtomicUsize::new(0),
        });
        let mut listening = JoinSet::new();
        listening.spawn(accept(listener, way.clone()));
        Ok(Self { port, way, _listening: listening })
    }

    pub fn address(&self) -> String {
        self.port.address()
    }

    /// New connections go there; those that exist are cut.
    pub fn switch_to(&self, target: &str) {
        target.clone_into(&mut self.way.target.lock().unwrap_or_else(PoisonError::into_inner));
        self.cut();
    }

    /// Closes every connection and says how many there were; new ones are taken.
    pub fn cut(&self) -> usize {
        self.way.generation.send_modify(|generation| *generation += 1);
        self.way.open.load(Relaxed)
    }

    /// The next requests that hold these bytes arrive, and are never answered: their connections are cut.
    pub fn lose_answers(&self, to: &[u8], times: usize) {
        *self.way.losing.lock().unwrap_or_else(PoisonError::into_inner) = (to.to_vec(), times);
    }

    /// How many of them are still to come.
    pub fn to_lose(&self) -> usize {
        self.way.losing.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Connections stay open, bytes stay where they are.
    pub fn stall(&self, stalled: bool) {
        self.way.stalled.send_replace(stalled);
    }
}

async fn accept(listener: TcpListener, way: Arc<Way>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let way = way.clone();
        connections.spawn(async move {
            let generation = way.generation.subscribe();
            let target = way.target.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // A target that is down: the client sees its connection closed, as behind any balancer.
            if let Ok(server) = TcpStream::connect(target).await {
                connection(client, server, &way, generation).await;
            }
        });
    }
}

impl Way {
    fn loses(&self, request: &[u8]) -> bool {
        let mut losing = self.losing.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, times) = &mut *losing;
        let found = *times > 0 && request.windows(bytes.len().max(1)).any(|part| part == &bytes[..]);
        *times -= usize::from(found);
        found
    }
}

async fn connection(client: TcpStream, server: TcpStream, way: &Way, mut generation: watch::Receiver<u64>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    way.open.fetch_add(1, Relaxed);
    let unheard = AtomicBool::new(false);
    tokio::select! {
        _ = generation.changed() => {}
        () = pass_on(from_client, to_server, way.stalled.subscribe(), |request| {
            unheard.fetch_or(way.loses(request), Relaxed);
            true
        }) => {}
        // The answer to it ends the connection: the request was carried out.
        () = pass_on(from_server, to_client, way.stalled.subscribe(), |_| !unheard.load(Relaxed)) => {}
    }
    way.open.fetch_sub(1, Relaxed);
}

/// One direction; the end of one ends both, which is what a dead server looks like.
async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut stalled: watch::Receiver<bool>,
    passes: impl Fn(&[u8]) -> bool,
) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => count,
        };
        if stalled.wait_for(|stalled| !stalled).await.is_err() {
            return;
        }
        if !passes(&buffer[..count]) || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
