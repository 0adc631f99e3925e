//! From records of a log partition to rows: validity, and what to do with a record that nobody can parse.

use std::sync::Arc;

use bytes::Bytes;
use lapwing_model::{Position, Verdict, Void, bucket, record};
use lapwing_proto::record::Record;

use crate::shard;

/// A valid event on its way to MySQL.
#[derive(Debug, Clone)]
pub struct Row {
    pub offset: u64,
    /// The position behind this record, for a batch that is cut here.
    pub behind: Position,
    pub shard: u32,
    /// Its tenant's own table; None: the one of its shard.
    pub own_table: Option<Arc<str>>,
    pub record: Record,
    pub raw: Bytes,
}

impl Row {
    pub fn table(&self) -> String {
        self.own_table.as_deref().map_or_else(|| shard::table(self.shard), str::to_owned)
    }
}

/// A record that nobody can parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub offset: u64,
    pub raw: Bytes,
    pub problem: String,
}

/// What a record turned out to be.
#[derive(Debug)]
pub enum Judged {
    Row(Box<Row>),
    /// A claim, a beat or a move: it moves the position only.
    NoRow,
    Void(Void),
    /// Held back until the next readable record of the epoch tells whether it was part of the epoch.
    Held,
}

/// The partition cannot be read further without losing something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the unreadable record at offset {unreadable} was part of epoch {epoch}: record {offset} has index {index}, expected {expected}"
)]
pub struct Stop {
    pub unreadable: u64,
    pub epoch: i64,
    pub offset: u64,
    pub index: u64,
    pub expected: u64,
}

/// Follows one log partition by the rule of validity.
#[derive(Debug, Clone)]
pub struct LogReader {
    at: Position,
    held: Vec<Unreadable>,
    before_held: Position,
}

impl LogReader {
    pub fn new(at: Position) -> Self {
        Self { at, held: Vec::new(), before_held: at }
    }

    /// Everything before it is judged; it never stands behind a record that is held back.
    pub fn position(&self) -> Position {
        if self.held.is_empty() { self.at } else { self.before_held }
    }

    /// Something that cannot be read stands here.
    pub fn hold(&mut self, unreadable: Unreadable) {
        if self.held.is_empty() {
            self.before_held = self.at;
        }
        self.held.push(unreadable);
    }

    /// Judges the next record. The unreadable ones that it settles come along.
    pub fn judge(&mut self, offset: u64, value: Option<Bytes>) -> Result<(Judged, Vec<Unreadable>), Stop> {
        let read = match record::decode(offset, value.as_deref()) {
            Ok(read) => read,
            Err(error) => {
                self.hold(Unreadable { offset, raw: value.unwrap_or_default(), problem: error.to_string() });
                return Ok((Judged::Held, Vec::new()));
            }
        };
        let expected = self.at.index + 1;
        let verdict = record::follow(&mut self.at, offset, &read);
        if let (Verdict::Void(Void::Hole), Some(first)) = (verdict, self.held.first()) {
            return Err(Stop {
                unreadable: first.offset,
                epoch: self.at.epoch,
                offset,
                index: read.index,
                expected,
            });
        }
        if let Verdict::Void(void) = verdict {
            return Ok((Judged::Void(void), Vec::new()));
        }
        let settled = std::mem::take(&mut self.held);
        if verdict == Verdict::Claim || !record::is_event(&read) {
            return Ok((Judged::NoRow, settled));
        }
        // An id of no known kind has no bucket of its own; the one that it was written under still names a table.
        let bucket = bucket::bucket_of(&record::key_of(&read)).unwrap_or(read.bucket);
        let row = Row {
            offset,
            behind: self.at,
            shard: shard::of_bucket(bucket),
            own_table: None,
            record: read,
            raw: value.unwrap_or_default(),
        };
        Ok((Judged::Row(Box::new(row)), settled))
    }
}

/// Whether two records at one (tenant, conversation, seq) say the same.
pub fn same_content(one: &Record, other: &Record) -> bool {
    let what =
        |record: &Record| (record.sender.clone(), record.client_mid.clone(), record.n, record.countable);
    one.body == other.body && what(one) == what(other)
}

#[cfg(test)]
mod tests {
    use lapwing_proto::{
        Message as _,
        record::{Beat, Claim, Message, message, record::Body},
    };

    use super::*;

    fn value(record: &Record) -> Option<Bytes> {
        Some(Bytes::from(record.encode_to_vec()))
    }

    fn claim() -> Record {
        Record { body: Some(Body::Claim(Claim { nonce: 1, router: "r1".into() })), ..Record::default() }
    }

    fn message(epoch: u64, index: u64, seq: u64) -> Record {
        let body = Message { body: Some(message::Body::Text(format!("m{seq}"))), r#type: String::new() };
        Record {
            epoch,
            index,
            seq,
            n: seq,
            tenant: "t".into(),
            conversation: "grp.g".into(),
            sender: "a".into(),
            countable: true,
            body: Some(Body::Message(body)),
            ..Record::default()
        }
    }

    fn judge(reader: &mut LogReader, offset: u64, record: &Record) -> Judged {
        reader.judge(offset, value(record)).unwrap().0
    }

    // R-PST-2, I3
    #[test]
    fn only_valid_events_become_rows() {
        let mut reader = LogReader::new(Position::default());
        assert!(matches!(judge(&mut reader, 0, &message(0, 1, 1)), Judged::Void(Void::Epoch)));
        assert!(matches!(judge(&mut reader, 1, &claim()), Judged::NoRow));
        let Judged::Row(row) = judge(&mut reader, 2, &message(1, 1, 1)) else { panic!("valid") };
        assert_eq!(
            (row.offset, row.record.seq, row.behind),
            (2, 1, Position { offset: 3, epoch: 1, index: 1 })
        );
        assert!(matches!(judge(&mut reader, 3, &message(1, 1, 1)), Judged::Void(Void::Doubled)));
        let beat = Record { epoch: 1, index: 2, body: Some(Body::Beat(Beat {})), ..Record::default() };
        assert!(matches!(judge(&mut reader, 4, &beat), Judged::NoRow));
        assert!(matches!(judge(&mut reader, 5, &message(1, 4, 3)), Judged::Void(Void::Hole)));
        assert_eq!(reader.position(), Position { offset: 6, epoch: 1, index: 2 });
    }

    #[test]
    fn an_unreadable_record_is_passed_only_if_the_epoch_goes_on_without_it() {
        let mut reader = LogReader::new(Position::default());
        judge(&mut reader, 0, &claim());
        judge(&mut reader, 1, &message(0, 1, 1));
        let at = reader.position();
        assert!(matches!(reader.judge(2, None).unwrap().0, Judged::Held));
        assert!(matches!(judge(&mut reader, 3, &message(9, 1, 1)), Judged::Void(Void::Epoch)));
        assert_eq!(reader.position(), at, "a restart meets the unreadable record again");
        let mut other = reader.clone();

        let (judged, settled) = reader.judge(4, value(&message(0, 2, 2))).unwrap();
        assert!(matches!(judged, Judged::Row(_)));
        assert_eq!(settled.iter().map(|u| u.offset).collect::<Vec<_>>(), [2]);
        assert_eq!(reader.position(), Position { offset: 5, epoch: 0, index: 2 });

        let stop = other.judge(4, value(&message(0, 3, 3))).unwrap_err();
        assert_eq!((stop.unreadable, stop.offset, stop.expected, stop.index), (2, 4, 2, 3));
    }

    #[test]
    fn content_is_compared_without_where_it_stands_in_the_log() {
        let (one, mut other) = (message(1, 5, 7), message(9, 2, 7));
        assert!(same_content(&one, &other));
        other.sender = "b".into();
        assert!(!same_content(&one, &other));
    }
}
