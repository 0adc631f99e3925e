//! Redis with a password, the append-only file and no eviction.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::install::Tools;
use crate::managed::{Managed, Ready};
use crate::ports::Port;
use crate::process::Spec;
use crate::{redis_wire, secrets};

#[derive(Debug)]
pub struct Redis {
    server: Managed,
    port: Port,
    password: String,
    folder: PathBuf,
}

impl Redis {
    pub fn prepare(tools: &Tools, folder: &Path, port: Port, detached: bool) -> Result<Self> {
        let (_, password) = secrets::kept(folder, "password")?;
        Self::with(tools, folder, port, detached, password, "redis", "")
    }

    /// A replica of `primary`, which it reaches at `by` (its own address, or a proxy's).
    pub fn replica(&self, tools: &Tools, folder: &Path, port: Port, by: &str) -> Result<Self> {
        let (host, at) = by.rsplit_once(':').context("an address without a port")?;
        std::fs::create_dir_all(folder)?;
        let more = format!(
            "replicaof {host} {at}\nmasterauth {}\nrepl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n",
            self.password
        );
        Self::with(tools, folder, port, false, self.password.clone(), "redis-replica", &more)
    }

    fn with(
        tools: &Tools,
        folder: &Path,
        port: Port,
        detached: bool,
        password: String,
        name: &str,
        more: &str,
    ) -> Result<Self> {
        let config = folder.join("redis.conf");
        let text = format!(
            "bind 127.0.0.1\nport {}\nprotected-mode yes\nrequirepass {password}\ndir \"{}\"\nsave \"\"\n\
             appendonly yes\nappendfsync everysec\nmaxmemory-policy noeviction\nlazyfree-lazy-expire yes\ndaemonize no\n{more}",
            port.number(),
            folder.display()
        );
        secrets::write_private(&config, &text)?;
        let spec = Spec {
            name: name.to_owned(),
            program: tools.redis_server.clone(),
            args: vec![config.to_string_lossy().into_owned()],
            env: Vec::new(),
            folder: folder.to_path_buf(),
            log: folder.join(format!("{name}.log")),
            detached,
        };
        let ready = Ready::Redis { address: port.address(), password: password.clone() };
        let server = Managed::new(spec, ready, Duration::from_secs(30), Duration::from_secs(10));
        Ok(Self { server, port, password, folder: folder.to_path_buf() })
    }

    pub fn address(&self) -> String {
        self.port.address()
    }

    pub fn password(&self) -> &str {
        &self.password
    }

    pub fn url(&self) -> String {
        self.url_at(&self.address())
    }

    /// The same server by way of another address.
    pub fn url_at(&self, address: &str) -> String {
        format!("redis://:{}@{address}/0", self.password)
    }

    /// One command on a connection of its own.
    pub async fn command(&self, words: &[&str]) -> Result<String> {
        redis_wire::command(&self.address(), &self.password, words).await
    }

    /// The append-only file that is being written; it is rewritten seldom, under a greater number.
    pub fn append_only_file(&self) -> Result<PathBuf> {
        let folder = self.folder.join("appendonlydir");
        let files =
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let newest = files
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
            .max_by_key(|path| path.metadata().and_then(|meta| meta.modified()).ok());
        newest.with_context(|| format!("no append-only file in {}", folder.display()))
    }
}

impl std::ops::Deref for Redis {
    type Target = Managed;

    fn deref(&self) -> &Managed {
        &self.server
    }
}
