//! Free loopback ports below the ephemeral range, reserved against other test processes.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use rand::Rng;

const FIRST: u16 = 10_000;
const LAST: u16 = 32_000;
/// 32768 and up are handed out by the kernel to outgoing connections: a server there loses its port at a restart.
const CEILING: u16 = 32_768;

/// A port that no other process using this crate takes while the value lives, also while its server is down.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The lock goes with the file handle, so a killed test leaves nothing behind.
    _lock: File,
}

impl Port {
    pub fn number(&self) -> u16 {
        self.number
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}

/// A free port at a random place, so that parallel test runs seldom meet.
pub fn any() -> Result<Port> {
    let start = rand::rng().random_range(FIRST..LAST);
    for step in 0..(LAST - FIRST) {
        let number = FIRST + (start - FIRST + step) % (LAST - FIRST);
        if let Some(port) = reserve(number)? {
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {LAST} on loopback: stop something that listens there")
}

/// `preferred`, or the next free port after it.
pub fn at_or_after(preferred: u16) -> Result<Port> {
    for number in preferred..CEILING {
        if let Some(port) = reserve(number)? {
            return Ok(port);
        }
    }
    bail!("no free port between {preferred} and {CEILING} on loopback: stop something that listens there")
}

fn reserve(number: u16) -> Result<Option<Port>> {
    let folder = lock_folder();
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{number}.lock"));
    let Ok(lock) = OpenOptions::new().create(true).truncate(false).write(true).open(&path) else {
        return Ok(None);
    };
    if lock.try_lock().is_err() {
        return Ok(None);
    }
    match TcpListener::bind((Ipv4Addr::LOCALHOST, number)) {
        Ok(_) => Ok(Some(Port { number, _lock: lock })),
        Err(_) => Ok(None),
    }
}

fn lock_folder() -> PathBuf {
    std::env::temp_dir().join(format!("lapwing-ports-{}", crate::paths::uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_differ_and_come_back() {
        let first = any().unwrap();
        let after = at_or_after(first.number()).unwrap();
        assert_ne!(first.number(), after.number());
        assert!(after.number() < CEILING);
        let number = first.number();
        drop(first);
        assert_eq!(at_or_after(number).unwrap().number(), number);
    }

    #[test]
    fn a_taken_port_is_passed_over() {
        let free = any().unwrap().number();
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, free)).unwrap();
        assert_ne!(at_or_after(free).unwrap().number(), free);
    }
}
