//! All figures of a run; as JSON, as one HTML file, and as the last lines on the terminal.
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::Serialize;

use crate::{
    fault::Killed,
    fleet::ConnectSteps,
    gates::{Gate, Verdict},
    history::History,
    ledger::Tally,
    machine::Summary,
    percentile::Percentiles,
    progress::say,
    receipts::Receipts,
    settle::Settled,
    timeline::Second,
    verify::Rows,
};

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) run: String,
    pub(crate) scenario: String,
    pub(crate) parameters: serde_json::Value,
    pub(crate) profile: String,
    pub(crate) encoding: String,
    pub(crate) users: usize,
    pub(crate) conversations: usize,
    pub(crate) tally: Tally,
    /// Answers that were not an acceptance, by code.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) rejections: BTreeMap<String, u64>,
    pub(crate) send_seconds: f64,
    /// The next message waits for the answer: latency is shown, throughput is the figure.
    pub(crate) closed_loop: bool,
    pub(crate) ack: Percentiles,
    pub(crate) delivery: Percentiles,
    pub(crate) receipt: Percentiles,
    /// None: nobody asked for any.
    pub(crate) receipts: Option<Receipts>,
    pub(crate) delivered: u64,
    pub(crate) expected_deliveries: u64,
    pub(crate) incomplete: u64,
    pub(crate) doubled: u64,
    pub(crate) late: u64,
    pub(crate) holes: u64,
    pub(crate) unannounced: u64,
    pub(crate) wrong_content: u64,
    pub(crate) gaps: u64,
    pub(crate) disconnects: u64,
    pub(crate) ended: u64,
    pub(crate) unexpected: u64,
    pub(crate) mismatched: u64,
    pub(crate) dead_lettered: u64,
    pub(crate) connect_seconds: f64,
    pub(crate) connect_steps: ConnectSteps,
    pub(crate) per_gateway: Vec<(String, usize)>,
    pub(crate) settled: Settled,
    pub(crate) rows: Option<Rows>,
    pub(crate) errors_1040: Option<u64>,
    pub(crate) history: History,
    pub(crate) transcript: Option<Transcript>,
    pub(crate) services: Option<Services>,
    pub(crate) machine: Vec<Summary>,
    pub(crate) throttled: Option<u64>,
    /// Messages of a user that got a lower seq than one sent before them.
    pub(crate) overtaken: usize,
    /// Refusals of publishes by name.
    pub(crate) names: BTreeMap<String, u64>,
    /// The fault runner's; it judges its faults itself.
    pub(crate) fault_from_outside: bool,
    pub(crate) fault_wanted: bool,
    pub(crate) killed: Option<Killed>,
    pub(crate) details: Vec<String>,
}

/// History against the transcript's file.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Transcript {
    pub(crate) conversations: usize,
    pub(crate) equal: usize,
    pub(crate) bytes: usize,
    /// All conversations put together are the file.
    pub(crate) whole: bool,
    pub(crate) first_difference: Option<String>,
}

impl Transcript {
    pub(crate) fn words(&self) -> String {
        match &self.first_difference {
            None => format!("{} bytes", self.bytes),
            Some(difference) => difference.clone(),
        }
    }
}

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Services {
    pub(crate) enqueue_timeouts: u64,
    pub(crate) hub_full: u64,
    pub(crate) peer_rejected: u64,
    pub(crate) queue_drops: u64,
    /// Growth of each counter during the run.
    pub(crate) counters: BTreeMap<String, f64>,
}

#[derive(Serialize)]
struct Report<'a> {
    verdict: &'a str,
    gates: &'a [Gate],
    figures: &'a Figures,
    timeline: &'a [Second],
}

pub(crate) struct Output {
    pub(crate) folder: PathBuf,
}

impl Output {
    /// Writes report.json and report.html.
    pub(crate) fn write(
        &self,
        figures: &Figures,
        gates: &[Gate],
        timeline: &[Second],
        scatter: &Scatter,
    ) -> anyhow::Result<()> {
        let write = |name: &str, bytes: &[u8]| {
            let path = self.folder.join(name);
            std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
        };
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make the folder {}", self.folder.display()))?;
        let report = Report { verdict: verdict(gates), gates, figures, timeline };
        write("report.json", &serde_json::to_vec_pretty(&report)?)?;
        write("report.html", crate::html::page(figures, gates, timeline, scatter).as_bytes())
    }
}

/// Raw samples for the plots.
pub(crate) struct Scatter {
    /// Intended second after the first, latency in milliseconds.
    pub(crate) acks: Vec<(f64, f64)>,
    /// Sorted, in microseconds.
    pub(crate) ack_sorted: Vec<u32>,
    pub(crate) delivery_sorted: Vec<u32>,
}

pub(crate) fn verdict(gates: &[Gate]) -> &'static str {
    if crate::gates::passed(gates) { "pass" } else { "fail" }
}

pub(crate) fn error_name(code: u32) -> String {
    match code {
        0 => "ack timeout".into(),
        1 => "socket closed".into(),
        2 => "not sent".into(),
        code => code.to_string(),
    }
}

/// The figures and gates on the terminal; the verdict is the last line.
pub(crate) fn print(f: &Figures, gates: &[Gate], folder: &Path) {
    let t = &f.tally;
    say("");
    say(&format!("run {} · {} {} · profile {} · {}", f.run, f.scenario, f.parameters, f.profile, f.encoding));
    say(&format!(
        "  planned {} · acked {} · rejected {} · unknown {} · unacked but observed {} · persisted {}",
        t.planned, t.acked, t.rejected, t.unknown, t.unacked_but_observed, t.persisted
    ));
    say(&format!("  went through unknown {} · sent more than once {}", t.was_unknown, t.retried));
    if !f.errors.is_empty() {
        say(&format!("  errors by class: {:?}", f.errors));
    }
    let rate = t.acked as f64 / f.send_seconds.max(0.001);
    say(&format!("  sending took {:.1} s, {rate:.0} accepted/s", f.send_seconds));
    say(&format!("  ACK       {}", f.ack));
    say(&format!("  delivery  {}", f.delivery));
    if f.receipt.count > 0 {
        say(&format!("  in MySQL after the answer  {}", f.receipt));
    }
    say(&format!(
        "  connect: {:.1} s for {} users · first answer {}",
        f.connect_seconds, f.users, f.connect_steps.first_answer
    ));
    for summary in &f.machine {
        say(&format!(
            "  {:<10} CPU P95 {:>4.0} %, mean {:>4.0} % of a core · {:>5.0} MiB",
            summary.process, summary.cpu_p95, summary.cpu_mean, summary.rss_max_mib
        ));
    }
    for detail in f.details.iter().take(10) {
        say(&format!("  ! {detail}"));
    }
    for gate in gates {
        let mark = match gate.verdict {
            Verdict::Pass => "ok  ",
            Verdict::Fail => "FAIL",
            Verdict::Shown => "info",
        };
        say(&format!("  {mark} {:<46} {:<36} {} ({})", gate.name, gate.value, gate.limit, gate.requirement));
    }
    say(&format!("report: {}", folder.join("report.html").display()));
    let failed: Vec<&str> = gates.iter().filter(|g| g.verdict == Verdict::Fail).map(|g| g.name).collect();
    let why = if failed.is_empty() { String::new() } else { format!(" · failed: {}", failed.join(", ")) };
    say(&format!(
        "verdict: {} {} · {} of {} accepted · {} deliveries · ACK P95 {:.1} ms · delivery P95 {:.1} ms{why}",
        verdict(gates),
        f.scenario,
        t.acked,
        t.planned,
        f.delivered,
        f.ack.p95_ms,
        f.delivery.p95_ms
    ));
}
