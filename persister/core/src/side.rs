//! The topics beside the logs: cursors and session audit. They have no claims; their rows are maxima and upserts, so
//! reading a record twice changes nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use lapwing_proto::{
    Message as _,
    record::{AuditRecord, CursorRecord},
};

use crate::plan::Cursor;

pub const CURSOR_TOPIC: &str = "lapwing.cursor";
pub const AUDIT_TOPIC: &str = "lapwing.audit";

/// None: a tombstone of compaction. Err: nobody can parse it.
pub fn cursor(value: Option<Bytes>) -> Result<Option<Cursor>, String> {
    let Some(value) = value else { return Ok(None) };
    let record = CursorRecord::decode(value).map_err(|error| error.to_string())?;
    Ok(Some(Cursor {
        tenant: record.tenant,
        user: record.user,
        conversation: record.conversation,
        read_seq: record.read_seq,
        read_n: record.read_n,
        delivered_seq: record.delivered_seq,
    }))
}

pub fn audit(value: Option<Bytes>) -> Result<Option<AuditRecord>, String> {
    value.map(AuditRecord::decode).transpose().map_err(|error| error.to_string())
}

/// One row a session: opened and closed may come in either order, or in one batch.
pub fn merge_audits(records: impl IntoIterator<Item = AuditRecord>) -> Vec<AuditRecord> {
    let mut sessions: BTreeMap<String, AuditRecord> = BTreeMap::new();
    for record in records {
        match sessions.get_mut(&record.session) {
            Some(known) if record.closed_at_ms > known.closed_at_ms => {
                known.closed_at_ms = record.closed_at_ms;
                known.close_code = record.close_code;
            }
            Some(_) => {}
            None => {
                sessions.insert(record.session.clone(), record);
            }
        }
    }
    sessions.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compacted_away_cursor_is_nothing_and_junk_is_an_error() {
        assert_eq!(super::cursor(None), Ok(None));
        assert!(super::cursor(Some(Bytes::from_static(&[0xff, 0xff]))).is_err());
    }

    // R-PST-11
    #[test]
    fn opened_and_closed_of_a_session_are_one_row_in_any_order() {
        let opened = AuditRecord { session: "s".into(), opened_at_ms: 1, ..AuditRecord::default() };
        let closed = AuditRecord { closed_at_ms: 9, close_code: 1000, ..opened.clone() };
        for records in [[opened.clone(), closed.clone()], [closed.clone(), opened]] {
            assert_eq!(merge_audits(records), std::slice::from_ref(&closed));
        }
    }
}
