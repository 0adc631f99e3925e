use lapwing_client::{Outcome, Report, proto};

use super::*;

fn ledger() -> Ledger {
    let mut ledger = Ledger::new("t-run", vec!["a".into(), "b".into()]);
    let conversation = ledger.conversation("p2p.x", vec![0, 1]);
    for text in ["one", "two", "three"] {
        ledger.plan(conversation, 0, text.into(), String::new(), false);
    }
    ledger.ready();
    let answer = |entry, outcome| {
        ledger.sending(entry, 1);
        ledger.reported(
            entry,
            &Report { outcome, attempts: 1, codes: vec![], refusals: vec![], was_unknown: false },
        );
    };
    answer(0, Outcome::Accepted(proto::Published { seq: 2, ..Default::default() }));
    answer(1, Outcome::Rejected(proto::Error::default()));
    answer(2, Outcome::Unknown { code: 0, reason: String::new() });
    ledger
}

fn row<'a>(seq: u64, mid: &'a str, text: Option<&'a str>) -> Found<'a> {
    Found { conversation: "p2p.x", seq, sender: "a", client_mid: mid, text }
}

fn check(rows: &[Found<'_>]) -> Rows {
    let ledger = ledger();
    let mut check = Check::new(&ledger);
    rows.iter().for_each(|found| check.row(found));
    check.done()
}

// R-LT-6
#[test]
fn what_was_acknowledged_stands_once_and_nothing_else_does() {
    let rows = check(&[row(1, "", None), row(2, "t-run-0", Some("one"))]);
    assert_eq!((rows.rows, rows.messages, rows.details.len()), (2, 1, 0), "{rows:?}");
    let rows = check(&[row(1, "", None), row(2, "t-run-0", Some("one")), row(3, "t-run-2", Some("three"))]);
    assert_eq!((rows.unknown_present, rows.details.len()), (1, 0), "{rows:?}");
}

// R-LT-6, R-ACK-2
#[test]
fn every_kind_of_fault_is_found() {
    assert_eq!(check(&[]).missing, 1);
    assert_eq!(check(&[row(1, "t-run-0", Some("one"))]).mismatched, 1, "another seq");
    assert_eq!(check(&[row(2, "t-run-0", Some("One"))]).mismatched, 1, "another text");
    let mut other = row(2, "t-run-0", Some("one"));
    other.sender = "b";
    assert_eq!(check(&[other]).mismatched, 1, "another sender");
    let mut other = row(2, "t-run-0", Some("one"));
    other.conversation = "p2p.y";
    assert_eq!(check(&[other]).mismatched, 1, "another conversation");
    let twice = check(&[row(2, "t-run-0", Some("one")), row(3, "t-run-0", Some("one"))]);
    assert_eq!((twice.doubled, twice.missing), (1, 0));
    assert_eq!(check(&[row(2, "t-run-1", Some("two"))]).rejected_but_present, 1);
    assert_eq!(check(&[row(2, "t-else-1", Some("two"))]).foreign, 1);
    let hole = check(&[row(2, "t-run-0", Some("one")), row(4, "", None)]);
    assert_eq!(hole.broken_sequences, 1);
}
