//! What was injected and what was seen, with the second in which it was; printed as it happens and kept.

use std::{collections::BTreeMap, time::Instant};

use lapwing_loadtest::drive::{Judged, Load};
use parking_lot::Mutex;

/// Fewer publishes in flight at a fault prove nothing.
pub(crate) const MIN_IN_FLIGHT: usize = 20;

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Injection {
    pub at: f64,
    pub what: String,
    pub in_flight: usize,
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Seen {
    pub at: f64,
    pub what: String,
}

/// A claim of the scenario beside the ledger's gates.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Check {
    pub name: String,
    pub value: String,
    pub limit: String,
    pub passed: bool,
}

pub(crate) struct Journal {
    began: Instant,
    inner: Mutex<Inner>,
}

/// A check that only the ledger can make, when all has settled.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Claim {
    AckP99Below(f64),
    Accepted(usize),
    /// No session of a client was lost.
    Connected,
    /// The most that any process of that kind (`r`: r1, r2) had in memory, in MiB; a server stands for itself.
    MemoryBelow(&'static str, f64),
}

#[derive(Default)]
struct Inner {
    claims: Vec<Claim>,
    injections: Vec<Injection>,
    seen: Vec<Seen>,
    checks: Vec<Check>,
    /// How often each log message came, over all services.
    messages: BTreeMap<String, u64>,
}

pub(crate) struct Told {
    pub(crate) injections: Vec<Injection>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) checks: Vec<Check>,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), inner: Mutex::default() }
    }

    fn at(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// `moment`: of the load's clock, just before the fault.
    pub(crate) fn injected(&self, what: &str, load: &Load, moment: u64) {
        let (at, in_flight) = (self.at(), load.in_flight_at(moment));
        let few = if in_flight < MIN_IN_FLIGHT { " TOO FEW" } else { "" };
        println!("  {at:>7.2} s  INJECT {what} · {in_flight} publishes in flight{few}");
        self.inner.lock().injections.push(Injection { at, what: what.to_owned(), in_flight });
    }

    pub(crate) fn saw(&self, what: &str) {
        let at = self.at();
        println!("  {at:>7.2} s  saw    {what}");
        self.inner.lock().seen.push(Seen { at, what: what.to_owned() });
    }

    pub(crate) fn message(&self, message: &str) {
        *self.inner.lock().messages.entry(message.to_owned()).or_default() += 1;
    }

    /// How often log messages that begin so came until now.
    pub(crate) fn messages(&self, begin: &str) -> u64 {
        let inner = self.inner.lock();
        inner.messages.iter().filter(|(message, _)| message.starts_with(begin)).map(|(_, count)| count).sum()
    }

    pub(crate) fn check(&self, name: &str, value: impl ToString, limit: &str, passed: bool) {
        let check =
            Check { name: name.to_owned(), value: value.to_string(), limit: limit.to_owned(), passed };
        let mark = if passed { "ok  " } else { "FAIL" };
        println!("  {:>7.2} s  {mark}   {name}: {} ({limit})", self.at(), check.value);
        self.inner.lock().checks.push(check);
    }

    pub(crate) fn claim(&self, claim: Claim) {
        self.inner.lock().claims.push(claim);
    }

    pub(crate) fn settle_claims(&self, judged: &Judged) {
        let claims = std::mem::take(&mut self.inner.lock().claims);
        for claim in claims {
            match claim {
                Claim::AckP99Below(ms) => {
                    let value = format!("{:.1} ms", judged.ack_p99_ms);
                    self.check(
                        "ACK P99",
                        value,
                        &format!("< {ms} ms"),
                        judged.ack_p99_ms < ms && judged.accepted > 0,
                    );
                }
                Claim::Connected => {
                    let lost = judged.figures["disconnects"].as_u64();
                    let value = lost.map_or("not told".to_owned(), |lost| format!("{lost} lost"));
                    self.check("sessions of clients", value, "none lost", lost == Some(0));
                }
                Claim::MemoryBelow(process, limit) => {
                    let most = most_memory(judged, process);
                    let value = most.map_or("not seen".to_owned(), |most| format!("{most:.0} MiB"));
                    let name = format!("memory of each {process}");
                    self.check(
                        &name,
                        value,
                        &format!("< {limit} MiB"),
                        most.is_some_and(|most| most < limit),
                    );
                }
                Claim::Accepted(all) => {
                    let good = judged.accepted == all && judged.planned == all;
                    self.check("accepted", judged.accepted, &format!("{all}, all that were sent"), good);
                }
            }
        }
    }

    pub(crate) fn told(&self) -> Told {
        let inner = self.inner.lock();
        Told { injections: inner.injections.clone(), seen: inner.seen.clone(), checks: inner.checks.clone() }
    }
}

fn most_memory(judged: &Judged, process: &str) -> Option<f64> {
    let rows = judged.figures["machine"].as_array()?;
    let own = |row: &&serde_json::Value| {
        let number = row["process"].as_str().and_then(|name| name.strip_prefix(process));
        number.is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()))
    };
    let own = rows.iter().filter(own);
    own.filter_map(|row| row["rss_max_mib"].as_f64()).reduce(f64::max)
}
