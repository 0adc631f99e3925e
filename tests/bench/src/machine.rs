//! What it ran on, and what processes used of it, from /proc.

use std::process::Command;

/// Linux's USER_HZ, the same on all common machines.
const TICKS: f64 = 100.0;

/// CPU seconds that a process has used, all its threads.
pub(crate) fn cpu(pid: u32) -> f64 {
    let read = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) / TICKS)
    };
    read().unwrap_or_default()
}

/// Bytes of a process that are in memory.
pub(crate) fn resident(pid: u32) -> u64 {
    let read = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    read().unwrap_or_default() * 1024
}

/// CPU seconds that all cores were busy since the start of the machine: with those of the own processes it tells how much was
/// taken by others.
pub(crate) fn busy() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let fields: Vec<f64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let idle: f64 = fields.iter().skip(3).take(2).sum();
    (fields.iter().take(8).sum::<f64>() - idle) / TICKS
}

/// "2 cores AMD EPYC …, 24 GiB, Linux 6.1.0, load 0.1": one line for the head of a report.
pub(crate) fn describe() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = after(&read("/proc/cpuinfo"), "model name");
    let kib = after(&read("/proc/meminfo"), "MemTotal");
    let gib =
        kib.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or_default() / 1048576.0;
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg").split_whitespace().next().unwrap_or_default().to_owned();
    format!("{cores} cores {model}, {gib:.0} GiB, Linux {}, load average {load} at the start", kernel.trim())
}

/// UTC, to the minute.
pub(crate) fn date() -> String {
    said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])
}

/// The checkout's commit, with a `+` when files differ from it.
pub(crate) fn commit() -> String {
    let root = lapwing_servers::paths::workspace_dir();
    let at = root.to_string_lossy();
    let changed = !said("git", &["-C", &at, "status", "--porcelain", "-uno"]).is_empty();
    let hash = said("git", &["-C", &at, "rev-parse", "--short", "HEAD"]);
    if hash.is_empty() { "unknown".to_owned() } else { format!("{hash}{}", if changed { "+" } else { "" }) }
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
