//! The receiving side of one user: looks at each event in place, keeps counts and one latency sample, no object.
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use lapwing_client::{Handler, Order, RawBody, RawEvent, Update, proto};
use parking_lot::Mutex;

use crate::ledger::{Ledger, micros};

/// What all receivers of a run share.
pub(crate) struct Deliveries {
    pub(crate) ledger: Arc<Ledger>,
    /// Messages of this run that reached a session, once each.
    pub(crate) messages: AtomicU64,
    pub(crate) doubled: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) holes: AtomicU64,
    pub(crate) unannounced: AtomicU64,
    pub(crate) gaps: AtomicU64,
    pub(crate) disconnects: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) wrong_content: AtomicU64,
    /// Receipts that say `dead_lettered`.
    pub(crate) dead_lettered: AtomicU64,
    /// Details of what came out of order, the first 100 (R-LT-5).
    pub(crate) disorder: Mutex<Vec<String>>,
}

impl Deliveries {
    pub(crate) fn new(ledger: Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self {
            ledger,
            messages: AtomicU64::new(0),
            doubled: AtomicU64::new(0),
            late: AtomicU64::new(0),
            holes: AtomicU64::new(0),
            unannounced: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            disconnects: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            wrong_content: AtomicU64::new(0),
            dead_lettered: AtomicU64::new(0),
            disorder: Mutex::default(),
        })
    }

    fn disorder(&self, what: String) {
        let mut list = self.disorder.lock();
        if list.len() < 100 {
            list.push(what);
        }
    }
}

/// One conversation as one session saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) conversation: u32,
    /// Delivery was promised from the next seq on.
    pub(crate) live_after: u64,
    pub(crate) last: u64,
    pub(crate) messages: u64,
}

#[derive(Default)]
struct Seen {
    lines: Vec<Line>,
    latency: Vec<u32>,
}

pub(crate) struct Receiver {
    user: u32,
    all: Arc<Deliveries>,
    seen: Mutex<Seen>,
}

impl Receiver {
    pub(crate) fn new(user: u32, all: Arc<Deliveries>) -> Arc<Self> {
        Arc::new(Self { user, all, seen: Mutex::default() })
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.seen.lock().lines.clone()
    }

    pub(crate) fn take_latency(&self) -> Vec<u32> {
        std::mem::take(&mut self.seen.lock().latency)
    }

    fn starts(&self, states: &[proto::ConversationState]) {
        let mut seen = self.seen.lock();
        for state in states {
            let Some(conversation) = self.all.ledger.find(&state.conversation) else {
                continue;
            };
            self.all.ledger.conversations[conversation as usize].head.fetch_max(state.head, Relaxed);
            if !seen.lines.iter().any(|line| line.conversation == conversation) {
                let (live_after, last) = (state.live_after, state.live_after);
                seen.lines.push(Line { conversation, live_after, last, messages: 0 });
            }
        }
    }

    fn message(&self, event: &RawEvent<'_>, text: &[u8]) {
        let ledger = &self.all.ledger;
        let who = || format!("receiver {}", ledger.users[self.user as usize]);
        let Some(entry) = ledger.entry_of(event.client_mid) else {
            ledger.unexpected.fetch_add(1, Relaxed);
            ledger.fault(format!("{}: {} seq {} is not of this run", who(), event.conversation, event.seq));
            return;
        };
        let planned = &ledger.entries[entry as usize];
        let conversation = &ledger.conversations[planned.conversation as usize];
        let same = conversation.id == event.conversation
            && planned.text.as_bytes() == text
            && ledger.users[planned.sender as usize] == event.sender;
        if !same {
            self.all.wrong_content.fetch_add(1, Relaxed);
            ledger.fault(format!("{}: {} seq {} is not what was sent", who(), event.conversation, event.seq));
            return;
        }
        // `who` is built for a fault only; most events pass through here without an allocation.
        ledger.saw(planned.conversation, event.seq, entry, "a receiver");
        let mut seen = self.seen.lock();
        let Some(line) = seen.lines.iter_mut().find(|line| line.conversation == planned.conversation) else {
            return;
        };
        line.messages += 1;
        line.last = line.last.max(event.seq);
        let intended = planned.intended.load(Relaxed);
        if !planned.warm && intended > 0 {
            let took = ledger.now().saturating_sub(intended);
            seen.latency.push(micros(took));
        }
        self.all.messages.fetch_add(1, Relaxed);
    }
}

impl Handler for Receiver {
    fn event(&self, event: &RawEvent<'_>, order: Order) {
        let counter = match order {
            Order::InOrder => None,
            Order::Duplicate => Some((&self.all.doubled, "doubled")),
            Order::Late => Some((&self.all.late, "late")),
            Order::AfterHole { .. } => Some((&self.all.holes, "behind a hole")),
            Order::Unannounced => Some((&self.all.unannounced, "unannounced")),
        };
        if let Some((counter, what)) = counter {
            counter.fetch_add(1, Relaxed);
            let user = &self.all.ledger.users[self.user as usize];
            self.all.disorder(format!("{user}: {} seq {} {what} ({order:?})", event.conversation, event.seq));
        }
        if order == Order::Duplicate {
            return;
        }
        match event.body {
            RawBody::Text(text) => self.message(event, text),
            _ => {
                if let Some(conversation) = self.all.ledger.find(event.conversation) {
                    let head = &self.all.ledger.conversations[conversation as usize].head;
                    head.fetch_max(event.seq, Relaxed);
                    let mut seen = self.seen.lock();
                    if let Some(line) = seen.lines.iter_mut().find(|l| l.conversation == conversation) {
                        line.last = line.last.max(event.seq);
                    }
                }
            }
        }
    }

    fn update(&self, update: Update) {
        match update {
            Update::Connected(welcome) => self.starts(&welcome.conversations),
            Update::Conversations(states) => self.starts(&states),
            Update::Joined(state) => self.starts(std::slice::from_ref(&state)),
            Update::Gap(gap) => {
                self.all.gaps.fetch_add(1, Relaxed);
                let user = &self.all.ledger.users[self.user as usize];
                self.all.disorder(format!("{user}: declared gap {gap:?}"));
            }
            Update::Persisted(persisted) => self.persisted(&persisted),
            Update::Disconnected(error) => {
                self.all.disconnects.fetch_add(1, Relaxed);
                tracing::debug!(%error, "disconnected");
            }
            Update::Ended(error) if error.code() != Some(1000) => {
                self.all.ended.fetch_add(1, Relaxed);
                let user = &self.all.ledger.users[self.user as usize];
                self.all.ledger.fault(format!("{user}: the session ended for good: {error}"));
            }
            _ => {}
        }
    }
}

impl Receiver {
    fn persisted(&self, persisted: &proto::Persisted) {
        let ledger = &self.all.ledger;
        let Some(conversation) = ledger.find(&persisted.conversation) else {
            return;
        };
        for seq in &persisted.seqs {
            ledger.receipt(conversation, *seq, self.user);
        }
        self.all.dead_lettered.fetch_add(persisted.dead_lettered.len() as u64, Relaxed);
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
