//! The gates of R-LT-8: figure, limit, verdict.
use serde::Serialize;

use crate::{fault::MIN_IN_FLIGHT, report::Figures};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Pass,
    Fail,
    /// Told, not judged on one machine or under this fault.
    Shown,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Gate {
    pub(crate) name: &'static str,
    pub(crate) requirement: &'static str,
    pub(crate) value: String,
    pub(crate) limit: String,
    pub(crate) verdict: Verdict,
}

/// Of the whole server, by its own count.
pub(crate) const REFUSED: &str = "MySQL errors 1040";

struct Gates(Vec<Gate>);

impl Gates {
    fn judge(
        &mut self,
        requirement: &'static str,
        name: &'static str,
        value: String,
        limit: &str,
        good: bool,
    ) {
        let verdict = if good { Verdict::Pass } else { Verdict::Fail };
        self.0.push(Gate { name, requirement, value, limit: limit.to_owned(), verdict });
    }

    fn judge_unless(
        &mut self,
        shown: bool,
        requirement: &'static str,
        name: &'static str,
        value: String,
        limit: &str,
        good: bool,
    ) {
        self.judge(requirement, name, value, limit, good);
        if let (true, Some(gate)) = (shown, self.0.last_mut()) {
            gate.verdict = Verdict::Shown;
        }
    }

    fn zero(&mut self, shown: bool, requirement: &'static str, name: &'static str, value: u64) {
        self.judge_unless(shown, requirement, name, value.to_string(), "0", value == 0);
    }
}

pub(crate) fn judge(f: &Figures) -> Vec<Gate> {
    // A killed process costs time and connections; what it must not cost is a message.
    let fault = f.fault_wanted || f.fault_from_outside;
    let mut g = Gates(Vec::new());
    accepted(f, fault, &mut g);
    delivered(f, fault, &mut g);
    stored(f, &mut g);
    services(f, fault, &mut g);
    if f.fault_wanted {
        let (value, enough) = match &f.killed {
            Some(killed) => (killed.in_flight.to_string(), killed.in_flight >= MIN_IN_FLIGHT),
            None => ("no kill".to_owned(), false),
        };
        g.judge("REL", "publishes in flight at the kill", value, "≥ 20", enough);
        let back = f.killed.as_ref().and_then(|k| k.ready_again_after_seconds);
        let value = back.map_or("not ready again".to_owned(), |s| format!("{s:.1} s"));
        g.judge("REL", "killed process ready again", value, "yes", back.is_some());
    }
    machine(f, &mut g);
    g.0
}

fn accepted(f: &Figures, fault: bool, g: &mut Gates) {
    let t = &f.tally;
    let share = t.acked as f64 / t.planned.max(1) as f64;
    g.judge("R-LT-8", "ACK success", format!("{:.4} %", share * 100.0), "≥ 99.99 %", share >= 0.9999);
    let half = t.acked * 2 >= t.planned && t.acked > 0;
    g.judge("R-LT-3", "accepted of plan", format!("{} of {}", t.acked, t.planned), "at least half", half);
    let unsettled = (t.unknown + t.in_flight + t.not_sent) as u64;
    g.zero(false, "R-LT-3", "unknown after settling", unsettled);
    g.zero(false, "R-LT-3", "unexpected messages", f.unexpected);
    g.zero(false, "R-LT-3", "unacked but observed", t.unacked_but_observed as u64);
    g.zero(false, "R-SEQ-1", "one seq, two messages", f.mismatched);
    // A client that had to connect anew sends what was open in no order of its own.
    g.zero(
        f.disconnects > 0,
        "R-SEQ-11",
        "overtaken by a later message of the same user",
        f.overtaken as u64,
    );
    // An empty sample proves no latency.
    let p95 = f.ack.p95_ms;
    let good = f.ack.count > 0 && p95 < 500.0;
    g.judge_unless(fault || f.closed_loop, "R-LT-8", "ACK P95", format!("{p95:.1} ms"), "< 500 ms", good);
}

fn delivered(f: &Figures, fault: bool, g: &mut Gates) {
    let value = format!("{} of {}", f.delivered, f.expected_deliveries);
    let all = f.delivered == f.expected_deliveries && f.incomplete == 0 && f.expected_deliveries > 0;
    g.judge("R-LT-8", "delivery", value, "100 %", all);
    g.zero(false, "R-LT-8", "sessions with a missing message", f.incomplete);
    g.zero(false, "R-LT-8", "doubled", f.doubled);
    g.zero(false, "R-LT-8", "out of order", f.late + f.holes);
    g.zero(false, "I4", "unannounced or wrong content", f.unannounced + f.wrong_content);
    g.zero(false, "I4", "declared gaps", f.gaps);
    g.zero(fault, "R-LT-8", "disconnects", f.disconnects);
    g.zero(false, "R-GW-7", "sessions ended for good", f.ended);
    let p95 = f.delivery.p95_ms;
    let good = f.delivery.count > 0 && p95 < 1000.0;
    g.judge_unless(fault || f.closed_loop, "R-LT-8", "delivery P95", format!("{p95:.1} ms"), "< 1 s", good);
}

fn stored(f: &Figures, g: &mut Gates) {
    match &f.rows {
        None => g.judge("R-LT-6", "MySQL, row by row", "not checked".to_owned(), "100 %", false),
        Some(rows) => {
            let wrong = [
                ("missing", rows.missing),
                ("mismatched", rows.mismatched),
                ("doubled", rows.doubled),
                ("rejected but present", rows.rejected_but_present),
                ("foreign", rows.foreign),
                ("broken sequences", rows.broken_sequences),
            ];
            let bad: Vec<String> =
                wrong.iter().filter(|(_, n)| *n > 0).map(|(w, n)| format!("{n} {w}")).collect();
            let value = if bad.is_empty() {
                format!("{} messages, all right", rows.messages)
            } else {
                bad.join(", ")
            };
            let good = bad.is_empty() && rows.messages > 0;
            g.judge("R-LT-6", "MySQL, row by row", value, "100 %", good);
            g.zero(false, "R-LT-8", "new dead letters", rows.dead_letters + f.dead_lettered);
        }
    }
    receipts(f, g);
    let lag = f.settled.lag_zero_seconds;
    let value = match lag {
        Some(seconds) => format!("{seconds:.1} s"),
        None => format!("{} conversations still behind", f.settled.behind),
    };
    g.judge("R-LT-8", "lag zero after the last send", value, "≤ 60 s", lag.is_some_and(|s| s <= 60.0));
    let value = format!("{} messages, {} conversations wrong", f.history.messages, f.history.wrong);
    let good = f.history.wrong == 0 && f.history.messages > 0;
    g.judge("R-PST-9", "history equals the ledger", value, "all", good);
    let in_time = f.history.seconds <= 180.0;
    g.judge("R-LT-6", "history check", format!("{:.1} s", f.history.seconds), "≤ 180 s", in_time);
    if let Some(transcript) = &f.transcript {
        let value = format!(
            "{} of {} conversations, {}",
            transcript.equal,
            transcript.conversations,
            transcript.words()
        );
        g.judge("#4", "history equals the file, byte for byte", value, "all", transcript.whole);
    }
}

fn receipts(f: &Figures, g: &mut Gates) {
    let Some(receipts) = &f.receipts else { return };
    let value = format!("{} of {}", receipts.told, receipts.wanted);
    let all = receipts.told == receipts.wanted && receipts.wanted > 0;
    // A receipt is for who is connected when it is told.
    g.judge_unless(f.disconnects > 0, "R-ACK-3", "receipts told", value, "100 %", all);
    g.zero(false, "R-ACK-3", "receipts that nobody asked for", receipts.astray as u64);
}

fn services(f: &Figures, fault: bool, g: &mut Gates) {
    let Some(s) = &f.services else {
        g.judge_unless(true, "R-LT-7", "services' metrics", "not scraped".to_owned(), "scraped", true);
        return;
    };
    g.zero(fault, "R-LT-8", "enqueue timeouts", s.enqueue_timeouts);
    g.zero(fault, "R-LT-8", "hub full", s.hub_full);
    g.zero(fault, "R-LT-8", "peer rejected", s.peer_rejected);
    g.zero(fault, "R-LT-8", "queue drops, also at the close of all clients", s.queue_drops);
    match f.errors_1040 {
        Some(errors) => g.zero(false, "R-LT-8", REFUSED, errors),
        None => g.judge_unless(true, "R-LT-8", REFUSED, "not read".to_owned(), "0", true),
    }
}

fn machine(f: &Figures, g: &mut Gates) {
    let busiest =
        f.machine.iter().filter(|m| m.process != "loadtest").max_by(|a, b| a.cpu_p95.total_cmp(&b.cpu_p95));
    if let Some(busiest) = busiest {
        let value = format!("{:.0} % of one core ({})", busiest.cpu_p95, busiest.process);
        g.judge_unless(true, "R-LT-8", "CPU P95", value, "< 70 %", true);
    }
    let largest = f.machine.iter().max_by(|a, b| a.rss_max_mib.total_cmp(&b.rss_max_mib));
    if let Some(largest) = largest {
        let value = format!("{:.0} MiB ({})", largest.rss_max_mib, largest.process);
        g.judge_unless(true, "R-LT-8", "memory", value, "< 70 % of the limit", true);
    }
    let value = f.throttled.map_or("no such figure here".to_owned(), |n| n.to_string());
    g.judge_unless(true, "R-LT-8", "CPU throttling", value, "0", true);
    let counts: Vec<f64> = f.per_gateway.iter().map(|(_, n)| *n as f64).collect();
    if counts.len() > 1 {
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let most = counts.iter().copied().fold(0.0, f64::max);
        let worst = most / mean.max(1.0);
        // Three users on two nodes cannot be spread better than two to one.
        let even = worst <= 1.3 || most <= mean.ceil();
        g.judge("R-LT-8", "connections per node over the mean", format!("{worst:.2}"), "≤ 1.3", even);
    }
}

pub(crate) fn passed(gates: &[Gate]) -> bool {
    gates.iter().all(|gate| gate.verdict != Verdict::Fail)
}

#[cfg(test)]
#[path = "gates_tests.rs"]
mod tests;
