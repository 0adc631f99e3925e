//! One child process: its own process group, a log file, signals, and a kill on drop.

use std::fs::OpenOptions;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

/// All that is needed to start a process, and to start it again from another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub folder: PathBuf,
    pub log: PathBuf,
    /// Goes on after this program ends (`./dev up`); otherwise it dies with it, even when this program is killed.
    pub detached: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Term,
    Kill,
    Stop,
    Cont,
}

impl Signal {
    fn of_system(self) -> rustix::process::Signal {
        use rustix::process::Signal;
        match self {
            Self::Term => Signal::TERM,
            Self::Kill => Signal::KILL,
            Self::Stop => Signal::STOP,
            Self::Cont => Signal::CONT,
        }
    }
}

/// A process, told apart from a later one with the same number by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: u32,
    /// Clock ticks after boot (`/proc/PID/stat`, field 22).
    pub started: u64,
}

impl Identity {
    pub fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the name in brackets and may hold anything, so count from the last bracket.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        (state != "Z" && state != "X").then_some(Self { pid, started })
    }

    pub fn is_running(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Signals the process if it is still the same one.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        if !self.is_running() {
            bail!("process {} is not running any more", self.pid);
        }
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.with_context(|| format!("{} is no process number", self.pid))?;
        rustix::process::kill_process(pid, signal.of_system())
            .with_context(|| format!("cannot send {signal:?} to process {}", self.pid))
    }

    pub async fn wait_gone(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.is_running() {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        true
    }
}

#[derive(Debug)]
pub struct Process {
    identity: Identity,
    /// Present when this program is the parent, which then has to reap it.
    child: Option<Child>,
    kill_on_drop: bool,
}

impl Process {
    pub fn spawn(spec: &Spec) -> Result<Self> {
        if !spec.program.is_file() {
            bail!("{} cannot start: {} does not exist", spec.name, spec.program.display());
        }
        std::fs::create_dir_all(&spec.folder)
            .with_context(|| format!("{}: cannot make {}", spec.name, spec.folder.display()))?;
        let (answer, answered) = mpsc::channel();
        spawner()
            .send(Order { spec: spec.clone(), answer })
            .map_err(|_| anyhow!("{}: the starting thread has ended", spec.name))?;
        let child = answered.recv().context("the starting thread gave no answer")??;
        let pid = child.id();
        let identity = Identity::of(pid).unwrap_or(Identity { pid, started: 0 });
        Ok(Self { identity, child: Some(child), kill_on_drop: !spec.detached })
    }

    /// A process that another run of this program started.
    pub fn adopt(identity: Identity) -> Self {
        Self { identity, child: None, kill_on_drop: false }
    }

    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// How it ended, or None while it runs.
    pub fn exited(&mut self) -> Option<String> {
        match &mut self.child {
            Some(child) => match child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(match (status.code(), status.signal()) {
                    (Some(code), _) => format!("exit code {code}"),
                    (_, Some(signal)) => format!("signal {signal}"),
                    _ => "unknown".to_owned(),
                }),
                Err(error) => Some(error.to_string()),
            },
            None => (!self.identity.is_running()).then(|| "ended".to_owned()),
        }
    }

    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        match self.exited() {
            Some(how) => bail!("process {} has ended ({how})", self.pid()),
            None => self.identity.signal(signal),
        }
    }

    /// `kill -9`, and waits until the process is gone.
    pub async fn kill9(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
        } else {
            let _ = self.identity.signal(Signal::Kill);
        }
        self.wait(Duration::from_secs(10)).await;
    }

    /// SIGTERM; whoever is still there after `grace` is killed. Returns true for a graceful end.
    pub async fn stop(&mut self, grace: Duration) -> bool {
        if self.exited().is_some() {
            return true;
        }
        // A paused process would keep the signal until it is woken.
        let _ = self.identity.signal(Signal::Cont);
        let _ = self.identity.signal(Signal::Term);
        if self.wait(grace).await {
            return true;
        }
        self.kill9().await;
        false
    }

    pub async fn wait(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.exited().is_none() {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        true
    }

    /// Lets the process live on when this value is dropped.
    pub fn release(&mut self) {
        self.kill_on_drop = false;
    }

    pub fn kill_when_dropped(&mut self) {
        self.kill_on_drop = true;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.kill_on_drop {
            return;
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        } else {
            let _ = self.identity.signal(Signal::Kill);
        }
    }
}

struct Order {
    spec: Spec,
    answer: mpsc::Sender<Result<Child>>,
}

/// "Dies with its parent" means the parent *thread*, so one thread that never ends starts all children.
fn spawner() -> &'static mpsc::Sender<Order> {
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for order in inbox {
                let _ = order.answer.send(spawn_here(&order.spec));
            }
        });
        orders
    })
}

fn spawn_here(spec: &Spec) -> Result<Child> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&spec.log)
        .with_context(|| format!("{}: cannot write {}", spec.name, spec.log.display()))?;
    let mut command = wrapped(spec);
    command
        .args(&spec.args)
        .envs(spec.env.iter().map(|(key, value)| (key, value)))
        .current_dir(&spec.folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    command.spawn().with_context(|| format!("cannot start {} ({})", spec.name, spec.program.display()))
}

/// `setsid` and `setpriv` (util-linux) replace themselves by the program, so the process number stays.
fn wrapped(spec: &Spec) -> Command {
    let wrapper = if spec.detached { "/usr/bin/setsid" } else { "/usr/bin/setpriv" };
    if !Path::new(wrapper).exists() {
        let mut plain = Command::new(&spec.program);
        plain.process_group(0);
        return plain;
    }
    let mut command = Command::new(wrapper);
    if !spec.detached {
        command.args(["--pdeathsig", "KILL", "--"]).process_group(0);
    }
    command.arg(&spec.program);
    command
}

/// The last lines of a log, for an error message.
pub fn log_tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).map(|raw| String::from_utf8_lossy(&raw).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
