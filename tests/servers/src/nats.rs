//! NATS with a user and a password.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::install::Tools;
use crate::managed::{Managed, Ready};
use crate::ports::Port;
use crate::process::Spec;
use crate::secrets;

pub const USER: &str = "lapwing";

#[derive(Debug)]
pub struct Nats {
    server: Managed,
    port: Port,
    password: String,
}

impl Nats {
    pub fn prepare(tools: &Tools, folder: &Path, port: Port, detached: bool) -> Result<Self> {
        let (_, password) = secrets::kept(folder, "password")?;
        let config = folder.join("nats.conf");
        // 2 MiB is above any event; see the table of limits in the requirements.
        let text = format!(
            "host: 127.0.0.1\nport: {}\nserver_name: lapwing\nmax_payload: 2097152\nmax_pending: 134217728\n\
             authorization {{ user: {USER}, password: \"{password}\" }}\n",
            port.number()
        );
        secrets::write_private(&config, &text)?;
        let spec = Spec {
            name: "nats".to_owned(),
            program: tools.nats_server.clone(),
            args: vec!["-c".to_owned(), config.to_string_lossy().into_owned()],
            env: Vec::new(),
            folder: folder.to_path_buf(),
            log: folder.join("nats.log"),
            detached,
        };
        let ready = Ready::Greets { address: port.address(), with: "INFO".to_owned() };
        let server = Managed::new(spec, ready, Duration::from_secs(15), Duration::from_secs(5));
        Ok(Self { server, port, password })
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
        format!("nats://{USER}:{}@{address}", self.password)
    }
}

impl std::ops::Deref for Nats {
    type Target = Managed;

    fn deref(&self) -> &Managed {
        &self.server
    }
}
