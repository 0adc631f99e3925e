//! What the services say of themselves while faults play: readiness, and the telling lines of their logs.

use std::{
    collections::BTreeMap,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use lapwing_servers::{Cluster, http};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::journal::Journal;

/// A line of a log, as far as scenarios ask for it.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Microseconds of the day.
    pub(crate) at: u64,
    pub(crate) node: String,
    pub(crate) message: String,
    pub(crate) partition: String,
}

pub(crate) struct Watch {
    journal: Arc<Journal>,
    services: Vec<Service>,
    pub(crate) lines: Arc<Mutex<Vec<Line>>>,
}

struct Service {
    node: String,
    admin: String,
    log: PathBuf,
    read_to: u64,
    ready: Option<String>,
}

const EVERY: Duration = Duration::from_millis(250);
/// Lines on `info` that tell of ownership and views; warnings and errors are all told.
const TELLING: [&str; 8] = [
    "claims",
    "serves",
    "steps down",
    "the view is whole again",
    "the Redis views take batches again",
    "NATS is back",
    "lease taken",
    "told what was left untold",
];

impl Watch {
    pub(crate) fn new(cluster: &Cluster, journal: Arc<Journal>) -> Self {
        let service = |service: &lapwing_servers::services::Service| Service {
            node: service.node().to_owned(),
            admin: service.admin_address(),
            log: service.log().to_path_buf(),
            // What was said at the start is no news.
            read_to: service.log().metadata().map_or(0, |meta| meta.len()),
            ready: Some("ready".to_owned()),
        };
        let services = cluster.services().map(service).collect();
        Self { journal, services, lines: Arc::default() }
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            ticks.tick().await;
            self.look().await;
        }
        self.look().await;
    }

    async fn look(&mut self) {
        let mut said: BTreeMap<(String, String), u64> = BTreeMap::new();
        for service in &mut self.services {
            for line in service.news() {
                self.journal.message(&line.message);
                *said.entry((line.node.clone(), line.message.clone())).or_default() += 1;
                self.lines.lock().push(line);
            }
        }
        for ((node, message), count) in said {
            let times = if count > 1 { format!(" ×{count}") } else { String::new() };
            self.journal.saw(&format!("{node}: {message}{times}"));
        }
        let asked = self.services.iter().map(|service| readiness(&service.admin));
        let answers = futures::future::join_all(asked).await;
        for (service, now) in self.services.iter_mut().zip(answers) {
            if service.ready != now {
                if let Some(state) = &now {
                    self.journal.saw(&format!("{} is {state}", service.node));
                }
                service.ready = now;
            }
        }
    }
}

/// None: it answers nothing, which is told once it ends.
async fn readiness(admin: &str) -> Option<String> {
    match tokio::time::timeout(Duration::from_millis(500), http::get(admin, "/readyz")).await {
        Ok(Ok(answer)) if answer.status == 200 => Some("ready".to_owned()),
        Ok(Ok(answer)) => {
            let why: String = answer.body.trim().replace('\n', ", ").chars().take(120).collect();
            Some(format!("not ready: {why}"))
        }
        Ok(Err(_)) => Some("down".to_owned()),
        Err(_) => Some("silent".to_owned()),
    }
}

impl Service {
    /// New lines of the log that tell something.
    fn news(&mut self) -> Vec<Line> {
        let Ok(mut file) = std::fs::File::open(&self.log) else { return Vec::new() };
        let mut text = Vec::new();
        if file.seek(SeekFrom::Start(self.read_to)).is_err() || file.read_to_end(&mut text).is_err() {
            return Vec::new();
        }
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.read_to += whole as u64;
        let text = String::from_utf8_lossy(&text[..whole]).into_owned();
        text.lines().filter_map(|line| telling(&self.node, line)).collect()
    }
}

fn telling(node: &str, line: &str) -> Option<Line> {
    let value: Value = match serde_json::from_str(line) {
        Ok(value) => value,
        // A panic's own text is no JSON.
        Err(_) if line.contains("panicked") => serde_json::json!({ "level": "ERROR", "message": line }),
        Err(_) => return None,
    };
    let field = |name: &str| value[name].as_str().unwrap_or_default();
    let (level, message) = (field("level"), field("message"));
    // Every check begins so at a start.
    let starting = message == "unwell: not checked yet";
    let told = (matches!(level, "WARN" | "ERROR") && !starting)
        || TELLING.iter().any(|begin| message.starts_with(begin));
    // The cause behind a colon differs from line to line; what happened does not.
    let short: String = message.split(": ").next().unwrap_or_default().chars().take(100).collect();
    let short = match short.as_str() {
        "unwell" => format!("unwell ({})", field("check")),
        _ => short,
    };
    told.then(|| Line {
        at: of_the_day(field("time")),
        node: node.to_owned(),
        message: short,
        partition: field("partition").to_owned(),
    })
}

/// `…T03:08:56.123456Z` as microseconds of the day.
fn of_the_day(time: &str) -> u64 {
    let Some((_, clock)) = time.trim_end_matches('Z').split_once('T') else { return 0 };
    let mut parts = clock.split([':', '.']);
    let mut next = || parts.next().unwrap_or("0").to_owned();
    let (hours, minutes, seconds, fraction) = (next(), next(), next(), next());
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    let micros: String = format!("{fraction:0<6}").chars().take(6).collect();
    (number(&hours) * 3600 + number(&minutes) * 60 + number(&seconds)) * 1_000_000 + number(&micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_what_happened() {
        let line =
            r#"{"level":"WARN","message":"MySQL: gone","time":"2026-12-01T01:00:02.5Z","partition":"a/1"}"#;
        let line = telling("p1", line).unwrap();
        assert_eq!((line.message.as_str(), line.partition.as_str()), ("MySQL", "a/1"));
        assert_eq!(line.at, 3_602_500_000);
        assert!(telling("p1", r#"{"level":"INFO","message":"starting"}"#).is_none());
        assert!(telling("p1", "thread 'x' panicked at y").is_some());
    }
}
