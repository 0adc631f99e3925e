//! What was meant to be sent, what became of it, and where it was seen: one entry a message, keyed by client_mid and content.
use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use lapwing_client::{Outcome, Report};
use parking_lot::Mutex;
use serde::Serialize;

use crate::receipts::Told;

/// Where a publish stands, as its sender knows it (R-LT-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stand {
    NotSent,
    InFlight,
    Acked,
    Rejected,
    Unknown,
}

const STANDS: [Stand; 5] = [Stand::NotSent, Stand::InFlight, Stand::Acked, Stand::Rejected, Stand::Unknown];

pub(crate) struct Conversation {
    pub(crate) id: String,
    /// Users of the fleet.
    pub(crate) members: Vec<u32>,
    /// Entry + 1 that was seen at a seq; 0 = none yet.
    seen: Vec<AtomicU32>,
    pub(crate) told: Told,
    /// Newest seq that anybody has seen or was told of.
    pub(crate) head: AtomicU64,
}

pub(crate) struct Entry {
    pub(crate) conversation: u32,
    pub(crate) sender: u32,
    pub(crate) text: String,
    /// Content type, carries what the transcript has beside the text.
    pub(crate) kind: String,
    pub(crate) warm: bool,
    /// Nanoseconds after the ledger's start; 0 = not yet.
    pub(crate) intended: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) seq: AtomicU64,
    pub(crate) was_unknown: AtomicU8,
    pub(crate) attempts: AtomicU32,
    stand: AtomicU8,
}

pub(crate) struct Ledger {
    /// The tenant, and what each client_mid starts with.
    pub(crate) run: String,
    pub(crate) users: Vec<String>,
    pub(crate) conversations: Vec<Conversation>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) start: Instant,
    by_id: HashMap<String, u32>,
    /// Answers by code, see `Answer::code`; the accepting ones left out.
    pub(crate) codes: Mutex<HashMap<u32, u64>>,
    /// Refusals by name.
    pub(crate) names: Mutex<BTreeMap<String, u64>>,
    pub(crate) accepted: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) done: AtomicU64,
    /// What does not fit, in words, the first 100.
    faults: Mutex<Vec<String>>,
    pub(crate) unexpected: AtomicU64,
    pub(crate) mismatched: AtomicU64,
    pub(crate) rejections: Mutex<HashMap<String, u64>>,
}

const MAX_FAULTS: usize = 100;
/// Sent by tasks of their own; closer together their order is the scheduler's.
const AT_ONCE_NANOS: u64 = 20_000_000;
/// Room beyond the plan: events of creation, and what must not be there.
const SLACK: usize = 256;

impl Ledger {
    pub(crate) fn new(run: &str, users: Vec<String>) -> Self {
        Self {
            run: run.to_owned(),
            users,
            conversations: Vec::new(),
            entries: Vec::new(),
            start: Instant::now(),
            by_id: HashMap::new(),
            codes: Mutex::default(),
            names: Mutex::default(),
            accepted: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            done: AtomicU64::new(0),
            faults: Mutex::default(),
            unexpected: AtomicU64::new(0),
            mismatched: AtomicU64::new(0),
            rejections: Mutex::default(),
        }
    }

    pub(crate) fn conversation(&mut self, id: &str, members: Vec<u32>) -> u32 {
        let index = self.conversations.len() as u32;
        self.by_id.insert(id.to_owned(), index);
        let (seen, told, head) = (Vec::new(), Told::default(), AtomicU64::new(0));
        self.conversations.push(Conversation { id: id.to_owned(), members, seen, told, head });
        index
    }

    pub(crate) fn plan(
        &mut self,
        conversation: u32,
        sender: u32,
        text: String,
        kind: String,
        warm: bool,
    ) -> u32 {
        self.entries.push(Entry {
            conversation,
            sender,
            text,
            kind,
            warm,
            intended: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            seq: AtomicU64::new(0),
            was_unknown: AtomicU8::new(0),
            attempts: AtomicU32::new(0),
            stand: AtomicU8::new(0),
        });
        self.entries.len() as u32 - 1
    }

    /// Gives each conversation its table of seqs; after the last `plan`.
    pub(crate) fn ready(&mut self) {
        let mut planned = vec![SLACK; self.conversations.len()];
        for entry in &self.entries {
            planned[entry.conversation as usize] += 1;
        }
        for (conversation, n) in self.conversations.iter_mut().zip(planned) {
            let room = n + conversation.members.len() / 1000;
            conversation.seen = (0..room).map(|_| AtomicU32::new(0)).collect();
            conversation.told = Told::room(room);
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    pub(crate) fn client_mid(&self, entry: u32) -> String {
        format!("{}-{entry:x}", self.run)
    }

    pub(crate) fn entry_of(&self, client_mid: &str) -> Option<u32> {
        let number = client_mid.strip_prefix(self.run.as_str())?.strip_prefix('-')?;
        let entry = u32::from_str_radix(number, 16).ok()?;
        ((entry as usize) < self.entries.len()).then_some(entry)
    }

    pub(crate) fn find(&self, conversation: &str) -> Option<u32> {
        self.by_id.get(conversation).copied()
    }

    pub(crate) fn sending(&self, entry: u32, intended: u64) {
        let line = &self.entries[entry as usize];
        line.intended.store(intended.max(1), Relaxed);
        line.sent.store(self.now(), Relaxed);
        line.stand.store(Stand::InFlight as u8, Relaxed);
        self.sent.fetch_add(1, Relaxed);
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.sent.load(Relaxed).saturating_sub(self.done.load(Relaxed))
    }

    pub(crate) fn reported(&self, entry: u32, report: &Report) {
        let line = &self.entries[entry as usize];
        line.answered.store(self.now(), Relaxed);
        line.attempts.fetch_add(report.attempts, Relaxed);
        line.was_unknown.fetch_or(u8::from(report.was_unknown), Relaxed);
        let first = line.stand.load(Relaxed) == Stand::InFlight as u8;
        {
            let mut codes = self.codes.lock();
            for code in report.codes.iter().filter(|code| !matches!(code, 200 | 202)) {
                *codes.entry(*code).or_default() += 1;
            }
        }
        if !report.refusals.is_empty() {
            let mut names = self.names.lock();
            for name in &report.refusals {
                *names.entry(name.clone()).or_default() += 1;
            }
        }
        let stand = match &report.outcome {
            Outcome::Accepted(published) | Outcome::Duplicate(published) => {
                line.seq.store(published.seq, Relaxed);
                self.saw(line.conversation, published.seq, entry, "answer");
                self.accepted.fetch_add(1, Relaxed);
                Stand::Acked
            }
            Outcome::Rejected(error) => {
                let what = format!("{} {}: {}", error.code, error.name, error.message);
                self.rejected(&what);
                Stand::Rejected
            }
            Outcome::Unknown { .. } => Stand::Unknown,
        };
        line.stand.store(stand as u8, Relaxed);
        if first {
            self.done.fetch_add(1, Relaxed);
        }
    }

    fn rejected(&self, what: &str) {
        let mut rejections = self.rejections.lock();
        if rejections.len() < MAX_FAULTS || rejections.contains_key(what) {
            *rejections.entry(what.to_owned()).or_default() += 1;
        }
    }

    /// Somebody saw `entry` at `seq`: everybody must see the same there. False if not.
    pub(crate) fn saw(&self, conversation: u32, seq: u64, entry: u32, who: &str) -> bool {
        let line = &self.conversations[conversation as usize];
        line.head.fetch_max(seq, Relaxed);
        let Some(slot) = line.seen.get(seq as usize) else {
            self.unexpected.fetch_add(1, Relaxed);
            self.fault(format!("{who}: seq {seq} of {} is beyond the plan", line.id));
            return false;
        };
        match slot.compare_exchange(0, entry + 1, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(there) if there == entry + 1 => true,
            Err(there) => {
                self.mismatched.fetch_add(1, Relaxed);
                let id = &line.id;
                self.fault(format!(
                    "{who}: seq {seq} of {id} is entry {entry} here, {} elsewhere",
                    there - 1
                ));
                false
            }
        }
    }

    /// The entry that was seen at a seq.
    pub(crate) fn at(&self, conversation: u32, seq: u64) -> Option<u32> {
        let slot = self.conversations[conversation as usize].seen.get(seq as usize)?;
        slot.load(Relaxed).checked_sub(1)
    }

    /// (seq, entry) of each message that anybody has seen.
    pub(crate) fn observed(&self, conversation: u32) -> impl Iterator<Item = (u64, u32)> + '_ {
        let seen = &self.conversations[conversation as usize].seen;
        seen.iter()
            .enumerate()
            .filter_map(|(seq, slot)| Some((seq as u64, slot.load(Relaxed).checked_sub(1)?)))
    }

    pub(crate) fn fault(&self, what: String) {
        let mut faults = self.faults.lock();
        if faults.len() < MAX_FAULTS {
            faults.push(what);
        }
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults.lock().clone()
    }

    pub(crate) fn stand(&self, entry: u32) -> Stand {
        STANDS[usize::from(self.entries[entry as usize].stand.load(Relaxed)).min(STANDS.len() - 1)]
    }

    pub(crate) fn with_stand(&self, stand: Stand) -> Vec<u32> {
        (0..self.entries.len() as u32).filter(|entry| self.stand(*entry) == stand).collect()
    }

    /// Sent before `at` and without an answer then.
    pub(crate) fn in_flight_at(&self, at: u64) -> usize {
        let open = |e: &&Entry| {
            let (sent, answered) = (e.sent.load(Relaxed), e.answered.load(Relaxed));
            sent > 0 && sent <= at && (answered == 0 || answered > at)
        };
        self.entries.iter().filter(open).count()
    }

    /// Accepted messages with a lower seq than one that the same user had sent before it (R-SEQ-11).
    pub(crate) fn overtaken(&self) -> Vec<String> {
        let mut newest: HashMap<(u32, u32), (u64, u32)> = HashMap::new();
        let mut overtaken = Vec::new();
        for entry in self.with_stand(Stand::Acked) {
            let line = &self.entries[entry as usize];
            let seq = line.seq.load(Relaxed);
            let before = newest.entry((line.conversation, line.sender)).or_insert((seq, entry));
            let gap =
                line.sent.load(Relaxed).saturating_sub(self.entries[before.1 as usize].sent.load(Relaxed));
            if seq < before.0 && gap > AT_ONCE_NANOS {
                let (id, user) =
                    (&self.conversations[line.conversation as usize].id, &self.users[line.sender as usize]);
                let (first, second) = (self.client_mid(before.1), self.client_mid(entry));
                overtaken.push(format!(
                    "{user} in {id}: {first} is seq {}, {second} behind it seq {seq}",
                    before.0
                ));
            } else if seq > before.0 {
                *before = (seq, entry);
            }
        }
        overtaken
    }

    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally { planned: self.entries.len(), ..Tally::default() };
        let mut observed = vec![false; self.entries.len()];
        for conversation in 0..self.conversations.len() as u32 {
            for (_, entry) in self.observed(conversation) {
                observed[entry as usize] = true;
            }
        }
        for (index, line) in self.entries.iter().enumerate() {
            match self.stand(index as u32) {
                Stand::NotSent => tally.not_sent += 1,
                Stand::InFlight => tally.in_flight += 1,
                Stand::Acked => tally.acked += 1,
                Stand::Rejected => tally.rejected += 1,
                Stand::Unknown => tally.unknown += 1,
            }
            let acked = self.stand(index as u32) == Stand::Acked;
            tally.unacked_but_observed += usize::from(observed[index] && !acked);
            tally.was_unknown += usize::from(line.was_unknown.load(Relaxed) > 0);
            tally.retried += usize::from(line.attempts.load(Relaxed) > 1);
        }
        tally
    }

    /// Milliseconds from the intended sending to the answer, warm-up left out.
    pub(crate) fn ack_micros(&self) -> Vec<u32> {
        let acked = |(index, e): (usize, &Entry)| {
            let took = e.answered.load(Relaxed).saturating_sub(e.intended.load(Relaxed));
            (!e.warm && self.stand(index as u32) == Stand::Acked).then(|| micros(took))
        };
        self.entries.iter().enumerate().filter_map(acked).collect()
    }
}

pub(crate) fn micros(nanos: u64) -> u32 {
    u32::try_from(nanos / 1000).unwrap_or(u32::MAX)
}

/// The five states (R-LT-3) and how many went through an unknown.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) planned: usize,
    pub(crate) not_sent: usize,
    pub(crate) in_flight: usize,
    pub(crate) acked: usize,
    pub(crate) rejected: usize,
    pub(crate) unknown: usize,
    pub(crate) unacked_but_observed: usize,
    /// Filled in by the MySQL check.
    pub(crate) persisted: usize,
    pub(crate) was_unknown: usize,
    pub(crate) retried: usize,
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
