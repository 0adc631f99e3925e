//! A server that can be started again: what to run, how to know that it is ready, and the process if it runs.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::process::{Identity, Process, Signal, Spec, log_tail};

const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How a server shows that it is ready. Each is tried until it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ready {
    /// The first bytes that a server sends hold this (`INFO` of NATS).
    Greets { address: String, with: String },
    /// A MySQL handshake packet (protocol version 10) arrives.
    MySql { address: String },
    /// `AUTH` and `PING` are answered with `PONG`; a server that still loads its data says `LOADING`.
    Redis { address: String, password: String },
    /// Kafka answers a metadata request and each of these topics has a leader everywhere.
    Kafka { address: String, topics: Vec<String> },
    /// `GET path` answers 200.
    Http { address: String, path: String },
}

impl Ready {
    pub async fn holds(&self) -> bool {
        tokio::time::timeout(PROBE_TIMEOUT, self.probe()).await.is_ok_and(|answer| answer.unwrap_or(false))
    }

    async fn probe(&self) -> Result<bool> {
        match self {
            Self::Greets { address, with } => {
                let mut buffer = [0; 64];
                let count = TcpStream::connect(address).await?.read(&mut buffer).await?;
                Ok(String::from_utf8_lossy(&buffer[..count]).contains(with.as_str()))
            }
            Self::MySql { address } => {
                let mut packet = [0; 5];
                TcpStream::connect(address).await?.read_exact(&mut packet).await?;
                Ok(packet[4] == 10)
            }
            Self::Redis { address, password } => {
                let mut stream = TcpStream::connect(address).await?;
                stream.write_all(format!("AUTH {password}\r\nPING\r\nQUIT\r\n").as_bytes()).await?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await?;
                Ok(answer.contains("+PONG"))
            }
            Self::Kafka { address, topics } => crate::kafka_wire::all_led(address, topics).await,
            Self::Http { address, path } => Ok(crate::http::get(address, path).await?.status == 200),
        }
    }
}

/// Kept in the state file of `./dev up`, enough to find, stop and restart the server from another program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub spec: Spec,
    pub ready: Ready,
    pub start_limit: Duration,
    pub stop_grace: Duration,
    pub identity: Option<Identity>,
}

#[derive(Debug)]
pub struct Managed {
    spec: Spec,
    ready: Ready,
    start_limit: Duration,
    stop_grace: Duration,
    process: Mutex<Option<Process>>,
    /// Above the specification's own, for the next start.
    environment: Mutex<Vec<(String, String)>>,
}

impl Managed {
    pub fn new(spec: Spec, ready: Ready, start_limit: Duration, stop_grace: Duration) -> Self {
        Self {
            spec,
            ready,
            start_limit,
            stop_grace,
            process: Mutex::new(None),
            environment: Mutex::default(),
        }
    }

    pub fn adopt(record: Record) -> Self {
        let process = record.identity.filter(Identity::is_running).map(Process::adopt);
        Self {
            spec: record.spec,
            ready: record.ready,
            start_limit: record.start_limit,
            stop_grace: record.stop_grace,
            process: Mutex::new(process),
            environment: Mutex::default(),
        }
    }

    pub fn record(&self) -> Record {
        Record {
            spec: self.spec.clone(),
            ready: self.ready.clone(),
            start_limit: self.start_limit,
            stop_grace: self.stop_grace,
            identity: self.identity(),
        }
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub fn log(&self) -> &Path {
        &self.spec.log
    }

    pub fn pid(&self) -> Option<u32> {
        self.identity().map(|identity| identity.pid)
    }

    pub fn identity(&self) -> Option<Identity> {
        self.slot().as_ref().map(Process::identity)
    }

    pub fn is_running(&self) -> bool {
        self.slot().as_mut().is_some_and(|process| process.exited().is_none())
    }

    /// Starts the server on its port with its data, and waits until it is ready.
    pub async fn start(&self) -> Result<()> {
        self.spawn()?;
        self.wait_ready().await
    }

    /// Starts without waiting.
    pub fn spawn(&self) -> Result<()> {
        if self.is_running() {
            bail!("{} is running already", self.name());
        }
        let mut spec = self.spec.clone();
        spec.env.extend(self.environment.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        let mut process = Process::spawn(&spec)?;
        // Until the caller says otherwise, what was started detached dies with an interrupted start, too.
        process.kill_when_dropped();
        *self.slot() = Some(process);
        Ok(())
    }

    /// Waits until the server is ready; a server that ends first because its port is still held is started again.
    pub async fn wait_ready(&self) -> Result<()> {
        let begin = Instant::now();
        loop {
            if self.ready.holds().await && self.is_running() {
                return Ok(());
            }
            if !self.is_running() {
                let tail = log_tail(self.log(), 25);
                if begin.elapsed() > self.start_limit || !port_held(&tail) {
                    let how = self.slot().as_mut().and_then(Process::exited).unwrap_or_default();
                    bail!(
                        "{} ended before it was ready ({how}); {}:\n{tail}",
                        self.name(),
                        self.log().display()
                    );
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
                self.spawn()?;
            }
            if begin.elapsed() > self.start_limit {
                let tail = log_tail(self.log(), 25);
                bail!(
                    "{} is not ready after {:?}; {}:\n{tail}",
                    self.name(),
                    self.start_limit,
                    self.log().display()
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// SIGTERM, then by force. True if it ended by itself in time.
    pub async fn stop(&self) -> bool {
        let taken = self.slot().take();
        match taken {
            Some(mut process) => process.stop(self.stop_grace).await,
            None => true,
        }
    }

    pub async fn kill9(&self) {
        let taken = self.slot().take();
        if let Some(mut process) = taken {
            process.kill9().await;
        }
    }

    /// SIGSTOP: it holds its connections and answers nothing.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::Stop)
    }

    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::Cont)
    }

    /// For the next starts, until it is given anew; a test's own (`LAPWING_FAIL_POINT`).
    pub fn set_environment(&self, environment: &[(&str, &str)]) {
        let owned = environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        *self.environment.lock().unwrap_or_else(PoisonError::into_inner) = owned.collect();
    }

    /// Until the process has ended by itself; false: it had not within the limit.
    pub async fn wait_ended(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.is_running() {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        true
    }

    /// Graceful stop and start, on the same port with the same data.
    pub async fn restart(&self) -> Result<()> {
        self.stop().await;
        self.start().await
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        match self.slot().as_mut() {
            Some(process) => process.signal(signal),
            None => bail!("{} is not running", self.name()),
        }
    }

    /// From here on the server lives on when this value is dropped.
    pub fn release(&self) {
        if let Some(process) = self.slot().as_mut() {
            process.release();
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn port_held(log: &str) -> bool {
    let log = log.to_lowercase();
    log.contains("address already in use") || log.contains("is another mysqld server running on port")
}
