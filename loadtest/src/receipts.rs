//! Persistence receipts by conversation and seq: one may come before anybody has seen the message that it is about (R-ACK-3).
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use serde::Serialize;

use crate::ledger::{Ledger, micros};

/// What the sessions of one conversation were told.
#[derive(Default)]
pub(crate) struct Told(Vec<Slot>);

#[derive(Default)]
struct Slot {
    /// User + 1; 0 = nobody.
    to: AtomicU32,
    /// Nanoseconds after the ledger's start, of the first time.
    at: AtomicU64,
}

impl Told {
    pub(crate) fn room(seqs: usize) -> Self {
        Self((0..seqs).map(|_| Slot::default()).collect())
    }

    /// False: no such seq can be.
    pub(crate) fn note(&self, seq: u64, user: u32, now: u64) -> bool {
        let Some(slot) = self.0.get(seq as usize) else { return false };
        // Told again by the next owner it says nothing new.
        if slot.at.compare_exchange(0, now.max(1), Relaxed, Relaxed).is_ok() {
            slot.to.store(user + 1, Release);
        }
        true
    }

    /// To whom, and when.
    fn at(&self, seq: u64) -> Option<(u32, u64)> {
        let slot = self.0.get(seq as usize)?;
        let user = slot.to.load(Acquire).checked_sub(1)?;
        Some((user, slot.at.load(Relaxed)))
    }

    fn count(&self) -> usize {
        self.0.iter().filter(|slot| slot.to.load(Relaxed) > 0).count()
    }
}

/// Stored messages whose sender asked for a receipt, and what became of it.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Receipts {
    pub(crate) wanted: usize,
    pub(crate) told: usize,
    /// Told to another user, or of something for which none was asked.
    pub(crate) astray: usize,
    pub(crate) details: Vec<String>,
    /// From the answer to the receipt.
    #[serde(skip)]
    pub(crate) micros: Vec<u32>,
}

const MAX_DETAILS: usize = 20;

impl Ledger {
    pub(crate) fn receipt(&self, conversation: u32, seq: u64, user: u32) {
        let line = &self.conversations[conversation as usize];
        if !line.told.note(seq, user, self.now()) {
            self.unexpected.fetch_add(1, Relaxed);
            self.fault(format!("a receipt for seq {seq} of {}, which is beyond the plan", line.id));
        }
    }

    /// Cheap enough to be asked while they come in.
    pub(crate) fn receipts_told(&self) -> usize {
        self.conversations.iter().map(|conversation| conversation.told.count()).sum()
    }

    pub(crate) fn receipts_wanted(&self) -> usize {
        let of = |index: u32| self.observed(index).filter(|(_, e)| !self.entries[*e as usize].warm).count();
        (0..self.conversations.len() as u32).map(of).sum()
    }

    pub(crate) fn receipts(&self) -> Receipts {
        let mut receipts = Receipts::default();
        for (index, conversation) in self.conversations.iter().enumerate() {
            let mut right = 0;
            for (seq, entry) in self.observed(index as u32) {
                let line = &self.entries[entry as usize];
                if line.warm {
                    continue;
                }
                receipts.wanted += 1;
                match conversation.told.at(seq) {
                    Some((user, at)) if user == line.sender => {
                        right += 1;
                        let answered = line.answered.load(Relaxed);
                        if answered > 0 {
                            receipts.micros.push(micros(at.saturating_sub(answered)));
                        }
                    }
                    _ if receipts.details.len() < MAX_DETAILS => receipts.details.push(format!(
                        "{} (seq {seq} of {}): its sender has no receipt",
                        self.client_mid(entry),
                        conversation.id
                    )),
                    _ => {}
                }
            }
            receipts.told += right;
            receipts.astray += conversation.told.count() - right;
        }
        receipts
    }
}

#[cfg(test)]
mod tests {
    use lapwing_client::{Outcome, Report, proto::Published};

    use super::*;

    fn ledger() -> Ledger {
        let mut ledger = Ledger::new("t-run", vec!["a".into(), "b".into()]);
        let conversation = ledger.conversation("p2p.x", vec![0, 1]);
        ledger.plan(conversation, 0, "warm".into(), String::new(), true);
        for text in ["one", "two"] {
            ledger.plan(conversation, 0, text.into(), String::new(), false);
        }
        ledger.ready();
        ledger
    }

    fn counts(ledger: &Ledger) -> (usize, usize, usize) {
        let receipts = ledger.receipts();
        (receipts.told, receipts.wanted, receipts.astray)
    }

    // R-ACK-3: after a killed router the receipt may overtake the answer of the retry and the delivery.
    #[test]
    fn a_receipt_that_comes_before_its_message_counts() {
        let ledger = ledger();
        ledger.sending(1, 1);
        ledger.receipt(0, 3, 0);
        assert_eq!(counts(&ledger), (0, 0, 1));
        let outcome = Outcome::Duplicate(Published { seq: 3, ..Default::default() });
        let codes = vec![0, 200];
        let report = Report { outcome, attempts: 2, codes, refusals: Vec::new(), was_unknown: true };
        ledger.reported(1, &report);
        assert_eq!(counts(&ledger), (1, 1, 0));
        assert_eq!(ledger.receipts().micros, [0], "before the answer is no negative time");
    }

    #[test]
    fn one_that_is_missing_is_named_and_one_for_somebody_else_is_none() {
        let ledger = ledger();
        for (entry, seq) in [(0, 2), (1, 3), (2, 4)] {
            assert!(ledger.saw(0, seq, entry, "a receiver"));
        }
        ledger.receipt(0, 3, 1);
        assert_eq!(counts(&ledger), (0, 2, 1));
        assert_eq!(ledger.receipts().details.len(), 2);
        ledger.receipt(0, 4, 0);
        assert_eq!(counts(&ledger), (1, 2, 1));
        ledger.receipt(0, 2, 0);
        assert_eq!(counts(&ledger), (1, 2, 2), "none was asked for a warm-up message");
        ledger.receipt(0, 100_000, 0);
        assert_eq!(ledger.unexpected.load(Relaxed), 1);
    }
}
