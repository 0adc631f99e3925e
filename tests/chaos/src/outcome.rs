//! A scenario's result: one JSON file each, so that a series goes on where it was interrupted.

use std::path::PathBuf;

use anyhow::Context;
use lapwing_loadtest::drive::Judged;
use lapwing_servers::paths;

use crate::{
    journal::{Check, Injection, MIN_IN_FLIGHT, Seen, Told},
    scenarios::Scenario,
};

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Outcome {
    pub name: String,
    pub shows: String,
    pub quick: bool,
    pub seconds: f64,
    pub injections: Vec<Injection>,
    pub seen: Vec<Seen>,
    /// The scenario's own, and the ledger's gates.
    pub checks: Vec<Check>,
    /// Refusals that clients were told, by name, and attempts without an answer.
    pub told: Vec<(String, u64)>,
    pub accepted: usize,
    pub planned: usize,
    pub delivered: u64,
    pub ack_p50_ms: f64,
    pub ack_p99_ms: f64,
    pub ack_max_ms: f64,
    pub details: Vec<String>,
    /// It could not be played to its end.
    pub broken: Option<String>,
}

impl Outcome {
    pub(crate) fn new(scenario: &Scenario, quick: bool, seconds: f64, told: Told, judged: Judged) -> Self {
        let mut checks = told.checks;
        let fewest = told.injections.iter().map(|injection| injection.in_flight).min();
        checks.push(Check {
            name: "publishes in flight at each fault".to_owned(),
            value: fewest.map_or("no fault".to_owned(), |fewest| format!("at least {fewest}")),
            limit: format!("≥ {MIN_IN_FLIGHT}"),
            passed: fewest.is_none_or(|fewest| fewest >= MIN_IN_FLIGHT)
                && !(fewest.is_none() && scenario.faulty),
        });
        checks.extend(judged.gates.into_iter().map(|gate| Check {
            name: gate.name,
            value: gate.value,
            limit: gate.limit,
            passed: gate.passed,
        }));
        Self {
            name: scenario.name.to_owned(),
            shows: scenario.shows.to_owned(),
            quick,
            seconds,
            injections: told.injections,
            seen: told.seen,
            checks,
            told: judged.told,
            accepted: judged.accepted,
            planned: judged.planned,
            delivered: judged.delivered,
            ack_p50_ms: judged.ack_p50_ms,
            ack_p99_ms: judged.ack_p99_ms,
            ack_max_ms: judged.ack_max_ms,
            details: judged.details,
            broken: None,
        }
    }

    pub(crate) fn broken(scenario: &Scenario, quick: bool, error: &anyhow::Error) -> Self {
        Self {
            name: scenario.name.to_owned(),
            shows: scenario.shows.to_owned(),
            quick,
            seconds: 0.0,
            injections: Vec::new(),
            seen: Vec::new(),
            checks: Vec::new(),
            told: Vec::new(),
            accepted: 0,
            planned: 0,
            delivered: 0,
            ack_p50_ms: 0.0,
            ack_p99_ms: 0.0,
            ack_max_ms: 0.0,
            details: Vec::new(),
            broken: Some(format!("{error:#}").replace(['\r', '\n'], " ")),
        }
    }

    pub fn passed(&self) -> bool {
        self.broken.is_none() && !self.checks.is_empty() && self.checks.iter().all(|check| check.passed)
    }

    fn failures(&self) -> Vec<String> {
        let failed = self.checks.iter().filter(|check| !check.passed);
        let failed = failed.map(|check| format!("{}: {} ({})", check.name, check.value, check.limit));
        self.broken.iter().cloned().chain(failed).collect()
    }

    /// The last line of a run.
    pub fn verdict(&self) -> String {
        let word = if self.passed() { "pass" } else { "fail" };
        let failures = self.failures();
        let why =
            if failures.is_empty() { String::new() } else { format!(" · failed: {}", failures.join("; ")) };
        format!(
            "verdict: {word} {} · {} faults · {} of {} accepted · {} deliveries · ACK P50 {:.1} P99 {:.1} max {:.0} ms{why}",
            self.name,
            self.injections.len(),
            self.accepted,
            self.planned,
            self.delivered,
            self.ack_p50_ms,
            self.ack_p99_ms,
            self.ack_max_ms,
        )
    }

    /// A line of the table at the end.
    pub fn row(&self) -> String {
        let word = if self.passed() { "pass" } else { "FAIL" };
        let fewest = self.injections.iter().map(|injection| injection.in_flight).min().unwrap_or(0);
        let first = self.failures().into_iter().next().unwrap_or_default();
        format!(
            "{word} {:<24} {:>4.0} s  {:>3} faults, in flight ≥ {fewest:<4} {:>6} of {:<6} accepted  P99 {:>7.1} ms  {first}",
            self.name,
            self.seconds,
            self.injections.len(),
            self.accepted,
            self.planned,
            self.ack_p99_ms,
        )
    }

    pub fn save(&self) -> anyhow::Result<()> {
        let path = path(&self.name);
        std::fs::create_dir_all(folder())?;
        std::fs::write(&path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

pub(crate) fn folder() -> PathBuf {
    paths::target_dir().join("chaos")
}

fn path(name: &str) -> PathBuf {
    folder().join(format!("{name}.json"))
}

pub(crate) fn load(name: &str) -> anyhow::Result<Option<Outcome>> {
    match std::fs::read(path(name)) {
        // One of an older version counts as none.
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path(name).display())),
    }
}

pub(crate) fn forget(name: &str) -> anyhow::Result<()> {
    match std::fs::remove_file(path(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path(name).display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use lapwing_loadtest::drive::Judgement;

    use super::*;
    use crate::scenarios::find;

    fn outcome(in_flight: &[usize], gate: bool) -> Outcome {
        let injection =
            |in_flight: &usize| Injection { at: 1.0, what: "kill".to_owned(), in_flight: *in_flight };
        let told = Told {
            injections: in_flight.iter().map(injection).collect(),
            seen: Vec::new(),
            checks: Vec::new(),
        };
        let gates = vec![Judgement {
            name: "ACK success".to_owned(),
            value: "1".to_owned(),
            limit: "1".to_owned(),
            passed: gate,
        }];
        let judged = Judged { gates, accepted: 10, planned: 10, ..Judged::default() };
        Outcome::new(find("router-kill").unwrap(), false, 1.0, told, judged)
    }

    #[test]
    fn a_fault_with_few_in_flight_no_fault_and_a_failed_gate_each_fail() {
        assert!(outcome(&[20, 90], true).passed());
        assert!(!outcome(&[19, 90], true).passed());
        assert!(!outcome(&[], true).passed());
        let failed = outcome(&[90], false);
        assert!(!failed.passed() && failed.verdict().starts_with("verdict: fail router-kill"), "{failed:?}");
        assert!(failed.verdict().ends_with("failed: ACK success: 1 (1)"), "{}", failed.verdict());
    }

    #[test]
    fn what_could_not_be_played_fails_and_says_why() {
        let broken = Outcome::broken(find("tour").unwrap(), true, &anyhow::anyhow!("no port"));
        assert!(!broken.passed() && broken.row().starts_with("FAIL") && broken.row().contains("no port"));
        let kept: Outcome = serde_json::from_slice(&serde_json::to_vec(&broken).unwrap()).unwrap();
        assert_eq!((kept.broken.as_deref(), kept.quick), (Some("no port"), true));
    }
}
