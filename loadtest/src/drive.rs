//! For the fault runner: a load that goes on while a script of faults plays, judged by the same ledger, checks and gates.

use std::{path::Path, time::Duration};

use clap::Parser;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    gates::{Gate, REFUSED, Verdict},
    ledger::Ledger,
    options::{Common, Options},
    run::{Plan, Run, prepare},
    send::{Sender, text, waves},
    target::Target,
};

/// Bursts: everybody sends in the same instant, so that each fault finds many publishes in flight.
#[derive(Debug, Clone)]
pub struct Shape {
    pub pairs: u32,
    pub groups: u32,
    pub members: u32,
    /// Bursts a second, of one message of each user.
    pub rate: f64,
    /// So many equal parts of the users send one after the other within each burst's time: something is in flight at most moments.
    pub waves: u32,
    /// The longest that the script may play.
    pub seconds: u32,
    /// Messages of each user; None: until the script has played.
    pub messages: Option<u32>,
    /// MySQL is made to refuse connections, so the gate on that says nothing.
    pub refused: bool,
    /// A message of each user before the clock.
    pub warm: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            pairs: 60,
            groups: 2,
            members: 20,
            rate: 3.0,
            waves: 1,
            seconds: 180,
            messages: None,
            refused: false,
            warm: true,
        }
    }
}

/// The load while it runs.
#[derive(Clone)]
pub struct Load {
    sender: Sender,
}

impl Load {
    pub fn in_flight(&self) -> u64 {
        self.sender.ledger.in_flight()
    }

    pub fn accepted(&self) -> u64 {
        self.sender.ledger.accepted.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Nanoseconds after the ledger's start, for `in_flight_at`.
    pub fn now(&self) -> u64 {
        self.sender.ledger.now()
    }

    /// Publishes that were sent before `at` and had no answer then.
    pub fn in_flight_at(&self, at: u64) -> usize {
        self.sender.ledger.in_flight_at(at)
    }

    /// A moment with at least `wanted` in flight; goes on without it after `patience`.
    pub async fn until_in_flight(&self, wanted: u64, patience: Duration) {
        let begin = tokio::time::Instant::now();
        while self.in_flight() < wanted && begin.elapsed() < patience {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Until so many more were accepted; false: they were not within the limit.
    pub async fn until_accepted(&self, more: u64, limit: Duration) -> bool {
        let (begin, wanted) = (tokio::time::Instant::now(), self.accepted() + more);
        while self.accepted() < wanted {
            if begin.elapsed() > limit {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        true
    }
}

/// One gate of the load test.
#[derive(Debug, Clone)]
pub struct Judgement {
    pub name: String,
    pub value: String,
    pub limit: String,
    pub passed: bool,
}

/// What the ledger says in the end.
#[derive(Debug, Clone, Default)]
pub struct Judged {
    pub gates: Vec<Judgement>,
    pub accepted: usize,
    pub rejected: usize,
    pub unknown: usize,
    pub planned: usize,
    pub delivered: u64,
    pub ack_p50_ms: f64,
    pub ack_p99_ms: f64,
    pub ack_max_ms: f64,
    pub send_seconds: f64,
    /// Refusals by name, and attempts without an answer.
    pub told: Vec<(String, u64)>,
    pub details: Vec<String>,
    pub figures: Value,
}

impl Judged {
    pub fn passed(&self) -> bool {
        self.gates.iter().all(|gate| gate.passed)
    }
}

/// Connects, sends while `script` plays, settles, checks. `state`: the cluster's state file; `out`: where the report goes.
pub async fn under_load<F>(
    name: &str,
    state: &Path,
    out: &Path,
    shape: &Shape,
    script: impl FnOnce(Load) -> F,
) -> anyhow::Result<Judged>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let common = common(state, out)?;
    let target = Target::find(&common)?;
    let pair = |p: u32| [format!("p{p:04}a"), format!("p{p:04}b")];
    let group = |g: u32| (0..shape.members).map(move |m| format!("g{g:02}m{m:04}"));
    let pairs: Vec<[String; 2]> = (0..shape.pairs).map(pair).collect();
    let groups: Vec<(String, Vec<String>)> =
        (0..shape.groups).map(|g| (format!("chaos{g:02}"), group(g).collect())).collect();
    let of_groups = groups.iter().flat_map(|(_, members)| members.clone());
    let users: Vec<String> = pairs.iter().flatten().cloned().chain(of_groups).collect();
    let (setup, tokens) = prepare(&target, &users).await?;
    let both: Vec<_> = pairs.into_iter().map(|[a, b]| (a, b)).collect();
    let mut ids = setup.pairs(&both).await?;
    ids.extend(setup.groups(&groups).await?);
    let mut ledger = Ledger::new(&setup.run, users);
    let (warm, by_user) = plan(&mut ledger, &ids, shape);
    let times = waves(by_user, Duration::from_secs_f64(1.0 / shape.rate.max(0.01)), shape.waves);
    let parameters = json!({
        "pairs": shape.pairs, "groups": shape.groups, "members": shape.members, "bursts_a_second": shape.rate,
        "waves": shape.waves,
    });
    let open_end = true;
    let (scenario, closed_loop, receipts) = (name.to_owned(), false, true);
    let plan = Plan { scenario, parameters, ledger, warm, open_end, closed_loop, receipts };
    let run = Run { common: &common, target: &target, plan, tokens };
    let stop = CancellationToken::new();
    let finite = shape.messages.is_some();
    let send = |sender: Sender| async move {
        let faults = async {
            let played = script(Load { sender: sender.clone() }).await;
            if !finite || played.is_err() {
                stop.cancel();
            }
            played
        };
        let (played, ()) = tokio::join!(faults, sender.open_loop(&times, &stop));
        played
    };
    let judged = run.judge(send, &|_, _| None).await?;
    Ok(told(judged, shape.refused))
}

/// Each user's warm-up message and then its own sends, in order.
fn plan(ledger: &mut Ledger, ids: &[String], shape: &Shape) -> (Vec<u32>, Vec<Vec<u32>>) {
    let count = shape.messages.unwrap_or_else(|| (f64::from(shape.seconds) * shape.rate).ceil() as u32);
    let (mut warm, mut by_user, mut first) = (Vec::new(), Vec::new(), 0);
    for (index, id) in ids.iter().enumerate() {
        let size = if index < shape.pairs as usize { 2 } else { shape.members };
        let members: Vec<u32> = (first..first + size).collect();
        first += size;
        let conversation = ledger.conversation(id, members.clone());
        for user in members {
            let mut plan = |tag: String, is_warm| {
                ledger.plan(conversation, user, text(100, &tag), String::new(), is_warm)
            };
            if shape.warm {
                warm.push(plan(format!("warm {user}"), true));
            }
            by_user.push((0..count).map(|k| plan(format!("{user} {k}"), false)).collect());
        }
    }
    (warm, by_user)
}

/// The load test's own options with longer patience: a fault may last longer than a client usually waits.
fn common(state: &Path, out: &Path) -> anyhow::Result<Common> {
    let words = ["lapwing-loadtest", "--retry", "150", "--settle", "120", "p2p"];
    let mut common = Options::try_parse_from(words)?.common;
    (common.state, common.out) = (Some(state.to_path_buf()), Some(out.to_path_buf()));
    Ok(common)
}

fn told(judged: crate::run::Judged, refused: bool) -> Judged {
    let f = &judged.figures;
    let gate = |gate: &Gate| Judgement {
        name: gate.name.to_owned(),
        value: gate.value.clone(),
        limit: gate.limit.clone(),
        passed: gate.verdict != Verdict::Fail,
    };
    let silent = f.errors.iter().filter(|(name, _)| name.parse::<u32>().is_err());
    Judged {
        gates: judged.gates.iter().filter(|gate| !refused || gate.name != REFUSED).map(gate).collect(),
        accepted: f.tally.acked,
        rejected: f.tally.rejected,
        unknown: f.tally.unknown + f.tally.in_flight + f.tally.not_sent,
        planned: f.tally.planned,
        delivered: f.delivered,
        ack_p50_ms: f.ack.p50_ms,
        ack_p99_ms: f.ack.p99_ms,
        ack_max_ms: f.ack.max_ms,
        send_seconds: f.send_seconds,
        told: f.names.iter().chain(silent).map(|(name, count)| (name.clone(), *count)).collect(),
        details: f.details.clone(),
        figures: serde_json::to_value(f).unwrap_or_default(),
    }
}
