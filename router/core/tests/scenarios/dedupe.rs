//! What is sent again: joined, told its seq, or refused (R-ACK-1, R-ACK-4).

use lapwing_router_core::{Load, Options, Own};

use crate::rig::{Rig, Told, item, refused};

// R-PERM-2, R-ACK-1
#[test]
fn a_p2p_conversation_is_created_once_then_takes_publishes() {
    let mut rig = Rig::serving();
    let (id, first) = rig.ensure_p2p("alice", "bob");
    let (_, again) = rig.ensure_p2p("bob", "alice");
    rig.settle();
    assert_eq!((rig.changed(first), rig.changed(again)), ((1, true), (1, false)));
    let sent = rig.publish(&id, "alice", "m1");
    rig.settle();
    assert_eq!(rig.told(sent), Told::Accepted(2));
    assert_eq!(rig.seqs(&id), [1, 2]);
}

// R-ACK-1: 404, 403; a p2p conversation of two others answers like one that does not exist.
#[test]
fn strangers_are_refused_and_nothing_is_produced() {
    let mut rig = Rig::with_group(&["alice"]);
    let (p2p, _) = rig.ensure_p2p("alice", "bob");
    rig.settle();
    let produced = rig.log.len();
    let unknown = rig.publish("grp.none", "alice", "m1");
    let group = rig.publish("grp.g", "eve", "m2");
    let other = rig.publish(&p2p, "eve", "m3");
    rig.settle();
    assert_eq!(rig.told(unknown), refused("not_found"));
    assert_eq!(rig.told(group), refused("forbidden"));
    assert_eq!(rig.told(other), refused("not_found"));
    assert_eq!(rig.log.len(), produced);
}

// R-ACK-4
#[test]
fn a_retry_of_a_stored_message_gets_its_seq_from_memory_and_from_the_window() {
    let mut rig = Rig::with_group(&["alice"]);
    let first = rig.publish("grp.g", "alice", "m1");
    rig.settle();
    let again = rig.retry("grp.g", "alice", "m1");
    assert_eq!((rig.told(first), rig.told(again)), (Told::Accepted(2), Told::Duplicate(2)));
    rig.apply();
    // The next tenure knows of it by the view alone.
    let mut next = Rig::idle(Options::new("r7"));
    next.log = rig.log;
    next.view = rig.view;
    next.take_over();
    next.settle();
    let retry = next.retry("grp.g", "alice", "m1");
    next.settle();
    assert_eq!(next.told(retry), Told::Duplicate(2));
    // Marked as a first attempt by mistake: the client_mid's own key tells that it is none.
    next.own = Own::SameContent;
    let first = next.publish("grp.g", "alice", "m1");
    next.settle();
    assert_eq!(next.told(first), Told::Duplicate(2));
    assert_eq!(next.log.len(), 4, "claim, created, m1, claim");
}

// R-ACK-4: the lookup of a stored message comes before permission.
#[test]
fn a_removed_member_still_gets_the_seq_of_what_was_stored() {
    let mut rig = Rig::with_group(&["alice", "bob"]);
    rig.publish("grp.g", "alice", "m1");
    rig.remove("grp.g", &["alice"]);
    rig.settle();
    let again = rig.retry("grp.g", "alice", "m1");
    let new = rig.publish("grp.g", "alice", "m2");
    rig.settle();
    assert_eq!((rig.told(again), rig.told(new)), (Told::Duplicate(2), refused("forbidden")));
}

// R-ACK-4: a pending one is joined, from the moment its lookup starts.
#[test]
fn a_retry_joins_what_is_pending_and_both_are_answered_by_one_record() {
    let mut rig = Rig::with_group(&["alice"]);
    let first = rig.publish("grp.g", "alice", "m1");
    let early = rig.retry("grp.g", "alice", "m1");
    rig.answer_lookups();
    let late = rig.retry("grp.g", "alice", "m1");
    assert!(rig.waits(first) && rig.waits(early) && rig.waits(late));
    rig.settle();
    assert_eq!(rig.told(first), Told::Accepted(2));
    assert_eq!((rig.told(early), rig.told(late)), (Told::Duplicate(2), Told::Duplicate(2)));
    assert_eq!(rig.seqs("grp.g"), [1, 2]);
}

// R-ACK-4: 409
#[test]
fn other_content_under_a_stored_client_mid_is_a_conflict() {
    let mut rig = Rig::with_group(&["alice"]);
    rig.publish("grp.g", "alice", "m1");
    let pending = rig.batch("grp.g", "alice", vec![item("m1", "else", 1)]);
    assert_eq!(rig.told(pending), refused("not_ready"), "it rests on a pending message");
    rig.settle();
    let stored = rig.batch("grp.g", "alice", vec![item("m1", "else", 1)]);
    rig.settle();
    assert_eq!(rig.told(stored), refused("client_mid_conflict"));
}

// R-ACK-4, R-SEQ-7: in another conversation
#[test]
fn a_client_mid_used_in_another_conversation_is_a_conflict_after_the_window_was_read() {
    let mut rig = Rig::with_group(&["alice"]);
    rig.own = Own::OtherContent;
    let sent = rig.publish("grp.g", "alice", "m1");
    let first = rig.lookups.pop_front().unwrap();
    assert_eq!(first.load.as_ref().and_then(|load| load.mid), None, "a first attempt needs no window");
    rig.answer(&first);
    assert!(rig.waits(sent));
    assert!(rig.lookups[0].load.as_ref().unwrap().mid.is_some(), "known elsewhere: the window is asked");
    rig.settle();
    assert_eq!(rig.told(sent), refused("client_mid_conflict"));
    // Unreadable: nothing definite.
    let unreadable = rig.publish("grp.g", "alice", "m2");
    rig.answer_lookups_with(Load::Unavailable);
    assert_eq!(rig.told(unreadable), refused("not_ready"));
}

// R-ACK-4, R-SEQ-7, R-SEQ-9: Redis down.
#[test]
fn while_the_window_cannot_be_read_first_attempts_pass_and_retries_wait() {
    let mut rig = Rig::with_group(&["alice"]);
    rig.publish("grp.g", "alice", "m0");
    rig.settle();
    rig.own = Own::Skipped;
    let first = rig.publish("grp.g", "alice", "m1");
    let retry = rig.retry("grp.g", "alice", "m2");
    let known = rig.retry("grp.g", "alice", "m0");
    rig.answer_lookups_with(Load::Unavailable);
    rig.settle();
    assert_eq!(rig.told(first), Told::Accepted(3));
    assert_eq!(rig.told(retry), refused("not_ready"));
    assert_eq!(rig.told(known), Told::Duplicate(2), "memory knows it");
}

// R-ACK-6: bounded.
#[test]
fn more_than_the_bound_in_hand_is_overloaded_and_a_joining_retry_is_not() {
    let mut rig = Rig::idle(Options { max_entries: 2, ..Options::new("r7") });
    rig.take_over();
    rig.settle();
    rig.create("grp.g", &["alice"]);
    rig.settle();
    rig.publish("grp.g", "alice", "m1");
    let second = rig.publish("grp.g", "alice", "m2");
    let third = rig.publish("grp.g", "alice", "m3");
    assert_eq!(rig.told(third), refused("overloaded"));
    let joined = rig.retry("grp.g", "alice", "m2");
    rig.settle();
    assert_eq!((rig.told(second), rig.told(joined)), (Told::Accepted(3), Told::Duplicate(3)));
}

#[test]
fn an_empty_batch_is_answered() {
    let mut rig = Rig::serving();
    let empty = rig.batch("grp.g", "alice", Vec::new());
    assert_eq!(rig.told_all(empty), []);
}

// What is asked of the window before a message was stored says nothing about it: memory has to keep it that long.
#[test]
fn the_dedupe_memory_outlives_the_lookups_that_were_asked_before() {
    let options = Options { recent_mids: 0, ..Options::new("r7") };
    let mut rig = Rig::idle(options);
    rig.take_over();
    rig.settle();
    rig.create("grp.g", &["alice"]);
    rig.settle();
    rig.apply();
    // In doubt it claims again; a retry comes and asks the window, which does not have the message.
    let epoch = rig.epoch();
    rig.fail(epoch);
    let retry = rig.retry("grp.g", "alice", "m1");
    let lookup = rig.lookups.pop_front().unwrap();
    let before = rig.load(&lookup);
    // Meanwhile another router owned it for a moment and accepted that message; the view took it.
    let own_claim = rig.wire.pop_front().unwrap();
    rig.foreign_epoch(99, &[("grp.g", "alice", "m1", 2)]);
    rig.log.push(own_claim.record);
    rig.read_back();
    rig.acknowledge();
    rig.apply();
    rig.pass(1);
    rig.answer_with(&lookup, before);
    rig.settle();
    assert_eq!(rig.told(retry), Told::Duplicate(2));
    assert_eq!(rig.seqs("grp.g"), [1, 2]);
}

/// One message is stored and forgotten; its first attempt comes only now, behind the retry, and nobody set its key.
fn overtaken(late_by: u64) -> (Rig, lapwing_router_core::RequestId) {
    let options = Options { recent_mids: 0, mids_ms: 1000, ..Options::new("r7") };
    let mut rig = Rig::idle(options);
    rig.take_over();
    rig.settle();
    rig.create("grp.g", &["alice"]);
    rig.settle();
    rig.own = Own::Skipped;
    rig.retry("grp.g", "alice", "m1");
    rig.settle();
    rig.apply();
    rig.wait(2000);
    rig.pass(1);
    let first = rig.late_batch("grp.g", "alice", vec![item("m1", "m1", 1)], late_by);
    (rig, first)
}

// R-ACK-4, R-SEQ-7: a first attempt that may have been overtaken by its own retry counts as one.
#[test]
fn a_first_attempt_behind_its_own_retry_is_found_in_the_window_even_if_its_key_was_skipped() {
    let (mut rig, first) = overtaken(2100);
    rig.settle();
    assert_eq!(rig.told(first), Told::Duplicate(2));
    assert_eq!(rig.seqs("grp.g"), [1, 2]);

    let (mut rig, first) = overtaken(2100);
    rig.answer_lookups_with(Load::Unavailable);
    assert_eq!(rig.told(first), refused("not_ready"), "Redis is down: it waits as a retry does");
}

// R-SEQ-9: what was sent lately passes without the window, also while Redis is down.
#[test]
fn a_first_attempt_that_was_sent_after_all_that_memory_forgot_needs_no_window() {
    let (mut rig, _) = overtaken(2100);
    rig.answer_lookups();
    rig.wait(6000);
    let fresh = rig.publish("grp.g", "alice", "m2");
    assert!(rig.lookups.iter().all(|of| of.load.as_ref().is_none_or(|load| load.mid.is_none())));
    rig.answer_lookups();
    rig.settle();
    assert_eq!(rig.told(fresh), Told::Accepted(3));
    let unknown_age = rig.late_batch("grp.g", "alice", vec![item("m3", "m3", 1)], rig.now.wall);
    assert!(rig.lookups[0].load.as_ref().unwrap().mid.is_some(), "without its time it counts as a retry");
    rig.settle();
    assert_eq!(rig.told(unknown_age), Told::Accepted(4));
}

// The memory of what was stored lately does not depend on how many there were.
#[test]
fn young_client_mids_stay_in_memory_beyond_their_number() {
    let options = Options { recent_mids: 1, ..Options::new("r7") };
    let mut rig = Rig::idle(options);
    rig.take_over();
    rig.settle();
    rig.create("grp.g", &["alice"]);
    rig.settle();
    for mid in ["m1", "m2", "m3"] {
        rig.publish("grp.g", "alice", mid);
    }
    rig.settle();
    rig.apply();
    rig.pass(1);
    let known = rig.late_batch("grp.g", "alice", vec![item("m1", "m1", 1)], 900);
    assert_eq!(rig.told(known), Told::Duplicate(2), "from memory");
    rig.wait(6001);
    rig.pass(1);
    let forgotten = rig.late_batch("grp.g", "alice", vec![item("m1", "m1", 1)], 900);
    assert!(rig.waits(forgotten), "the window is asked");
    rig.settle();
    assert_eq!(rig.told(forgotten), Told::Duplicate(2));
}
