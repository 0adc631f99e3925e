//! What was released lately: gap fetches before the view has it, receipts when MySQL has it, and `lapwing probe`.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use lapwing_model::{ConversationKey, Position};
use lapwing_proto::bus;

use crate::Released;

pub struct Recent {
    max_bytes: usize,
    bytes: usize,
    ring: VecDeque<Arc<Released>>,
    by_key: HashMap<ConversationKey, VecDeque<Arc<Released>>>,
    /// Everything below is in MySQL.
    persisted: u64,
}

/// What became persisted of one conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct NowPersisted {
    pub key: ConversationKey,
    pub bucket: u32,
    pub receipt: bus::Receipt,
}

/// Beyond this multiple of the budget even what is not persisted leaves memory: it is in the view and in the log.
const HARD: usize = 8;

impl Recent {
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, ring: VecDeque::new(), by_key: HashMap::new(), persisted: 0 }
    }

    pub fn push(&mut self, released: Arc<Released>) {
        self.bytes += weight(&released);
        self.by_key.entry(released.key.clone()).or_default().push_back(released.clone());
        self.ring.push_back(released);
    }

    /// Ascending, contiguous in seq.
    pub fn of<'a>(&'a self, key: &ConversationKey) -> impl Iterator<Item = &'a Arc<Released>> + use<'a> {
        self.by_key.get(key).into_iter().flatten()
    }

    pub fn find(&self, key: &ConversationKey, seq: u64) -> Option<&Arc<Released>> {
        self.of(key).find(|released| released.record.seq == seq)
    }

    pub fn persisted(&self) -> u64 {
        self.persisted
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// MySQL has everything below `at`, but for the tombstones. Cumulative: a lost mark heals with the next.
    pub fn mark(&mut self, at: Position, tombstones: &[bus::Tombstone]) -> Vec<NowPersisted> {
        if at.offset <= self.persisted {
            return Vec::new();
        }
        let first = self.ring.partition_point(|released| released.offset < self.persisted);
        let end = self.ring.partition_point(|released| released.offset < at.offset);
        self.persisted = at.offset;
        let mut order: Vec<NowPersisted> = Vec::new();
        let mut places: HashMap<&ConversationKey, usize> = HashMap::new();
        for released in self.ring.range(first..end) {
            let place = *places.entry(&released.key).or_insert_with(|| {
                order.push(NowPersisted {
                    key: released.key.clone(),
                    bucket: released.record.bucket,
                    receipt: bus::Receipt::default(),
                });
                order.len() - 1
            });
            let receipt = &mut order[place].receipt;
            receipt.persisted_seq = released.record.seq;
            if released.record.receipt {
                let dead = tombstones.iter().any(|tombstone| tombstone.offset == released.offset);
                note(receipt, &released.record.sender, released.record.seq, dead);
            }
        }
        order
    }

    pub fn shrink(&mut self, view_acked: u64) {
        let safe = view_acked.min(self.persisted);
        while self.bytes > self.max_bytes
            && let Some(first) = self.ring.front()
            && (first.offset < safe || self.bytes > self.max_bytes * HARD)
        {
            let Some(first) = self.ring.pop_front() else { return };
            self.bytes -= weight(&first);
            if let Some(of_key) = self.by_key.get_mut(&first.key) {
                of_key.pop_front();
                if of_key.is_empty() {
                    self.by_key.remove(&first.key);
                }
            }
        }
    }
}

fn weight(released: &Released) -> usize {
    2 * released.event.len() + 300
}

fn note(receipt: &mut bus::Receipt, sender: &str, seq: u64, dead: bool) {
    let found = receipt.senders.iter().position(|of| of.sender == sender);
    let place = found.unwrap_or_else(|| {
        receipt.senders.push(bus::ReceiptFor { sender: sender.to_owned(), ..Default::default() });
        receipt.senders.len() - 1
    });
    let of = &mut receipt.senders[place];
    if dead { of.dead_lettered.push(seq) } else { of.seqs.push(seq) }
}
