//! A word with each server without any client library.

use std::path::Path;
use std::process::Command;

use lapwing_servers::Infra;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends lines and reads all until the server closes.
pub(crate) async fn talk(address: &str, lines: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(lines.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    let _ = tokio::time::timeout(std::time::Duration::from_millis(1500), read).await;
    answer
}

pub(crate) async fn redis(infra: &Infra, command: &str) -> String {
    let redis = infra.redis();
    talk(&redis.address(), &format!("AUTH {}\r\n{command}\r\nQUIT\r\n", redis.password())).await
}

/// SQL as the service's user, over TCP.
pub(crate) fn sql(infra: &Infra, user: &str, password: &str, statement: &str) -> Result<String, String> {
    let address = infra.mariadb().address();
    let port = address.rsplit(':').next().unwrap().to_owned();
    client(&["--protocol=tcp", "-h", "127.0.0.1", "-P", &port, "-u", user, "lapwing"], password, statement)
}

/// SQL as root through the socket.
pub(crate) fn sql_by_socket(socket: &Path, statement: &str) -> Result<String, String> {
    client(&["-u", "root", "--socket", &socket.to_string_lossy()], "", statement)
}

fn client(arguments: &[&str], password: &str, statement: &str) -> Result<String, String> {
    let output = Command::new("mariadb")
        .arg("--no-defaults")
        .args(arguments)
        .args(["-N", "-B", "-e", statement])
        .env("MYSQL_PWD", password)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The addresses on which a process listens, from /proc.
pub(crate) fn listening(pid: u32) -> Vec<String> {
    let mut inodes = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let Ok(link) = std::fs::read_link(entry.path()) else { continue };
        let link = link.to_string_lossy().into_owned();
        if let Some(inode) = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
            inodes.push(inode.to_owned());
        }
    }
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[3] == "0A" && inodes.iter().any(|inode| inode == fields[9]) {
                found.push(fields[1].to_owned());
            }
        }
    }
    found
}
