//! Redis with a password, the append-only file and no eviction.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::install::Tools;
use crate::managed::{Managed, Ready};
use crate::ports::Port;
use crate::process::Spec;
use crate::secrets;

#[derive(Debug)]
pub struct Redis {
    server: Managed,
    port: Port,
    password: String,
}

impl Redis {
    pub fn prepare(tools: &Tools, folder: &Path, port: Port, detached: bool) -> Result<Self> {
        let (_, password) = secrets::kept(folder, "password")?;
        let config = folder.join("redis.conf");
        let text = format!(
            "bind 127.0.0.1\nport {}\nprotected-mode yes\nrequirepass {password}\ndir \"{}\"\nsave \"\"\n\
             appendonly yes\nappendfsync everysec\nmaxmemory-policy noeviction\ndaemonize no\n",
            port.number(),
            folder.display()
        );
        secrets::write_private(&config, &text)?;
        let spec = Spec {
            name: "redis".to_owned(),
            program: tools.redis_server.clone(),
            args: vec![config.to_string_lossy().into_owned()],
            env: Vec::new(),
            folder: folder.to_path_buf(),
            log: folder.join("redis.log"),
            detached,
        };
        let ready = Ready::Redis { address: port.address(), password: password.clone() };
        let server = Managed::new(spec, ready, Duration::from_secs(30), Duration::from_secs(10));
        Ok(Self { server, port, password })
    }

    pub fn address(&self) -> String {
        self.port.address()
    }

    pub fn password(&self) -> &str {
        &self.password
    }

    pub fn url(&self) -> String {
        format!("redis://:{}@{}/0", self.password, self.address())
    }
}

impl std::ops::Deref for Redis {
    type Target = Managed;

    fn deref(&self) -> &Managed {
        &self.server
    }
}
