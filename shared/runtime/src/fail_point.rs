//! Fail points, for tests only: places between two stages at which a process that was told so ends at once, as by `kill -9`.
//!
//! `LAPWING_FAIL_POINT=name:count` ends it at the count-th passage of that place. Otherwise a passage costs one relaxed load.

use std::{
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// A place, the service in which it is, and between what it lies.
pub struct Place {
    pub name: &'static str,
    pub service: &'static str,
    pub between: &'static str,
}

const fn place(service: &'static str, name: &'static str, between: &'static str) -> Place {
    Place { name, service, between }
}

/// All of them, in the order in which a message passes them.
pub const PLACES: [Place; 13] = [
    place("router", "admit.after", "a request is in its partition's queue; it has no seq"),
    place("router", "produce.before", "it has its seq; the record is not on its way"),
    place("router", "produce.middle", "the record is with the producer; the log may have it"),
    place("router", "produce.after", "the log has acknowledged it; the owner has not heard so"),
    place("router", "commit.after", "it was read back; nobody is answered"),
    place("router", "answer.after", "answers have left; other events of the same read may not be dispatched"),
    place("router", "dispatch.after", "it is in the nodes' lanes; it is not applied"),
    place("router", "apply.middle", "the script call is out; its answer is not heard"),
    place("router", "apply.after", "Redis has answered; the owner does not know it yet"),
    place(
        "router",
        "told.middle",
        "some of the receipts that were left untold are told; that is kept nowhere",
    ),
    place("router", "told.after", "all of them are on their way; that is kept nowhere"),
    place("persister", "write.before", "rows are collected; no transaction has begun"),
    place("persister", "write.after", "the transaction is committed; nobody is told"),
];

/// Where and at which passage this process ends.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FailPoint {
    name: &'static str,
    count: u64,
}

impl FromStr for FailPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, count) = text.split_once(':').unwrap_or((text, "1"));
        let known = PLACES.iter().find(|place| place.name == name);
        let name = known.ok_or_else(|| format!("no fail point {name:?}"))?.name;
        match count.parse() {
            Ok(count) if count > 0 => Ok(Self { name, count }),
            _ => Err(format!("{count:?} is no number of passages")),
        }
    }
}

impl std::fmt::Display for FailPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.name, self.count)
    }
}

static ARMED: AtomicBool = AtomicBool::new(false);
static POINT: OnceLock<(&'static str, AtomicU64)> = OnceLock::new();
/// Time for a request to be written, less than most answers take.
const ON_ITS_WAY: Duration = Duration::from_micros(300);

/// Once, at the start of the process.
pub(crate) fn arm(point: &FailPoint) {
    tracing::warn!(%point, "FAIL POINT, for tests only: this process will end itself");
    if POINT.set((point.name, AtomicU64::new(point.count))).is_ok() {
        ARMED.store(true, Relaxed);
    }
}

/// Ends the process here if it was told so.
#[inline]
pub fn fail_point(name: &'static str) {
    if ARMED.load(Relaxed) && is_due(name) {
        end();
    }
}

/// Ends the process, if it was told so, when `work` has begun and its result is not heard.
pub async fn during<F: Future>(name: &'static str, work: F) -> F::Output {
    if ARMED.load(Relaxed) && is_due(name) {
        let _in_vain = tokio::time::timeout(ON_ITS_WAY, work).await;
        end();
    }
    work.await
}

#[cold]
fn is_due(name: &'static str) -> bool {
    POINT.get().is_some_and(|(place, left)| *place == name && left.fetch_sub(1, Relaxed) == 1)
}

/// No destructor, no flush, no other thread's next instruction: what a power cut would leave.
fn end() -> ! {
    let _sent = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_counts_are_checked() {
        assert_eq!("commit.after".parse(), Ok(FailPoint { name: "commit.after", count: 1 }));
        assert_eq!("commit.after:70".parse(), Ok(FailPoint { name: "commit.after", count: 70 }));
        for wrong in ["", "commit", "commit.after:", "commit.after:0", "commit.after:x", "commit.after:1:2"] {
            assert!(wrong.parse::<FailPoint>().is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn nothing_happens_unless_it_is_armed_for_this_place() {
        fail_point("produce.before");
        assert_eq!(during("apply.middle", async { 7 }).await, 7);
        arm(&FailPoint { name: "write.after", count: 1 });
        fail_point("produce.before");
        assert_eq!(during("apply.middle", async { 7 }).await, 7);
    }
}
