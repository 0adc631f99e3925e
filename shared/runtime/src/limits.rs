//! Start checks of what the machine allows (R-DEV-2), and binding with a clear word.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::net::{TcpListener, TcpSocket};

/// Below this many open files a service that holds connections is not worth starting for real use.
pub const NOFILE_WANTED: u64 = 4096;
const BACKLOG: u32 = 4096;

/// What is too small on this machine, in words that say what to do. Empty when all is well.
pub fn warnings() -> Vec<String> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    [nofile_warning(&limits), backlog_warning(&somaxconn)].into_iter().flatten().collect()
}

/// The soft limit of open files of this process, if it can be read and is a number.
pub fn nofile() -> Option<u64> {
    std::fs::read_to_string("/proc/self/limits").ok().and_then(|text| soft_nofile(&text))
}

fn soft_nofile(limits: &str) -> Option<u64> {
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line["Max open files".len()..].split_whitespace().next()?.parse().ok()
}

fn nofile_warning(limits: &str) -> Option<String> {
    let soft = soft_nofile(limits)?;
    (soft < NOFILE_WANTED).then(|| {
        format!(
            "open files are limited to {soft}, want at least {NOFILE_WANTED}: each connection takes one; \
             raise it with `ulimit -n 65536` or LimitNOFILE= of the service manager"
        )
    })
}

fn backlog_warning(somaxconn: &str) -> Option<String> {
    let allowed: u32 = somaxconn.trim().parse().ok()?;
    (allowed < BACKLOG).then(|| {
        format!(
            "net.core.somaxconn is {allowed}, want {BACKLOG}: a wave of reconnects would see refused connections; \
             raise it with `sysctl net.core.somaxconn={BACKLOG}`"
        )
    })
}

/// Listens with a deep backlog. `key` is the configuration key to name when the port is taken.
pub fn bind(addr: SocketAddr, key: &str) -> anyhow::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port in TIME_WAIT after a restart is free; one that somebody listens on is still refused.
    socket.set_reuseaddr(true)?;
    match socket.bind(addr).and_then(|()| socket.listen(BACKLOG)) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            bail!("{key}={addr}: this port is taken by another process; stop it or choose another port")
        }
        Err(error) => Err(error).with_context(|| format!("{key}={addr}: cannot listen")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-DEV-2
    #[test]
    fn a_small_limit_is_named_with_its_remedy() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max open files            1024                 1048576              files\n";
        assert_eq!(soft_nofile(text), Some(1024));
        assert!(nofile_warning(text).unwrap().contains("ulimit -n"));
        assert_eq!(nofile_warning(&text.replace("1024 ", "4096 ")), None);
        assert_eq!(
            nofile_warning("Max open files            unlimited            unlimited            files"),
            None
        );
        assert!(backlog_warning("128\n").unwrap().contains("somaxconn is 128"));
        assert_eq!(backlog_warning("4096\n"), None);
        assert!(nofile().is_some(), "this process's own limit is readable");
    }

    #[tokio::test]
    async fn a_taken_port_names_the_key() {
        let first = bind("127.0.0.1:0".parse().unwrap(), "LAPWING_ADMIN_ADDR").unwrap();
        let taken = first.local_addr().unwrap();
        let error = bind(taken, "LAPWING_ADMIN_ADDR").unwrap_err().to_string();
        assert!(error.contains(&format!("LAPWING_ADMIN_ADDR={taken}: this port is taken")), "{error}");
    }
}
