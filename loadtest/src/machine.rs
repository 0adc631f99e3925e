//! CPU and memory of each process of the cluster and of the load test itself, from /proc.
use std::{collections::BTreeMap, time::Instant};

use lapwing_servers::State;

#[derive(Debug, Clone, Default, serde::Serialize)]
pub(crate) struct Usage {
    /// Percent of one core, one sample a second.
    pub(crate) cpu: Vec<f64>,
    pub(crate) rss_mib: Vec<f64>,
}

#[derive(Default)]
pub(crate) struct Machine {
    pids: Vec<(String, u32)>,
    last: BTreeMap<String, (u64, Instant)>,
    pub(crate) usage: BTreeMap<String, Usage>,
}

/// Linux's USER_HZ, the same on all common machines.
const TICKS: f64 = 100.0;
const PAGE_MIB: f64 = 4096.0 / 1048576.0;

impl Machine {
    pub(crate) fn new(state: Option<&State>) -> Self {
        let mut machine = Self::default();
        machine.watch(state);
        machine
    }

    /// Process numbers change with a restart, so they are taken anew from the state file.
    pub(crate) fn watch(&mut self, state: Option<&State>) {
        let records = state.map(|s| s.processes.as_slice()).unwrap_or_default();
        let pid = |r: &lapwing_servers::managed::Record| Some((r.spec.name.clone(), r.identity?.pid));
        self.pids = records.iter().filter_map(pid).collect();
        self.pids.push(("loadtest".to_owned(), std::process::id()));
    }

    pub(crate) fn sample(&mut self) {
        for (name, pid) in &self.pids {
            let Some((ticks, rss)) = read(*pid) else {
                self.last.remove(name);
                continue;
            };
            let now = Instant::now();
            let usage = self.usage.entry(name.clone()).or_default();
            if let Some((then, at)) = self.last.insert(name.clone(), (ticks, now)) {
                let spent = ticks.saturating_sub(then) as f64 / TICKS;
                usage.cpu.push(100.0 * spent / now.duration_since(at).as_secs_f64().max(0.001));
            }
            usage.rss_mib.push(rss);
        }
    }
}

/// Periods in which this machine's control group was throttled, since it started; None where there is no such figure.
pub(crate) fn throttled() -> Option<u64> {
    let text = std::fs::read_to_string("/sys/fs/cgroup/cpu.stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}

fn read(pid: u32) -> Option<(u64, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let pages: f64 = fields.get(21)?.parse().ok()?;
    Some((ticks, pages * PAGE_MIB))
}

#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Summary {
    pub(crate) process: String,
    pub(crate) cpu_p95: f64,
    pub(crate) cpu_mean: f64,
    pub(crate) rss_max_mib: f64,
}

pub(crate) fn summary(usage: &BTreeMap<String, Usage>) -> Vec<Summary> {
    let one = |(name, usage): (&String, &Usage)| {
        let mut cpu = usage.cpu.clone();
        cpu.sort_by(f64::total_cmp);
        let rank = ((cpu.len() as f64) * 0.95).ceil() as usize;
        Summary {
            process: name.clone(),
            cpu_p95: cpu.get(rank.saturating_sub(1)).copied().unwrap_or(0.0),
            cpu_mean: cpu.iter().sum::<f64>() / cpu.len().max(1) as f64,
            rss_max_mib: usage.rss_mib.iter().copied().fold(0.0, f64::max),
        }
    };
    usage.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_its_own_process() {
        let mut machine = Machine::new(None);
        machine.sample();
        let spin = Instant::now();
        while spin.elapsed().as_millis() < 60 {
            std::hint::black_box(spin.elapsed());
        }
        machine.sample();
        let summary = summary(&machine.usage);
        assert_eq!(summary[0].process, "loadtest");
        assert!(summary[0].cpu_p95 > 10.0 && summary[0].rss_max_mib > 1.0, "{summary:?}");
    }
}
