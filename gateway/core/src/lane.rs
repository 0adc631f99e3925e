//! Publishes of one session to one conversation: one request in flight to the owner, what arrives meanwhile goes
//! together in the next one, in order; sent again with the same client_mid until the answer timeout (R-SEQ-11).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use lapwing_model::{Code, Refusal, record::content_len};
use lapwing_proto::{
    bus::{PublishItem, PublishOutcome, publish_outcome::Outcome},
    client::Published,
};

/// From the first sending to the last moment in which an answer counts.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// A request without an answer is sent again after this; the owner joins it to the first.
pub const REQUEST_TIMEOUT: Duration = Duration::from_millis(1500);
/// What the session sent behind a temporary refusal waits this long for the refused one to come again.
pub const GIVEN_UP: Duration = Duration::from_secs(5);

const QUEUE_ITEMS: usize = 256;
const QUEUE_BYTES: usize = 1 << 20;
const BATCH_ITEMS: usize = 64;
const BATCH_BYTES: usize = 1 << 20; // below NATS' max_payload of 2 MiB, even with one body of 512 KiB on top

pub type Answer<A> = (A, Result<Published, Refusal>);

struct Entry<A> {
    answer: A,
    item: PublishItem,
    /// When it came to this gateway.
    since: Instant,
    first_sent: Option<Instant>,
    /// A try of our own may have been produced and was not answered.
    unanswered: bool,
}

pub struct Lane<A> {
    queue: VecDeque<Entry<A>>,
    queued_bytes: usize,
    pending: Vec<Entry<A>>,
    flying: bool,
    retry_at: Option<Instant>,
    tries: u32,
    /// Refused for now, in sending order: each has to come again, or is given up, before what stands behind it passes.
    waiting: VecDeque<String>,
    /// Then those that wait are given up.
    until: Option<Instant>,
    /// Of `waiting`, what was refused in this very step: what stands behind it in the lane has to be refused, too.
    cut: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub enum Step {
    /// Send these as one request and tell its end by `handle_reply`, within the given time.
    Send(Vec<PublishItem>, Duration),
    Wait(Instant),
    Idle,
}

/// How a request to the owner ended.
pub enum Reply {
    Outcomes(Vec<PublishOutcome>),
    /// Nothing was produced, or what was is void; the owner's advice when to come again.
    NotOwner(Duration),
    /// Nobody was reached: no owner is known, or nobody listens there.
    Unreached,
    /// Handed over, but no answer came in time.
    TimedOut,
    /// The request as a whole was refused.
    Refused(Refusal),
}

impl<A> Default for Lane<A> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            queued_bytes: 0,
            pending: Vec::new(),
            flying: false,
            retry_at: None,
            tries: 0,
            waiting: VecDeque::new(),
            until: None,
            cut: Vec::new(),
        }
    }
}

impl<A> Lane<A> {
    /// Whether a publish may go on (then `push` it) or must wait for one before it that was refused temporarily.
    pub fn admit(&mut self, client_mid: &str, now: Instant) -> Result<(), Refusal> {
        if self.until.is_some_and(|until| until <= now) {
            self.waiting.clear();
        }
        match self.waiting.front() {
            None => {}
            Some(first) if first == client_mid => {
                self.waiting.pop_front();
                self.until = Some(now + GIVEN_UP);
            }
            Some(first) => {
                let refusal = behind(first);
                let known = self.waiting.iter().any(|mid| mid == client_mid);
                if !known && self.waiting.len() < QUEUE_ITEMS {
                    self.waiting.push_back(client_mid.to_owned());
                }
                return Err(refusal);
            }
        }
        if self.queue.len() >= QUEUE_ITEMS || self.queued_bytes >= QUEUE_BYTES {
            let refusal = Refusal::new(Code::Overloaded, "too many publishes of this session are waiting");
            self.refused(client_mid, now);
            return Err(refusal);
        }
        Ok(())
    }

    /// This process was stopped: the session had no chance to send the refused one again, so the wait for it begins anew.
    pub fn woke(&mut self, now: Instant) {
        self.until = self.until.max(Some(now + GIVEN_UP));
    }

    /// A publish that `admit` let pass was refused temporarily before it came here: what follows it is refused until it
    /// comes again.
    pub fn refused(&mut self, client_mid: &str, now: Instant) {
        self.waiting.push_front(client_mid.to_owned());
        self.until = Some(now + GIVEN_UP);
    }

    pub fn push(&mut self, answer: A, item: PublishItem, now: Instant) {
        self.queued_bytes += size(&item);
        self.queue.push_back(Entry { answer, item, since: now, first_sent: None, unanswered: false });
    }

    /// How long the oldest of what is sent next is here already: its own retry may have come by another way since.
    pub fn age(&self, now: Instant) -> Duration {
        let oldest = self.pending.iter().map(|entry| entry.since).min();
        oldest.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Nothing queued, nothing in flight and nothing to remember.
    pub fn is_forgettable(&self, now: Instant) -> bool {
        self.is_empty() && (self.waiting.is_empty() || self.until.is_none_or(|until| until <= now))
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.pending.is_empty()
    }

    pub fn next_step(&mut self, now: Instant) -> Step {
        if self.flying {
            return Step::Idle;
        }
        if self.pending.is_empty() {
            self.fill(now);
        }
        if self.pending.is_empty() {
            return Step::Idle;
        }
        if let Some(at) = self.retry_at.filter(|at| *at > now) {
            return Step::Wait(at.min(self.deadline().unwrap_or(at)).max(now));
        }
        self.flying = true;
        self.tries += 1;
        let left = self.deadline().map_or(ANSWER_TIMEOUT, |deadline| deadline.saturating_duration_since(now));
        let items = self.pending.iter().map(|entry| {
            let mut item = entry.item.clone();
            // An attempt that may be in the log makes this one a retry, which reaches the dedupe whatever the limits say.
            if entry.unanswered && item.attempt == 1 {
                item.attempt = 2;
            }
            item
        });
        Step::Send(items.collect(), left.min(REQUEST_TIMEOUT).max(Duration::from_millis(50)))
    }

    fn fill(&mut self, now: Instant) {
        let mut bytes = 0;
        while let Some(entry) = self.queue.front() {
            let len = size(&entry.item);
            if self.pending.len() == BATCH_ITEMS || (!self.pending.is_empty() && bytes + len > BATCH_BYTES) {
                break;
            }
            bytes += len;
            self.queued_bytes -= len;
            self.pending.extend(self.queue.pop_front());
        }
        for entry in &mut self.pending {
            entry.first_sent = Some(now);
        }
        self.tries = 0;
        self.retry_at = None;
    }

    fn deadline(&self) -> Option<Instant> {
        self.pending.first().and_then(|entry| entry.first_sent).map(|at| at + ANSWER_TIMEOUT)
    }

    pub fn handle_reply(&mut self, reply: Reply, now: Instant) -> Vec<Answer<A>> {
        self.flying = false;
        let mut answers = Vec::new();
        match reply {
            Reply::Outcomes(outcomes) => self.outcomes(outcomes, now, &mut answers),
            Reply::Refused(refusal) => {
                for entry in std::mem::take(&mut self.pending) {
                    self.refuse(entry, refusal.clone(), &mut answers);
                }
            }
            Reply::NotOwner(after) => self.retry_at = Some(now + after.max(self.backoff())),
            Reply::Unreached => self.retry_at = Some(now + self.backoff()),
            Reply::TimedOut => {
                for entry in &mut self.pending {
                    entry.unanswered = true;
                }
                self.retry_at = None;
            }
        }
        self.expire(now, &mut answers);
        self.refuse_behind(now, &mut answers);
        answers
    }

    /// Gives up what was not answered in time.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<Answer<A>> {
        let mut answers = Vec::new();
        if !self.flying {
            self.expire(now, &mut answers);
            self.refuse_behind(now, &mut answers);
        }
        answers
    }

    /// There may be a new owner: no need to wait.
    pub fn retry_now(&mut self) {
        self.retry_at = None;
    }

    fn backoff(&self) -> Duration {
        Duration::from_millis(20 << self.tries.min(4))
    }

    fn outcomes(&mut self, outcomes: Vec<PublishOutcome>, now: Instant, answers: &mut Vec<Answer<A>>) {
        let mut outcomes = outcomes.into_iter();
        for mut entry in std::mem::take(&mut self.pending) {
            match outcomes.next().map(|outcome| outcome.outcome) {
                Some(Some(Outcome::Published(published))) => answers.push((entry.answer, Ok(published))),
                Some(Some(Outcome::Error(error))) => {
                    self.refuse(entry, Refusal::from_wire(&error), answers);
                }
                // What stands before a refused one goes again, what stands behind it is refused, too.
                Some(Some(Outcome::NotOwner(_))) => self.keep(entry, answers),
                // An owner that answers less than it was asked: nobody knows what became of the rest.
                Some(None) | None => {
                    entry.unanswered = true;
                    self.keep(entry, answers);
                }
            }
        }
        if !self.cut.is_empty() {
            self.refuse_queue(now, answers);
        }
        if !self.pending.is_empty() {
            self.retry_at = Some(now + self.backoff());
        }
    }

    fn keep(&mut self, entry: Entry<A>, answers: &mut Vec<Answer<A>>) {
        if self.cut.is_empty() { self.pending.push(entry) } else { self.refuse_one_behind(entry, answers) }
    }

    fn refuse_one_behind(&mut self, entry: Entry<A>, answers: &mut Vec<Answer<A>>) {
        let refusal = behind(self.cut.first().map_or("", String::as_str));
        let refusal = if entry.unanswered { refusal.after_unanswered_attempt() } else { refusal };
        self.cut.push(entry.item.client_mid);
        answers.push((entry.answer, Err(refusal)));
    }

    fn expire(&mut self, now: Instant, answers: &mut Vec<Answer<A>>) {
        let due = |entry: &Entry<A>| entry.first_sent.is_some_and(|at| at + ANSWER_TIMEOUT <= now);
        let (due, left) = std::mem::take(&mut self.pending).into_iter().partition::<Vec<_>, _>(due);
        self.pending = left;
        for entry in due {
            let refusal = if entry.unanswered {
                Refusal::new(Code::PublishUnknown, "the owner did not answer in time").cause("timeout")
            } else {
                Refusal::new(Code::Unreachable, "no owner of this conversation was reached in time")
            };
            self.refuse(entry, refusal, answers);
        }
    }

    fn refuse(&mut self, entry: Entry<A>, refusal: Refusal, answers: &mut Vec<Answer<A>>) {
        let refusal = if entry.unanswered { refusal.after_unanswered_attempt() } else { refusal };
        if refusal.code.line().temporary {
            self.cut.push(entry.item.client_mid);
        }
        answers.push((entry.answer, Err(refusal)));
    }

    /// After a temporary refusal nothing that was sent behind it may overtake it.
    fn refuse_behind(&mut self, now: Instant, answers: &mut Vec<Answer<A>>) {
        if !self.cut.is_empty() {
            self.queue = std::mem::take(&mut self.pending).into_iter().chain(self.queue.drain(..)).collect();
            self.refuse_queue(now, answers);
        }
    }

    /// What was in the lane stands before all that was refused earlier and did not come again.
    fn refuse_queue(&mut self, now: Instant, answers: &mut Vec<Answer<A>>) {
        for entry in std::mem::take(&mut self.queue) {
            self.refuse_one_behind(entry, answers);
        }
        self.queued_bytes = 0;
        for client_mid in self.cut.drain(..).rev() {
            self.waiting.push_front(client_mid);
        }
        self.until = Some(now + GIVEN_UP);
    }

    /// The session is gone: what was not sent never will be.
    pub fn clear_queue(&mut self) {
        self.queue.clear();
        self.queued_bytes = 0;
    }
}

fn size(item: &PublishItem) -> usize {
    item.content.as_ref().map_or(0, content_len) + item.client_mid.len() + 100
}

fn behind(client_mid: &str) -> Refusal {
    let what = format!("publish {client_mid} before this one was refused for now; send it first");
    Refusal::new(Code::Overloaded, what).cause("order")
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
