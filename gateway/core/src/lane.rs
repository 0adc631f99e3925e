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

struct Blocked {
    client_mid: String,
    until: Instant,
}

pub struct Lane<A> {
    queue: VecDeque<Entry<A>>,
    queued_bytes: usize,
    pending: Vec<Entry<A>>,
    flying: bool,
    retry_at: Option<Instant>,
    tries: u32,
    blocked: Option<Blocked>,
    /// One of the lane's own was refused for now: what stands behind it has to be refused, too.
    cut: bool,
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
            blocked: None,
            cut: false,
        }
    }
}

impl<A> Lane<A> {
    /// Whether a publish may go on (then `push` it) or must wait for one before it that was refused temporarily.
    pub fn admit(&mut self, client_mid: &str, now: Instant) -> Result<(), Refusal> {
        if self
            .blocked
            .as_ref()
            .is_some_and(|blocked| blocked.until <= now || blocked.client_mid == client_mid)
        {
            self.blocked = None;
        }
        if let Some(blocked) = &self.blocked {
            return Err(behind(&blocked.client_mid));
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
        if let Some(blocked) = &mut self.blocked {
            blocked.until = blocked.until.max(now + GIVEN_UP);
        }
    }

    /// A publish was refused temporarily before it came here: what follows it is refused until it comes again.
    pub fn refused(&mut self, client_mid: &str, now: Instant) {
        if self.blocked.is_none() {
            self.block(client_mid, now);
        }
    }

    fn block(&mut self, client_mid: &str, now: Instant) {
        self.blocked = Some(Blocked { client_mid: client_mid.to_owned(), until: now + GIVEN_UP });
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
        self.is_empty() && self.blocked.as_ref().is_none_or(|blocked| blocked.until <= now)
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
                    self.refuse(entry, refusal.clone(), now, &mut answers);
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
        self.refuse_behind(&mut answers);
        answers
    }

    /// Gives up what was not answered in time.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<Answer<A>> {
        let mut answers = Vec::new();
        if !self.flying {
            self.expire(now, &mut answers);
            self.refuse_behind(&mut answers);
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
                    self.refuse(entry, Refusal::from_wire(&error), now, answers);
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
        if std::mem::take(&mut self.cut) {
            self.refuse_queue(answers);
        }
        if !self.pending.is_empty() {
            self.retry_at = Some(now + self.backoff());
        }
    }

    fn keep(&mut self, entry: Entry<A>, answers: &mut Vec<Answer<A>>) {
        match &self.blocked {
            Some(blocked) if self.cut => answers.push(refused_behind(entry, &blocked.client_mid)),
            _ => self.pending.push(entry),
        }
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
            self.refuse(entry, refusal, now, answers);
        }
    }

    fn refuse(&mut self, entry: Entry<A>, refusal: Refusal, now: Instant, answers: &mut Vec<Answer<A>>) {
        let refusal = if entry.unanswered { refusal.after_unanswered_attempt() } else { refusal };
        // What is in the lane stands before anything that was refused earlier, and takes its place; of those that are
        // refused together the first one counts.
        if refusal.code.line().temporary && !self.cut {
            self.block(&entry.item.client_mid, now);
            self.cut = true;
        }
        answers.push((entry.answer, Err(refusal)));
    }

    /// After a temporary refusal nothing that was sent behind it may overtake it.
    fn refuse_behind(&mut self, answers: &mut Vec<Answer<A>>) {
        if std::mem::take(&mut self.cut) {
            self.queue = std::mem::take(&mut self.pending).into_iter().chain(self.queue.drain(..)).collect();
            self.refuse_queue(answers);
        }
    }

    fn refuse_queue(&mut self, answers: &mut Vec<Answer<A>>) {
        let Some(blocked) = &self.blocked else { return };
        answers.extend(self.queue.drain(..).map(|entry| refused_behind(entry, &blocked.client_mid)));
        self.queued_bytes = 0;
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

fn refused_behind<A>(entry: Entry<A>, client_mid: &str) -> Answer<A> {
    let refusal = behind(client_mid);
    let refusal = if entry.unanswered { refusal.after_unanswered_attempt() } else { refusal };
    (entry.answer, Err(refusal))
}

fn behind(client_mid: &str) -> Refusal {
    let what = format!("publish {client_mid} before this one was refused for now; send it first");
    Refusal::new(Code::Overloaded, what).cause("order")
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
