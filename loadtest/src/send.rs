//! The sending side: a plan of intended times, kept whatever the system does (no coordinated omission).
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lapwing_client::{Message, RetryPolicy};
use rand::Rng;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    fault::Fault,
    fleet::Fleet,
    ledger::{Ledger, Stand},
    options::{Mode, Pace},
};

#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) receipts: bool,
    pub(crate) fault: Option<Arc<Fault>>,
}

/// When each entry is to be sent, after the clock's start.
pub(crate) type Schedule = Vec<(Duration, u32)>;

impl Sender {
    /// Sends until the outcome is known or the client gives up. True: accepted.
    pub(crate) async fn publish(&self, entry: u32, intended: u64) -> bool {
        self.ledger.sending(entry, intended);
        if let Some(fault) = &self.fault {
            fault.look(&self.ledger);
        }
        let message = self.message(entry, 0);
        let client = &self.fleet.clients[self.ledger.entries[entry as usize].sender as usize];
        let report = client.publish(&message).await;
        self.ledger.reported(entry, &report);
        report.outcome.is_accepted()
    }

    fn message(&self, entry: u32, earlier_attempts: u32) -> Message {
        let planned = &self.ledger.entries[entry as usize];
        let conversation = &self.ledger.conversations[planned.conversation as usize].id;
        let mut message =
            Message::text(conversation.as_str(), self.ledger.client_mid(entry), planned.text.as_str());
        message.content.r#type.clone_from(&planned.kind);
        message.receipt = self.receipts && !planned.warm;
        message.earlier_attempts = earlier_attempts;
        message
    }

    /// Keeps to the schedule until told to stop; returns when every publish has an outcome or was given up.
    pub(crate) async fn open_loop(&self, schedule: &Schedule, stop: &CancellationToken) {
        let tasks = TaskTracker::new();
        let (begin, base) = (Instant::now(), self.ledger.now());
        for (at, entry) in schedule {
            tokio::select! {
                () = tokio::time::sleep_until((begin + *at).into()) => {}
                () = stop.cancelled() => break,
            }
            let (sender, entry, intended) = (self.clone(), *entry, base + at.as_nanos() as u64);
            tasks.spawn(async move { sender.publish(entry, intended).await });
        }
        tasks.close();
        tasks.wait().await;
    }

    /// Retries what is still unknown with the same client_mid, until it is settled or `limit` has passed.
    pub(crate) async fn settle_unknowns(&self, limit: Duration) {
        let policy = RetryPolicy { max_elapsed: limit, ..RetryPolicy::default() };
        let retry = |entry: u32| async move {
            let planned = &self.ledger.entries[entry as usize];
            let attempts = planned.attempts.load(std::sync::atomic::Ordering::Relaxed).max(1);
            let client = &self.fleet.clients[planned.sender as usize];
            let report = client.publish_with(&self.message(entry, attempts), policy).await;
            self.ledger.reported(entry, &report);
        };
        futures::future::join_all(self.ledger.with_stand(Stand::Unknown).into_iter().map(retry)).await;
    }
}

/// Users start spread over the ramp and then send evenly; `slots` are one conversation's sends, one each `gap`.
pub(crate) fn ramp(conversations: Vec<Vec<u32>>, gap: Duration, over: Duration) -> Schedule {
    let n = conversations.len().max(1) as f64;
    let mut schedule = Schedule::new();
    for (index, slots) in conversations.into_iter().enumerate() {
        let start = over.mul_f64(index as f64 / n);
        schedule.extend(slots.into_iter().enumerate().map(|(k, entry)| (start + gap * k as u32, entry)));
    }
    schedule.sort_by_key(|(at, _)| *at);
    schedule
}

/// All users send their k-th message in the same instant.
pub(crate) fn burst(users: Vec<Vec<u32>>, gap: Duration) -> Schedule {
    waves(users, gap, 1)
}

/// All users of a wave send their k-th message in the same instant, the waves one after the other.
pub(crate) fn waves(users: Vec<Vec<u32>>, gap: Duration, waves: u32) -> Schedule {
    let waves = waves.max(1);
    let mut schedule = Schedule::new();
    for (index, entries) in users.into_iter().enumerate() {
        let phase = gap * (index as u32 % waves) / waves;
        schedule.extend(entries.into_iter().enumerate().map(|(k, entry)| (phase + gap * k as u32, entry)));
    }
    schedule.sort_by_key(|(at, _)| *at);
    schedule
}

pub(crate) fn schedule(
    mode: Mode,
    by_conversation: Vec<Vec<u32>>,
    by_user: Vec<Vec<u32>>,
    rate: f64,
    pace: &Pace,
) -> Schedule {
    let gap = Duration::from_secs_f64(1.0 / rate.max(0.001));
    match mode {
        Mode::Ramp => ramp(by_conversation, gap, Duration::from_secs_f64(pace.ramp)),
        Mode::Burst => burst(by_user, gap),
    }
}

/// Text of about `bytes` bytes, unlike any other of the run.
pub(crate) fn text(bytes: usize, tag: &str) -> String {
    const WORDS: [&str; 16] = [
        "lapwing", "flock", "wing", "call", "nest", "field", "dawn", "reed", "tide", "storm", "marsh",
        "crest", "flight", "perch", "größer", "鳥",
    ];
    let mut rng = rand::rng();
    let mut text = tag.to_owned();
    while text.len() < bytes {
        text.push(' ');
        text.push_str(WORDS[rng.random_range(0..WORDS.len())]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-LT-1
    #[test]
    fn ramp_spreads_the_starts_and_keeps_the_gap() {
        let gap = Duration::from_millis(200);
        let plan = ramp(vec![vec![0, 1, 2], vec![3, 4, 5]], gap, Duration::from_secs(2));
        let at = |entry| plan.iter().find(|(_, e)| *e == entry).unwrap().0.as_millis();
        assert_eq!([at(0), at(1), at(2), at(3), at(5)], [0, 200, 400, 1000, 1400]);
        assert!(plan.is_sorted_by_key(|(at, _)| *at));
    }

    // R-LT-1
    #[test]
    fn burst_puts_the_kth_message_of_all_at_one_instant() {
        let plan = burst(vec![vec![0, 1], vec![2, 3]], Duration::from_millis(500));
        let times: Vec<_> = plan.iter().map(|(at, e)| (at.as_millis(), *e)).collect();
        assert_eq!(times, [(0, 0), (0, 2), (500, 1), (500, 3)]);
    }

    #[test]
    fn texts_have_about_the_size_asked_for() {
        let text = text(120, "7");
        assert!((120..=140).contains(&text.len()) && text.starts_with("7 "), "{text}");
    }
}
