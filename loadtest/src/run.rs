//! The frame of every scenario: set up, precheck, warm up, send, settle, check, judge, report.
use std::{
    collections::BTreeMap,
    future::Future,
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::Context;
use lapwing_client::Counts;
use parking_lot::Mutex;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    fault::{Fault, Killed},
    fleet::Fleet,
    gates,
    history::{self, History, Transcript},
    ledger::Ledger,
    machine::{self, Machine},
    metrics::{self, Scraper, Snapshot},
    options::Common,
    percentile::Percentiles,
    progress::{self, say, step},
    report::{self, Figures, Output, Scatter, Services},
    send::Sender,
    settle::{Settled, settle},
    setup::Setup,
    target::{Target, check_open_files},
    timeline::Sampler,
    verify::{Database, Rows},
};

/// What a scenario brings.
pub(crate) struct Plan {
    pub(crate) scenario: String,
    pub(crate) parameters: serde_json::Value,
    pub(crate) ledger: Ledger,
    pub(crate) warm: Vec<u32>,
    /// Faults from outside end the sending early: what was not sent by then was not planned.
    pub(crate) open_end: bool,
    pub(crate) closed_loop: bool,
    pub(crate) receipts: bool,
}

pub(crate) struct Run<'a> {
    pub(crate) common: &'a Common,
    pub(crate) target: &'a Target,
    pub(crate) plan: Plan,
    pub(crate) tokens: Vec<String>,
}

/// A scenario's own word on what history said.
pub(crate) type Compare<'a> = dyn Fn(&Ledger, &BTreeMap<u32, Transcript>) -> Option<report::Transcript> + 'a;

/// The tenant and its users; scenarios add conversations and the plan.
pub(crate) async fn prepare(target: &Target, users: &[String]) -> anyhow::Result<(Setup, Vec<String>)> {
    check_open_files(users.len())?;
    let run = crate::setup::run_name();
    say(&format!("run {run}: profile {} · gateways {}", target.profile, target.gateways.join(" ")));
    let setup = step("tenant and key", Setup::tenant(target, run)).await?;
    let tokens = step(&format!("{} tokens", users.len()), setup.tokens(users)).await?;
    Ok((setup, tokens))
}

impl Run<'_> {
    /// True: all gates passed.
    pub(crate) async fn go<F>(
        self,
        send: impl FnOnce(Sender) -> F,
        compare: &Compare<'_>,
    ) -> anyhow::Result<bool>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let judged = self.judge(send, compare).await?;
        report::print(&judged.figures, &judged.gates, &judged.folder);
        Ok(gates::passed(&judged.gates))
    }

    pub(crate) async fn judge<F>(
        self,
        send: impl FnOnce(Sender) -> F,
        compare: &Compare<'_>,
    ) -> anyhow::Result<Judged>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let (common, target) = (self.common, self.target);
        let cluster = Cluster::connect(self).await?;
        let sent = cluster.send(send).await?;
        let checked = cluster.check(common, &sent, compare).await?;
        let figures = cluster.figures(common, target, &sent, checked);
        cluster.judged(common, figures)
    }
}

/// The report is written.
pub(crate) struct Judged {
    pub(crate) figures: Figures,
    pub(crate) gates: Vec<gates::Gate>,
    pub(crate) folder: PathBuf,
}

/// The connected users and what watches them.
struct Cluster {
    scenario: String,
    parameters: serde_json::Value,
    open_end: bool,
    closed_loop: bool,
    receipts: bool,
    warm: usize,
    ledger: Arc<Ledger>,
    fleet: Arc<Fleet>,
    database: Option<Arc<Database>>,
    scraper: Arc<Scraper>,
    sampler: Arc<Sampler>,
    fault: Option<Arc<Fault>>,
    before: Snapshot,
    errors_before: Option<u64>,
    throttled_before: Option<u64>,
}

struct Sent {
    seconds: f64,
    last: Instant,
    killed: Option<Killed>,
    sampling: CancellationToken,
}

struct Checked {
    settled: Settled,
    rows: Option<Rows>,
    history: History,
    transcript: Option<report::Transcript>,
    errors_1040: Option<u64>,
    incomplete: Vec<String>,
    delivered: u64,
    /// Before the close of all at once.
    counts: Counts,
    after: Snapshot,
}

impl Cluster {
    /// Everybody connected, prechecked and warm; the figures before the clock.
    async fn connect(run: Run<'_>) -> anyhow::Result<Self> {
        let Run { common, target, plan, tokens } = run;
        let Plan { scenario, parameters, mut ledger, warm, open_end, closed_loop, receipts } = plan;
        ledger.ready();
        let ledger = Arc::new(ledger);
        let database = target.mysql.as_deref().map(Database::open).transpose()?.map(Arc::new);
        let scraper = Arc::new(Scraper::new(&target.metrics));
        let fault = fault(common, target, ledger.entries.len())?;
        let connect = Fleet::connect(&ledger, tokens, &target.gateways, common, receipts);
        let fleet = Arc::new(step(&format!("{} users connect", ledger.users.len()), connect).await?);
        step("precheck of every member's permission", fleet.precheck(&ledger)).await?;
        let sender = Sender { fleet: fleet.clone(), ledger: ledger.clone(), receipts, fault: None };
        step(&format!("warm-up, {} messages", warm.len()), warm_up(&sender, &warm)).await?;
        let before = scraper.snapshot().await;
        let errors_before = server_errors(database.as_deref()).await;
        let sampler = Arc::new(Sampler {
            ledger: ledger.clone(),
            fleet: fleet.clone(),
            database: database.clone(),
            scraper: scraper.clone(),
            state: target.state.as_ref().map(|(path, _)| path.clone()),
            machine: Mutex::new(Machine::new(target.state.as_ref().map(|(_, state)| state))),
            seconds: Mutex::default(),
        });
        let warm = warm.len();
        Ok(Self {
            scenario,
            parameters,
            open_end,
            closed_loop,
            receipts,
            warm,
            ledger,
            fleet,
            database,
            scraper,
            sampler,
            fault,
            before,
            errors_before,
            throttled_before: machine::throttled(),
        })
    }

    async fn send<F>(&self, send: impl FnOnce(Sender) -> F) -> anyhow::Result<Sent>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let (tasks, sampling) = (TaskTracker::new(), CancellationToken::new());
        let (sampler, stop) = (self.sampler.clone(), sampling.clone());
        tasks.spawn(async move { sampler.run(stop).await });
        let planned = self.ledger.entries.len();
        say(&format!("sending {} messages", planned - self.warm));
        let sender = Sender {
            fleet: self.fleet.clone(),
            ledger: self.ledger.clone(),
            receipts: self.receipts,
            fault: self.fault.clone(),
        };
        let began = Instant::now();
        let killed = tokio::select! {
            killed = sending(&self.ledger, self.fault.as_deref(), send(sender.clone())) => killed?,
            () = progress::watch(self.ledger.clone(), self.fleet.clone(), planned) => {
                anyhow::bail!("the progress display ended")
            }
        };
        let (seconds, last) = (began.elapsed().as_secs_f64(), Instant::now());
        step("unknowns settled by retry", async {
            sender.settle_unknowns(Duration::from_secs(120)).await;
            Ok(())
        })
        .await?;
        Ok(Sent { seconds, last, killed, sampling })
    }

    async fn check(&self, common: &Common, sent: &Sent, compare: &Compare<'_>) -> anyhow::Result<Checked> {
        let (fleet, ledger, database) = (&*self.fleet, &*self.ledger, self.database.as_deref());
        let settling = async { Ok(settle(fleet, ledger, sent.last, common.settle(), self.receipts).await) };
        let settled = step("deliveries and lag zero", settling).await?;
        // A check that cannot be made is told by `step` and fails its gate.
        let rows = step("MySQL, row by row", check_rows(database, ledger)).await.unwrap_or_default();
        let reading = async { Ok(history::check(fleet, ledger, common.history_workers).await) };
        let (history, transcripts) = step("history, as a member reads it", reading).await?;
        let errors_1040 = match (self.errors_before, server_errors(database).await) {
            (Some(before), Some(after)) => Some(after.saturating_sub(before)),
            _ => None,
        };
        let transcript = compare(ledger, &transcripts);
        sent.sampling.cancel();
        // What the receivers counted until here is judged; the close of all at once by the services' queues.
        let (delivered, counts, incomplete) = (fleet.delivered(), fleet.counts(), fleet.incomplete(ledger));
        step("all clients close at once", async {
            fleet.close().await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok(())
        })
        .await?;
        let after = self.scraper.snapshot().await;
        Ok(Checked { settled, rows, history, transcript, errors_1040, incomplete, delivered, counts, after })
    }

    fn figures(&self, common: &Common, target: &Target, sent: &Sent, checked: Checked) -> Figures {
        let Checked { settled, mut rows, mut history, transcript, errors_1040, incomplete, .. } = checked;
        let (ledger, d) = (&*self.ledger, &*self.fleet.deliveries);
        let mut tally = ledger.tally();
        if self.open_end {
            tally.planned -= std::mem::take(&mut tally.not_sent);
        }
        tally.persisted = rows.as_ref().map_or(0, |r| r.messages as usize);
        let overtaken = ledger.overtaken();
        let mut details = ledger.faults();
        details.extend(overtaken.iter().take(20).cloned());
        details.extend(incomplete.iter().take(100).cloned());
        details.append(&mut d.disorder.lock());
        details.extend(settled.which.iter().cloned());
        details.append(&mut history.details);
        let mut receipts = ledger.receipts();
        if self.receipts {
            details.extend(receipts.details.iter().cloned());
        }
        if let Some(rows) = &mut rows {
            details.append(&mut rows.details);
        }
        Figures {
            run: ledger.run.clone(),
            scenario: self.scenario.clone(),
            parameters: self.parameters.clone(),
            profile: target.profile.clone(),
            encoding: common.encoding.subprotocol().to_owned(),
            users: ledger.users.len(),
            conversations: ledger.conversations.len(),
            tally,
            errors: ledger.codes.lock().iter().map(|(code, n)| (report::error_name(*code), *n)).collect(),
            rejections: ledger.rejections.lock().iter().map(|(what, n)| (what.clone(), *n)).collect(),
            send_seconds: sent.seconds,
            closed_loop: self.closed_loop,
            ack: Percentiles::default(),
            delivery: Percentiles::default(),
            receipt: Percentiles::of(&mut receipts.micros),
            receipts: self.receipts.then_some(receipts),
            delivered: checked.delivered,
            expected_deliveries: self.fleet.expected(ledger),
            incomplete: incomplete.len() as u64,
            doubled: d.doubled.load(Relaxed),
            late: d.late.load(Relaxed),
            holes: checked.counts.holes,
            unannounced: d.unannounced.load(Relaxed),
            wrong_content: d.wrong_content.load(Relaxed),
            gaps: d.gaps.load(Relaxed),
            disconnects: checked.counts.disconnects,
            ended: d.ended.load(Relaxed),
            unexpected: ledger.unexpected.load(Relaxed),
            mismatched: ledger.mismatched.load(Relaxed),
            dead_lettered: d.dead_lettered.load(Relaxed),
            connect_seconds: self.fleet.connect_seconds,
            connect_steps: self.fleet.connect_steps(),
            per_gateway: self.fleet.per_gateway.clone(),
            settled,
            rows,
            errors_1040,
            history,
            transcript,
            services: (!self.scraper.is_empty()).then(|| services(&self.before, &checked.after)),
            machine: machine::summary(&self.sampler.machine.lock().usage),
            throttled: machine::throttled().zip(self.throttled_before).map(|(now, then)| now - then),
            overtaken: overtaken.len(),
            names: ledger.names.lock().clone(),
            fault_from_outside: self.open_end,
            fault_wanted: self.fault.is_some(),
            killed: sent.killed.clone(),
            details,
        }
    }

    fn judged(&self, common: &Common, mut figures: Figures) -> anyhow::Result<Judged> {
        let (mut acks, mut delivery) = (self.ledger.ack_micros(), self.fleet.latency());
        figures.ack = Percentiles::of(&mut acks);
        figures.delivery = Percentiles::of(&mut delivery);
        let gates = gates::judge(&figures);
        let scatter = Scatter { acks: scatter(&self.ledger), ack_sorted: acks, delivery_sorted: delivery };
        let output = Output { folder: folder(common, &figures.run) };
        output.write(&figures, &gates, &self.sampler.seconds.lock(), &scatter)?;
        Ok(Judged { figures, gates, folder: output.folder })
    }
}

fn fault(common: &Common, target: &Target, planned: usize) -> anyhow::Result<Option<Arc<Fault>>> {
    let Some(what) = &common.kill else {
        return Ok(None);
    };
    let state = target.state.as_ref().context("--kill needs the state file of `./dev up`")?;
    Fault::new(what, state, planned, common.kill_at, common.restart_after).map(Some)
}

/// Sends; with a fault, also waits until the killed process is back. A run that never came to its kill says so.
async fn sending(
    ledger: &Ledger,
    fault: Option<&Fault>,
    send: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Option<Killed>> {
    let Some(fault) = fault else {
        send.await?;
        return Ok(None);
    };
    let strike = fault.strike(ledger);
    tokio::pin!(strike, send);
    tokio::select! {
        sent = &mut send => {
            sent?;
            // The kill may be under way: its restart belongs to the run.
            match tokio::time::timeout(Duration::from_secs(90), strike).await {
                Ok(killed) => killed.map(Some),
                Err(_) => Ok(None),
            }
        }
        killed = &mut strike => {
            let killed = killed?;
            send.await?;
            Ok(Some(killed))
        }
    }
}

/// Every sender's first messages, before the clock: also the precheck of the permission to publish.
async fn warm_up(sender: &Sender, warm: &[u32]) -> anyhow::Result<()> {
    use futures::{StreamExt, stream};
    let publish = |entry: u32| async move { sender.publish(entry, sender.ledger.now()).await };
    let accepted: Vec<bool> =
        stream::iter(warm.iter().copied()).map(publish).buffer_unordered(32).collect().await;
    let refused = accepted.iter().filter(|ok| !**ok).count();
    let why = sender.ledger.rejections.lock().keys().next().cloned().unwrap_or_default();
    anyhow::ensure!(refused == 0, "{refused} of {} warm-up messages were not accepted: {why}", warm.len());
    Ok(())
}

async fn check_rows(database: Option<&Database>, ledger: &Ledger) -> anyhow::Result<Option<Rows>> {
    match database {
        Some(database) => database.check(ledger).await.map(Some),
        None => Ok(None),
    }
}

async fn server_errors(database: Option<&Database>) -> Option<u64> {
    database?.server().await.ok().map(|(errors, _)| errors)
}

fn services(before: &Snapshot, after: &Snapshot) -> Services {
    let grown = |name: &str, label: &str| metrics::growth(before, after, name, label).round() as u64;
    Services {
        enqueue_timeouts: grown("lapwing_enqueue_total", "result=\"timeout\""),
        hub_full: grown("lapwing_route_total", "result=\"hub_full\""),
        peer_rejected: grown("lapwing_route_total", "result=\"peer_rejected\""),
        queue_drops: grown("lapwing_queue_drops_total", ""),
        counters: metrics::grown(before, after),
    }
}

fn scatter(ledger: &Ledger) -> Vec<(f64, f64)> {
    let timed = ledger.entries.iter().filter(|e| !e.warm && e.intended.load(Relaxed) > 0);
    let first = timed.clone().map(|e| e.intended.load(Relaxed)).min().unwrap_or(0);
    let mut points: Vec<(f64, f64)> = timed
        .filter(|e| e.answered.load(Relaxed) > 0)
        .map(|e| {
            let (intended, answered) = (e.intended.load(Relaxed), e.answered.load(Relaxed));
            ((intended - first) as f64 / 1e9, answered.saturating_sub(intended) as f64 / 1e6)
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn folder(common: &Common, run: &str) -> PathBuf {
    common.out.clone().unwrap_or_else(|| lapwing_servers::paths::target_dir().join("load").join(run))
}
