use lapwing_client::proto::{Error, Published};

use super::*;

fn ledger() -> Ledger {
    let mut ledger = Ledger::new("t-run", vec!["a".into(), "b".into()]);
    let conversation = ledger.conversation("p2p.x", vec![0, 1]);
    for text in ["one", "two", "three"] {
        ledger.plan(conversation, 0, text.into(), String::new(), false);
    }
    ledger.ready();
    ledger
}

fn report(outcome: Outcome, codes: &[u32], was_unknown: bool) -> Report {
    Report { outcome, attempts: codes.len() as u32, codes: codes.to_vec(), refusals: Vec::new(), was_unknown }
}

fn accepted(seq: u64) -> Outcome {
    Outcome::Accepted(Published { seq, ..Default::default() })
}

// R-LT-3
#[test]
fn five_states_are_told_apart() {
    let ledger = ledger();
    (0..3).for_each(|entry| ledger.sending(entry, 5));
    assert_eq!((ledger.in_flight(), ledger.tally().in_flight), (3, 3));
    ledger.reported(0, &report(accepted(2), &[202], false));
    ledger.reported(1, &report(Outcome::Rejected(Error { code: 403, ..Default::default() }), &[403], false));
    ledger.reported(2, &report(Outcome::Unknown { code: 0, reason: String::new() }, &[0, 1], true));
    assert!(ledger.saw(0, 3, 2, "receiver"));
    let tally = ledger.tally();
    assert_eq!((tally.acked, tally.rejected, tally.unknown, tally.in_flight), (1, 1, 1, 0));
    assert_eq!((tally.unacked_but_observed, tally.was_unknown, tally.retried), (1, 1, 1));
    assert_eq!(ledger.with_stand(Stand::Unknown), [2]);
    let codes = ledger.codes.lock().clone();
    assert_eq!(codes, HashMap::from([(403, 1), (0, 1), (1, 1)]));
}

// R-LT-3: an unknown that is settled by a retry ends acked and stays counted.
#[test]
fn a_settled_unknown_is_acked_and_remembered() {
    let ledger = ledger();
    ledger.sending(0, 5);
    ledger.reported(0, &report(Outcome::Unknown { code: 0, reason: String::new() }, &[0], true));
    ledger.reported(0, &report(Outcome::Duplicate(Published { seq: 2, ..Default::default() }), &[200], true));
    let tally = ledger.tally();
    assert_eq!((tally.acked, tally.unknown, tally.was_unknown), (1, 0, 1));
    assert_eq!(ledger.in_flight(), 0);
}

// R-SEQ-11
#[test]
fn a_message_that_overtook_an_earlier_one_of_its_sender_is_found() {
    let ledger = ledger();
    for (entry, seq) in [(0, 2), (1, 4), (2, 3)] {
        ledger.sending(entry, 5);
        ledger.entries[entry as usize].sent.store(u64::from(entry) * 2 * AT_ONCE_NANOS + 1, Relaxed);
        ledger.reported(entry, &report(accepted(seq), &[202], false));
    }
    let overtaken = ledger.overtaken();
    assert_eq!(overtaken.len(), 1);
    assert!(overtaken[0].ends_with("t-run-1 is seq 4, t-run-2 behind it seq 3"), "{overtaken:?}");
    ledger.entries[2].sent.store(2 * AT_ONCE_NANOS + 7, Relaxed);
    assert!(ledger.overtaken().is_empty(), "sent in the same moment");
}

// R-SEQ-9: one seq, one message, whoever looks.
#[test]
fn two_messages_at_one_seq_are_a_fault() {
    let ledger = ledger();
    assert!(ledger.saw(0, 2, 0, "a"));
    assert!(ledger.saw(0, 2, 0, "b"));
    assert!(!ledger.saw(0, 2, 1, "b"));
    assert!(!ledger.saw(0, 100_000, 1, "b"));
    assert_eq!((ledger.mismatched.load(Relaxed), ledger.unexpected.load(Relaxed)), (1, 1));
    assert_eq!(ledger.faults().len(), 2);
    assert_eq!((ledger.at(0, 2), ledger.at(0, 3)), (Some(0), None));
    assert_eq!(ledger.observed(0).collect::<Vec<_>>(), [(2, 0)]);
}

#[test]
fn a_client_mid_leads_back_to_its_entry() {
    let ledger = ledger();
    assert_eq!(ledger.entry_of(&ledger.client_mid(2)), Some(2));
    for foreign in ["t-run-3", "t-run-", "t-run", "t-other-0", "", "t-run-zz"] {
        assert_eq!(ledger.entry_of(foreign), None, "{foreign}");
    }
}

// R-LT-4: from the intended time, so that a stall of the sender shows.
#[test]
fn latency_counts_from_the_intended_time() {
    let ledger = ledger();
    std::thread::sleep(std::time::Duration::from_millis(20));
    ledger.sending(0, 1);
    ledger.reported(0, &report(accepted(2), &[202], false));
    assert!(ledger.ack_micros()[0] >= 20_000);
}

#[test]
fn in_flight_at_a_moment_is_what_had_been_sent_and_not_answered() {
    let ledger = ledger();
    ledger.sending(0, 1);
    ledger.sending(1, 1);
    ledger.reported(0, &report(accepted(2), &[202], false));
    let at = ledger.now();
    ledger.sending(2, 1);
    ledger.reported(1, &report(accepted(3), &[202], false));
    assert_eq!(ledger.in_flight_at(at), 1);
}
