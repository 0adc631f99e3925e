//! The frame of every scenario: set up, precheck, warm up, send, settle, check, judge, report.
use std::{
    collections::BTreeMap,
    future::Future,
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::Context;
use parking_lot::Mutex;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    fault::{Fault, Killed},
    fleet::Fleet,
    gates,
    history::{self, Transcript},
    ledger::Ledger,
    machine::{self, Machine},
    metrics::{self, Scraper, Snapshot},
    options::Common,
    percentile::Percentiles,
    progress::{self, say, step},
    report::{self, Figures, Output, Scatter, Services},
    send::Sender,
    settle::settle,
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
        let Run { common, target, plan, tokens } = self;
        let Plan { scenario, parameters, mut ledger, warm, closed_loop, receipts } = plan;
        ledger.ready();
        let ledger = Arc::new(ledger);
        let database = target.mysql.as_deref().map(Database::open).transpose()?.map(Arc::new);
        let scraper = Arc::new(Scraper::new(&target.metrics));
        let connect = Fleet::connect(&ledger, tokens, &target.gateways, common, receipts);
        let fleet = Arc::new(step(&format!("{} users connect", ledger.users.len()), connect).await?);
        step("precheck of every member's permission", fleet.precheck(&ledger)).await?;
        let fault = fault(common, target, ledger.entries.len())?;
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
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        {
            let (sampler, stop) = (sampler.clone(), stop.clone());
            tasks.spawn(async move { sampler.run(stop).await });
        }
        let began = Instant::now();
        let planned = ledger.entries.len();
        say(&format!("sending {} messages", planned - warm.len()));
        let sender = Sender { fault: fault.clone(), ..sender };
        let watch = progress::watch(ledger.clone(), fleet.clone(), planned);
        let killed = {
            let work = sending(&ledger, fault.as_deref(), send(sender.clone()));
            tokio::select! {
                killed = work => killed?,
                () = watch => anyhow::bail!("the progress display ended"),
            }
        };
        let send_seconds = began.elapsed().as_secs_f64();
        let last_send = Instant::now();
        step("unknowns settled by retry", async {
            sender.settle_unknowns(Duration::from_secs(120)).await;
            Ok(())
        })
        .await?;
        let settled = step("deliveries and lag zero", async {
            Ok(settle(&fleet, &ledger, last_send, common.settle()).await)
        })
        .await?;
        let mut rows =
            step("MySQL, row by row", check_rows(database.as_deref(), &ledger)).await.unwrap_or_default();
        let (mut history, transcripts) = step("history, as a member reads it", async {
            Ok(history::check(&fleet, &ledger, common.history_workers).await)
        })
        .await?;
        let errors_1040 = match (errors_before, server_errors(database.as_deref()).await) {
            (Some(before), Some(after)) => Some(after.saturating_sub(before)),
            _ => None,
        };
        let transcript = compare(&ledger, &transcripts);
        stop.cancel();
        let delivered_before_close = fleet.delivered();
        let counts = fleet.counts();
        // What the receivers counted until here is judged; the close of all at once is judged by the services' queues.
        let disconnects = counts.disconnects;
        let incomplete = fleet.incomplete(&ledger);
        step("all clients close at once", async {
            fleet.close().await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok(())
        })
        .await?;
        let after = scraper.snapshot().await;

        let mut tally = ledger.tally();
        tally.persisted = rows.as_ref().map_or(0, |r| r.messages as usize);
        let (mut acks, mut delivery) = (ledger.ack_micros(), fleet.latency());
        let d = &fleet.deliveries;
        let mut details: Vec<String> = ledger.faults();
        details.extend(incomplete.iter().take(100).cloned());
        details.append(&mut d.disorder.lock());
        details.append(&mut history.details);
        if let Some(rows) = &mut rows {
            details.append(&mut rows.details);
        }
        let figures = Figures {
            run: ledger.run.clone(),
            scenario,
            parameters,
            profile: target.profile.clone(),
            encoding: common.encoding.subprotocol().to_owned(),
            users: ledger.users.len(),
            conversations: ledger.conversations.len(),
            tally,
            errors: ledger.codes.lock().iter().map(|(code, n)| (report::error_name(*code), *n)).collect(),
            rejections: ledger.rejections.lock().iter().map(|(what, n)| (what.clone(), *n)).collect(),
            send_seconds,
            closed_loop,
            ack: Percentiles::of(&mut acks),
            delivery: Percentiles::of(&mut delivery),
            receipt: Percentiles::of(&mut ledger.receipt_micros()),
            delivered: delivered_before_close,
            expected_deliveries: fleet.expected(&ledger),
            incomplete: incomplete.len() as u64,
            doubled: d.doubled.load(Relaxed),
            late: d.late.load(Relaxed),
            holes: counts.holes,
            unannounced: d.unannounced.load(Relaxed),
            wrong_content: d.wrong_content.load(Relaxed),
            gaps: d.gaps.load(Relaxed),
            disconnects,
            ended: d.ended.load(Relaxed),
            unexpected: ledger.unexpected.load(Relaxed),
            mismatched: ledger.mismatched.load(Relaxed),
            dead_lettered: d.dead_lettered.load(Relaxed),
            connect_seconds: fleet.connect_seconds,
            connect_steps: fleet.connect_steps(),
            per_gateway: fleet.per_gateway.clone(),
            settled,
            rows,
            errors_1040,
            history,
            transcript,
            services: (!scraper.is_empty()).then(|| services(&before, &after)),
            machine: machine::summary(&sampler.machine.lock().usage),
            fault_wanted: fault.is_some(),
            killed,
            details,
        };
        let gates = gates::judge(&figures);
        let scatter = Scatter { acks: scatter(&ledger), ack_sorted: acks, delivery_sorted: delivery };
        let output = Output { folder: folder(common, &figures.run) };
        output.write(&figures, &gates, &sampler.seconds.lock(), &scatter)?;
        report::print(&figures, &gates, &output.folder);
        Ok(gates::passed(&gates))
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
