//! One Kafka partition: appends in order per producer, delayed, doubled, lost, reported as failed rightly or not.

use std::collections::BTreeMap;

use bytes::Bytes;
use lapwing_model::{Position, Rule, Verdict, record};
use lapwing_proto::record::Record;

pub(crate) struct Sent {
    pub(crate) slot: usize,
    pub(crate) epoch: u64,
    pub(crate) value: Bytes,
}

pub(crate) struct Log {
    /// Of all readers.
    pub(crate) rule: Rule,
    records: Vec<Option<Bytes>>,
    /// The position before each offset, and behind the last.
    positions: Vec<Position>,
    /// Offset and record of each valid event, by conversation and seq.
    pub(crate) valid: BTreeMap<(String, u64), Vec<u64>>,
    /// On their way: by the producer's tenure, in order.
    pub(crate) wires: BTreeMap<u64, Vec<Sent>>,
}

impl Log {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            records: Vec::new(),
            positions: Vec::new(),
            valid: BTreeMap::new(),
            wires: BTreeMap::new(),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    /// `None`: bytes that nobody can read.
    pub(crate) fn append(&mut self, value: Option<Bytes>) -> u64 {
        let offset = self.len();
        let mut at = self.end();
        self.records.push(value);
        match self.get(offset) {
            Ok(record) => {
                if record::follow_by(self.rule, &mut at, offset, &record) == Verdict::Valid
                    && record::is_event(&record)
                {
                    self.valid.entry((record.conversation, record.seq)).or_default().push(offset);
                }
            }
            Err(_) => at.offset = offset + 1,
        }
        self.positions.push(at);
        offset
    }

    pub(crate) fn value(&self, offset: u64) -> Option<Bytes> {
        self.records[offset as usize].clone()
    }

    pub(crate) fn get(&self, offset: u64) -> Result<Record, record::BadRecord> {
        record::decode(offset, self.records[offset as usize].as_deref())
    }

    /// The position in front of an offset.
    pub(crate) fn position(&self, offset: u64) -> Position {
        match offset.checked_sub(1) {
            Some(before) => self.positions[before as usize],
            None => Position::default(),
        }
    }

    pub(crate) fn end(&self) -> Position {
        self.position(self.len())
    }

    /// The valid events in order.
    pub(crate) fn events(&self) -> Vec<(u64, Record)> {
        let mut offsets: Vec<u64> = self.valid.values().flatten().copied().collect();
        offsets.sort_unstable();
        offsets.into_iter().filter_map(|offset| Some((offset, self.get(offset).ok()?))).collect()
    }

    pub(crate) fn send(&mut self, tenure: u64, sent: Sent) {
        self.wires.entry(tenure).or_default().push(sent);
    }

    /// The next one of a producer.
    pub(crate) fn take(&mut self, tenure: u64) -> Option<Sent> {
        let wire = self.wires.get_mut(&tenure)?;
        let sent = (!wire.is_empty()).then(|| wire.remove(0));
        if wire.is_empty() {
            self.wires.remove(&tenure);
        }
        sent
    }
}
