//! Fed processes: this program again, as `feed`, each with one router in it.

use std::{path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use lapwing_servers::{Infra, process::log_tail};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::feed::{Answer, Order};

pub(crate) struct Fed {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Fed {
    pub(crate) fn start(node: &str, infra: &Infra, views: &[(&'static str, String)]) -> Result<Self> {
        let program = std::env::current_exe().context("this program's own path")?;
        let log = infra.folder().join(format!("{node}.log"));
        let mut child = Command::new(program)
            .arg("feed")
            .env("LAPWING_NODE", node)
            .env("LAPWING_PROFILE", "bench")
            .env("LAPWING_NATS_URL", infra.nats().url())
            .envs(views.iter().map(|(key, value)| (*key, value)))
            .env("LAPWING_KAFKA_BROKERS", infra.kafka().brokers())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a fed router")?;
        let orders = child.stdin.take().context("no standard input")?;
        let answers = child.stdout.take().context("no standard output")?;
        Ok(Self { child, orders, answers: BufReader::new(answers).lines(), log })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    pub(crate) async fn ask(&mut self, order: &Order, limit: Duration) -> Result<Answer> {
        let line = format!("{}\n", serde_json::to_string(order)?);
        self.orders.write_all(line.as_bytes()).await.context("the fed router has ended")?;
        let answer = tokio::time::timeout(limit, self.answers.next_line()).await;
        let answer = answer.with_context(|| format!("no answer to {order:?} within {limit:?}"))??;
        let line = answer.with_context(|| {
            let tail = log_tail(&self.log, 15);
            format!("the fed router ended at {order:?}; its last lines:\n{tail}")
        })?;
        serde_json::from_str(&line).with_context(|| format!("an answer: {line}"))
    }

    /// Its partitions are released, as at every graceful stop.
    pub(crate) async fn stop(self) -> Result<()> {
        let Self { mut child, orders, .. } = self;
        drop(orders);
        let ended = tokio::time::timeout(Duration::from_secs(20), child.wait()).await;
        let status = ended.context("a fed router did not end within 20 s")??;
        ensure!(status.success(), "a fed router ended with {status}");
        Ok(())
    }
}
