//! One partition of any topic that goes to MySQL: what each record means, and where the position stands after it.

use bytes::Bytes;
use lapwing_model::{Kind, Position, Void};
use lapwing_proto::record::AuditRecord;

use crate::{
    batch::{Judged, LogReader, Row, Stop, Unreadable},
    plan::Cursor,
    side,
};

/// Something to write. Each can be written alone, which is how a bad one is found.
#[derive(Debug, Clone)]
pub enum Item {
    Row(Box<Row>),
    Cursor { offset: u64, cursor: Cursor, raw: Bytes },
    Audit { offset: u64, record: Box<AuditRecord>, raw: Bytes },
    Unreadable(Unreadable),
}

impl Item {
    pub fn offset(&self) -> u64 {
        match self {
            Item::Row(row) => row.offset,
            Item::Cursor { offset, .. } | Item::Audit { offset, .. } => *offset,
            Item::Unreadable(unreadable) => unreadable.offset,
        }
    }

    pub fn raw(&self) -> &Bytes {
        match self {
            Item::Row(row) => &row.raw,
            Item::Cursor { raw, .. } | Item::Audit { raw, .. } => raw,
            Item::Unreadable(unreadable) => &unreadable.raw,
        }
    }

    /// The position when everything up to this item is written; `before` is the one without it.
    pub fn behind(&self, before: Position) -> Position {
        match self {
            Item::Row(row) => row.behind,
            _ => Position { offset: self.offset() + 1, ..before },
        }
    }
}

/// What one record brings.
#[derive(Debug, Default)]
pub struct Step {
    /// In log order.
    pub items: Vec<Item>,
    pub void: Option<Void>,
    /// Where the partition stands when the items are written.
    pub position: Position,
}

#[derive(Debug, Clone)]
pub enum TopicReader {
    Log(LogReader),
    Cursor(Position),
    Audit(Position),
}

impl TopicReader {
    /// None: nothing of this topic goes to MySQL.
    pub fn of(topic: &str, at: Position) -> Option<Self> {
        match topic {
            side::CURSOR_TOPIC => Some(Self::Cursor(at)),
            side::AUDIT_TOPIC => Some(Self::Audit(at)),
            _ => Kind::of_topic(topic).map(|_| Self::Log(LogReader::new(at))),
        }
    }

    /// A stretch of the log from `unreadable.offset` up to `next` that the client cannot decode.
    pub fn step_over(&mut self, unreadable: Unreadable, next: u64) -> Step {
        match self {
            Self::Log(reader) => {
                reader.hold(unreadable);
                Step { items: Vec::new(), void: None, position: reader.position() }
            }
            Self::Cursor(at) | Self::Audit(at) => {
                at.offset = next;
                Step { items: vec![Item::Unreadable(unreadable)], void: None, position: *at }
            }
        }
    }

    pub fn judge(&mut self, offset: u64, value: Option<Bytes>) -> Result<Step, Stop> {
        match self {
            Self::Log(reader) => {
                let (judged, settled) = reader.judge(offset, value)?;
                let mut items: Vec<Item> = settled.into_iter().map(Item::Unreadable).collect();
                let mut void = None;
                match judged {
                    Judged::Row(row) => items.push(Item::Row(row)),
                    Judged::Void(why) => void = Some(why),
                    Judged::NoRow | Judged::Held => {}
                }
                Ok(Step { items, void, position: reader.position() })
            }
            Self::Cursor(at) => {
                at.offset = offset + 1;
                let raw = value.clone().unwrap_or_default();
                let read = side::cursor(value)
                    .map(|cursor| cursor.map(|cursor| Item::Cursor { offset, cursor, raw: raw.clone() }));
                Ok(Step { items: side_items(offset, raw, read), void: None, position: *at })
            }
            Self::Audit(at) => {
                at.offset = offset + 1;
                let raw = value.clone().unwrap_or_default();
                let read = side::audit(value).map(|record| {
                    record.map(|record| Item::Audit { offset, record: Box::new(record), raw: raw.clone() })
                });
                Ok(Step { items: side_items(offset, raw, read), void: None, position: *at })
            }
        }
    }
}

fn side_items(offset: u64, raw: Bytes, read: Result<Option<Item>, String>) -> Vec<Item> {
    match read {
        Ok(item) => item.into_iter().collect(),
        Err(problem) => vec![Item::Unreadable(Unreadable { offset, raw, problem })],
    }
}

#[cfg(test)]
mod tests {
    use lapwing_proto::{Message as _, record::CursorRecord};

    use super::*;

    #[test]
    fn side_topics_move_by_offset_alone() {
        let mut reader = TopicReader::of("lapwing.cursor", Position::default()).unwrap();
        let record = CursorRecord { tenant: "t".into(), read_seq: 4, ..CursorRecord::default() };
        let step = reader.judge(7, Some(Bytes::from(record.encode_to_vec()))).unwrap();
        assert!(matches!(&step.items[..], [Item::Cursor { offset: 7, .. }]));
        assert_eq!(step.position, Position { offset: 8, epoch: -1, index: 0 });
        let step = reader.judge(8, Some(Bytes::from_static(&[0xff]))).unwrap();
        assert!(matches!(&step.items[..], [Item::Unreadable(_)]), "dead-lettered, not a stop");
        assert!(reader.judge(9, None).unwrap().items.is_empty());
        assert!(TopicReader::of("lapwing.tenants", Position::default()).is_none());
    }
}
