//! MariaDB with the database `lapwing`, a writing user and a read-only one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::install::Tools;
use crate::managed::{Managed, Ready};
use crate::paths;
use crate::ports::Port;
use crate::process::Spec;
use crate::secrets;

pub const DATABASE: &str = "lapwing";
pub const USER: &str = "lapwing";
pub const READER: &str = "lapwing_ro";
const ADMIN: &str = "lapwing_admin";

#[derive(Debug)]
pub struct MariaDb {
    server: Managed,
    port: Port,
    socket: PathBuf,
    password: String,
    reader_password: String,
    admin_password: String,
}

impl MariaDb {
    pub fn prepare(tools: &Tools, folder: &Path, port: Port, detached: bool) -> Result<Self> {
        let (_, password) = secrets::kept(folder, "password")?;
        let (_, reader_password) = secrets::kept(folder, "reader_password")?;
        let (_, admin_password) = secrets::kept(folder, "admin_password")?;
        let data = folder.join("data");
        if !data.join("mysql").exists() {
            // Making the system tables takes seconds, so it is done once and copied.
            paths::copy_tree(&tools.mariadb_template, &data)
                .context("mariadb: cannot copy the new data folder")?;
        }
        let init = folder.join("init.sql");
        secrets::write_private(&init, &accounts(&password, &reader_password, &admin_password))?;
        let socket = paths::socket_path(folder, "mariadb.sock")?;
        let spec = Spec {
            name: "mariadb".to_owned(),
            program: tools.mariadbd.clone(),
            args: arguments(&data, &init, &socket, port.number()),
            env: Vec::new(),
            folder: folder.to_path_buf(),
            log: folder.join("mariadb.log"),
            detached,
        };
        let ready = Ready::MySql { address: port.address() };
        let server = Managed::new(spec, ready, Duration::from_secs(60), Duration::from_secs(20));
        Ok(Self { server, port, socket, password, reader_password, admin_password })
    }

    pub fn address(&self) -> String {
        self.port.address()
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn password(&self) -> &str {
        &self.password
    }

    /// Reads and writes the database `lapwing`.
    pub fn url(&self) -> String {
        self.url_at(&self.address())
    }

    /// The same server by way of another address.
    pub fn url_at(&self, address: &str) -> String {
        format!("mysql://{USER}:{}@{address}/{DATABASE}", self.password)
    }

    /// May do everything: for faults on purpose.
    pub fn admin_url(&self) -> String {
        format!("mysql://{ADMIN}:{}@{}/{DATABASE}", self.admin_password, self.address())
    }

    /// Can only SELECT: for the load test's check, outside the services.
    pub fn reader_url(&self) -> String {
        format!("mysql://{READER}:{}@{}/{DATABASE}", self.reader_password, self.address())
    }
}

impl std::ops::Deref for MariaDb {
    type Target = Managed;

    fn deref(&self) -> &Managed {
        &self.server
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // A socket in a short folder of the temp directory is not in the run's folder and goes by itself.
        if !self.server.record().spec.detached
            && let Some(short) =
                self.socket.parent().filter(|folder| folder.starts_with(std::env::temp_dir()))
            && short.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lw-"))
        {
            let _ = std::fs::remove_dir_all(short);
        }
    }
}

fn arguments(data: &Path, init: &Path, socket: &Path, port: u16) -> Vec<String> {
    let mut arguments = vec![
        "--no-defaults".to_owned(),
        format!("--datadir={}", data.display()),
        format!("--init-file={}", init.display()),
        format!("--socket={}", socket.display()),
        format!("--pid-file={}", data.join("mariadb.pid").display()),
        format!("--port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
    ];
    arguments.extend(
        [
            "--skip-name-resolve",
            "--character-set-server=utf8mb4",
            "--collation-server=utf8mb4_bin",
            "--sql-mode=STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,\
             NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION",
            "--max-connections=170",
            "--max-allowed-packet=32M",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-buffer-pool-size=256M",
            "--innodb-log-file-size=96M",
            "--transaction-isolation=REPEATABLE-READ",
            "--thread-stack=256K",
        ]
        .map(str::to_owned),
    );
    if paths::uid() == 0 {
        arguments.push("--user=root".to_owned());
    }
    arguments
}

/// Run at each start, so the accounts always match the password files.
fn accounts(password: &str, reader_password: &str, admin_password: &str) -> String {
    let mut sql = format!("CREATE DATABASE IF NOT EXISTS {DATABASE};\n");
    for host in ["127.0.0.1", "localhost"] {
        sql.push_str(&format!(
            "CREATE OR REPLACE USER '{USER}'@'{host}' IDENTIFIED BY '{password}';\n\
             GRANT ALL PRIVILEGES ON {DATABASE}.* TO '{USER}'@'{host}';\n\
             CREATE OR REPLACE USER '{READER}'@'{host}' IDENTIFIED BY '{reader_password}';\n\
             GRANT SELECT ON {DATABASE}.* TO '{READER}'@'{host}';\n\
             CREATE OR REPLACE USER '{ADMIN}'@'{host}' IDENTIFIED BY '{admin_password}';\n\
             GRANT ALL PRIVILEGES ON *.* TO '{ADMIN}'@'{host}';\n"
        ));
    }
    sql
}
