//! Samples of what tells of dead letters.

use lapwing_proto::{bus, record as r};

use crate::samples::{Sample, sample};

pub(crate) fn all() -> Vec<Sample> {
    let letter = r::DeadLetterRecord {
        topic: "lapwing.group".into(),
        partition: 4,
        offset: 1016,
        tenant: "demo".into(),
        conversation: "grp.lobby".into(),
        seq: 41,
        error_code: 1264,
        error: "Out of range value for column 'seq' at row 1".into(),
        payload: vec![8, 232, 7].into(),
        payload_bytes: 3,
        died_at_ms: 1_796_000_000_123,
    };
    let partition = Some(bus::PartitionId { topic: "lapwing.group".into(), partition: 4 });
    vec![
        sample("dead_letter_record", "full", &letter),
        sample("dead_ask", "full", &bus::DeadAsk { partition, from: 1000, to: 1018 }),
        sample("dead_reply", "full", &bus::DeadReply { offsets: vec![1016], more: true, error: None }),
    ]
}
