//! The life of a service: configuration, build, signal, drain, exit code.
//!
//! ```no_run
//! # use lapwing_runtime::{config, lifecycle, Common};
//! # #[derive(clap::Parser)] struct Config { #[command(flatten)] common: Common }
//! fn main() -> std::process::ExitCode {
//!     let config: Config = config::load();
//!     let common = config.common.clone();
//!     lifecycle::run("router", common, |context| async move {
//!         // bind, connect, context.tasks.spawn(…), context.admin.route(…)
//!         # let _ = config;
//!         Ok(())
//!     })
//! }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::admin::{self, Admin};
use crate::config::{BadConfig, Common};
use crate::health::Health;
use crate::tasks::Tasks;
use crate::{fail_point, limits, metrics, telemetry};

/// Ended after a signal, everything drained.
pub const EXIT_OK: u8 = 0;
/// Could not start: a port, a first connection.
pub const EXIT_START: u8 = 1;
/// A configuration that cannot be right.
pub const EXIT_CONFIG: u8 = 2;
/// A task that the service cannot do without failed.
pub const EXIT_TASK: u8 = 3;
/// The grace time was over before all work had ended.
pub const EXIT_GRACE: u8 = 4;

/// What a service is built with. Clones are the same process.
#[derive(Clone)]
pub struct Context {
    pub service: &'static str,
    pub common: Arc<Common>,
    pub tasks: Tasks,
    pub health: Health,
    pub admin: Admin,
    hooks: Arc<Mutex<Vec<(&'static str, Hook)>>>,
}

type Hook = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Context {
    pub fn node(&self) -> &str {
        &self.common.node
    }

    /// The token that every loop of the service watches.
    pub fn stopping(&self) -> CancellationToken {
        self.tasks.stopping()
    }

    /// Work of a graceful stop, done in order of registration after the process turned un-ready and *before* tasks are told to
    /// stop: move sessions away, release partitions. It counts against the grace time.
    pub fn on_drain(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.hooks.lock().push((name, Box::pin(work)));
    }
}

/// Runs a service to its end. `build` binds, connects and spawns, then returns; the service lives until a signal or the failure of
/// a task that is needed.
pub fn run<F, Fut>(service: &'static str, common: Common, build: F) -> ExitCode
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    small_pages();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().thread_name(service).build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed_start(service, &anyhow::anyhow!("cannot make the runtime: {error}")),
    };
    let code = runtime.block_on(live(service, common, build));
    // A task that ignored its stop must not hold the process for ever.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    ExitCode::from(code)
}

/// Memory comes and goes by the message here: clearing two megabytes at each growth cost a router a tenth of its time. Where the
/// kernel does not know the request it goes on as before.
fn small_pages() {
    #[cfg(target_os = "linux")]
    let _unknown_here = rustix::thread::disable_transparent_huge_pages(true);
}

fn failed_start(service: &str, error: &anyhow::Error) -> ExitCode {
    say(service, error);
    ExitCode::from(EXIT_START)
}

#[expect(clippy::print_stderr, reason = "the log is not there yet")]
fn say(service: &str, error: &anyhow::Error) {
    eprintln!("lapwing {service} cannot start: {error:#}");
}

async fn live<F, Fut>(service: &'static str, common: Common, build: F) -> u8
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    let (telemetry, admin, mut signals) = match prepare(service, &common) {
        Ok(parts) => parts,
        Err(error) => {
            say(service, &error);
            return EXIT_START;
        }
    };
    let context = Context {
        service,
        tasks: Tasks::new(),
        health: admin.admin.health(),
        admin: admin.admin.clone(),
        common: Arc::new(common),
        hooks: Arc::default(),
    };
    let code = serve(&context, build, &mut signals).await;
    admin.stop();
    telemetry.shutdown().await;
    code
}

fn prepare(
    service: &'static str,
    common: &Common,
) -> anyhow::Result<(telemetry::Telemetry, admin::Running, Signals)> {
    metrics::install()?;
    let telemetry = telemetry::init(service, common)?;
    for warning in limits::warnings() {
        tracing::warn!("{warning}");
    }
    common.fail_point.iter().for_each(fail_point::arm);
    let health = Health::new();
    health.require("started");
    let admin = admin::start(service, common, health, tokio::runtime::Handle::current())?;
    Ok((telemetry, admin, Signals::new()?))
}

async fn serve<F, Fut>(context: &Context, build: F, signals: &mut Signals) -> u8
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    let common = &context.common;
    tracing::info!(admin = %context.admin.addr(), profile = ?common.profile, "starting");
    let built = tokio::select! {
        built = build(context.clone()) => built,
        name = signals.next() => {
            tracing::info!("{name} during the start");
            context.tasks.stop();
            return finish(context).await;
        }
    };
    if let Err(error) = built {
        tracing::error!("cannot start: {error:#}");
        let _ = context.tasks.drain(common.drain_grace()).await;
        return if error.is::<BadConfig>() { EXIT_CONFIG } else { EXIT_START };
    }
    context.health.set("started", Ok(()));
    tracing::info!(admin = %context.admin.addr(), "started");
    let stopping = context.stopping();
    tokio::select! {
        name = signals.next() => tracing::info!("{name}: graceful stop, {} ms for work in flight", common.drain_grace_ms),
        () = stopping.cancelled() => tracing::warn!("stopping from the inside"),
    }
    context.health.drain();
    let finishing = finish(context);
    tokio::select! {
        code = finishing => code,
        name = signals.next() => {
            tracing::warn!(running = ?context.tasks.running(), "{name} again: ending at once");
            EXIT_GRACE
        }
    }
}

/// Drain hooks, then stop, then wait: all within the grace time.
async fn finish(context: &Context) -> u8 {
    let deadline = tokio::time::Instant::now() + context.common.drain_grace();
    let hooks = std::mem::take(&mut *context.hooks.lock());
    for (name, hook) in hooks {
        if context.tasks.is_stopping() {
            break;
        }
        if tokio::time::timeout_at(deadline, hook).await.is_err() {
            tracing::warn!(hook = name, "not done within the grace time");
        }
    }
    // What is left of the grace, and never nothing: a hook that used it up must not hide tasks that end at once.
    let left = deadline.saturating_duration_since(tokio::time::Instant::now());
    let drained = context.tasks.drain(left.max(std::time::Duration::from_millis(250))).await;
    if let Err(running) = &drained {
        tracing::error!(?running, "tasks did not end within the grace time");
    }
    match (context.tasks.failure(), drained) {
        (Some(failure), _) => {
            tracing::error!(task = failure.task, "ended by a failed task: {}", failure.error);
            EXIT_TASK
        }
        (None, Err(_)) => EXIT_GRACE,
        (None, Ok(())) => {
            tracing::info!("ended");
            EXIT_OK
        }
    }
}

struct Signals {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}
