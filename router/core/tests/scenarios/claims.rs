//! Claims, doubt, and the change of owners (R-SEQ-6, R-SEQ-10; invariants I1–I3).

use lapwing_router_core::{Effect, Options, State};

use crate::rig::{NONCE, Rig, Told, claim, message};

// R-SEQ-10: a zombie's records are void and it never answers for them.
#[test]
fn deposed_by_a_foreign_claim_it_redirects_what_was_pending_and_answers_nothing_more() {
    let mut rig = Rig::with_group(&["alice"]);
    let stands = rig.publish("grp.g", "alice", "m1");
    let void = rig.publish("grp.g", "alice", "m2");
    let looking = rig.publish("grp.g", "alice", "m3");
    let last = rig.lookups.pop_back().unwrap();
    rig.answer_lookups();
    let late = rig.wire.pop_back().unwrap();
    rig.append_all();
    rig.log.push(claim(99));
    rig.log.push(late.record);
    rig.acknowledge();
    rig.read_back();
    assert_eq!(rig.told(stands), Told::Accepted(2), "it stood before the claim");
    assert_eq!((rig.told(void), rig.told(looking)), (Told::NotOwner, Told::NotOwner));
    assert_eq!((rig.core.state(), rig.stepped_down()), (State::Idle, true));
    rig.answer(&last);
    rig.core.produced(9, rig.now);
    rig.fail(0);
    rig.pass(100_000);
    let after = rig.publish("grp.g", "alice", "m4");
    assert_eq!(rig.told(after), Told::NotOwner);
    assert!(rig.wire.is_empty() && rig.lookups.is_empty());
}

// I1, R-ACK-1: it stands, but another one answers for it: not a redirect, which would call it void.
#[test]
fn of_what_was_read_but_not_acknowledged_before_a_foreign_claim_nothing_is_said() {
    let mut rig = Rig::with_group(&["alice"]);
    let sent = rig.publish("grp.g", "alice", "m1");
    rig.answer_lookups();
    rig.append_all();
    rig.log.push(claim(99));
    rig.read_back();
    assert_eq!(rig.told(sent), Told::Nothing);
    assert_eq!(rig.seqs("grp.g"), [1]);
}

// R-SEQ-6: inherited records count once the claim behind them is acknowledged.
#[test]
fn inherited_records_are_released_only_after_the_claims_acknowledgement() {
    let mut rig = Rig::idle(Options::new("r7"));
    rig.foreign_epoch(99, &[("grp.g", "alice", "m1", 1), ("grp.g", "alice", "m2", 2)]);
    rig.take_over();
    rig.append_all();
    rig.read_back();
    assert_eq!(rig.core.state(), State::Claiming);
    assert!(rig.released.is_empty(), "read, not acknowledged");
    rig.acknowledge();
    assert_eq!((rig.core.state(), rig.seqs("grp.g")), (State::Serving { epoch: 3 }, vec![1, 2]));
    let sent = rig.retry("grp.g", "alice", "m2");
    assert_eq!(rig.told(sent), Told::Duplicate(2), "the inherited dedupe memory counts");
}

// R-SEQ-10: the wish to own reads on over foreign claims; only the own nonce is adopted.
#[test]
fn a_waiting_claim_reads_on_over_foreign_ones() {
    let mut rig = Rig::idle(Options::new("r7"));
    rig.take_over();
    rig.foreign_epoch(99, &[("grp.g", "alice", "m1", 1)]);
    rig.log.push(claim(98));
    rig.read_back();
    assert_eq!(rig.core.state(), State::Claiming);
    assert!(!rig.stepped_down());
    rig.settle();
    assert_eq!(rig.core.state(), State::Serving { epoch: 3 });
    assert_eq!(rig.seqs("grp.g"), [1]);
}

// Read but not acknowledged yet, then deposed: never served.
#[test]
fn a_claim_that_is_deposed_before_its_acknowledgement_never_serves() {
    let mut rig = Rig::idle(Options::new("r7"));
    rig.take_over();
    rig.append_all();
    rig.log.push(claim(99));
    rig.read_back();
    assert!(rig.stepped_down());
    rig.acknowledge();
    assert!(!rig.others.iter().any(|effect| matches!(effect, Effect::Serving { .. })));
}

// I3: the later one of a doubled claim is the epoch, what is pending is sequenced anew.
#[test]
fn a_doubled_own_claim_sequences_anew_what_is_pending() {
    let mut rig = Rig::with_group(&["alice"]);
    let stands = rig.publish("grp.g", "alice", "m1");
    let void = rig.publish("grp.g", "alice", "m2");
    rig.answer_lookups();
    let late = rig.wire.pop_back().unwrap();
    rig.append_all();
    rig.log.push(claim(NONCE));
    rig.log.push(late.record);
    let epoch = 3;
    rig.acknowledge();
    rig.read_back();
    assert_eq!(rig.core.state(), State::Serving { epoch });
    assert_eq!(rig.told(stands), Told::Accepted(2));
    assert_eq!((rig.wire.len(), rig.wire[0].epoch, rig.wire[0].index), (1, epoch, 1));
    rig.settle();
    assert_eq!(rig.told(void), Told::Accepted(3));
    assert_eq!(rig.seqs("grp.g"), [1, 2, 3]);
}

// I3, R-SEQ-6: what follows a hole is void until the next claim; no seq gap outlives it.
#[test]
fn behind_a_hole_it_claims_again_and_gives_the_same_seqs_in_the_same_order() {
    let mut rig = Rig::with_group(&["alice"]);
    let sent = ["m1", "m2", "m3"].map(|mid| rig.publish("grp.g", "alice", mid));
    rig.answer_lookups();
    rig.wire.remove(1);
    rig.append_all();
    rig.read_back();
    rig.acknowledge();
    assert_eq!(rig.told(sent[0]), Told::Accepted(2));
    assert_eq!(rig.core.state(), State::Claiming);
    // What comes meanwhile waits behind what is pending, and a retry joins.
    let (meanwhile, joined) = (rig.publish("grp.g", "alice", "m4"), rig.retry("grp.g", "alice", "m2"));
    assert_eq!((rig.wire.len(), rig.wire[0].index), (1, 0), "a claim and nothing else");
    rig.settle();
    assert_eq!((rig.told(sent[1]), rig.told(joined)), (Told::Accepted(3), Told::Duplicate(3)));
    assert_eq!((rig.told(sent[2]), rig.told(meanwhile)), (Told::Accepted(4), Told::Accepted(5)));
    assert_eq!(rig.seqs("grp.g"), [1, 2, 3, 4, 5]);
}

// The append that was thought lost arrives before the claim: it fills the hole and is answered, not doubled.
#[test]
fn a_late_append_before_the_new_claim_is_accepted_and_not_sent_again() {
    let mut rig = Rig::with_group(&["alice"]);
    let sent = ["m1", "m2"].map(|mid| rig.publish("grp.g", "alice", mid));
    rig.answer_lookups();
    let late = rig.wire.pop_front().unwrap();
    rig.append_all();
    rig.read_back();
    assert_eq!(rig.core.state(), State::Claiming);
    rig.log.push(late.record);
    rig.settle();
    assert_eq!((rig.told(sent[0]), rig.told(sent[1])), (Told::Accepted(2), Told::Accepted(3)));
    assert_eq!(rig.log.iter().filter(|record| record.client_mid == "m1").count(), 1);
}

// Doubt: while it waited, another owner accepted the same message: the answer is that one's seq.
#[test]
fn what_another_owner_accepted_meanwhile_is_a_duplicate_when_it_is_admitted_again() {
    let mut rig = Rig::with_group(&["alice"]);
    let sent = rig.publish("grp.g", "alice", "m1");
    rig.answer_lookups();
    let epoch = rig.epoch();
    rig.wire.clear();
    rig.fail(epoch);
    rig.foreign_epoch(99, &[("grp.g", "bob", "b1", 2), ("grp.g", "alice", "m1", 3)]);
    rig.settle();
    assert_eq!(rig.told(sent), Told::Duplicate(3));
    assert_eq!(rig.seqs("grp.g"), [1, 2, 3]);
}

// R-SEQ-10: the first claim after a doubt is immediate, the next ones wait longer and longer.
#[test]
fn failed_produces_claim_again_with_a_backoff() {
    let mut rig = Rig::with_group(&["alice"]);
    let sent = rig.publish("grp.g", "alice", "m1");
    rig.answer_lookups();
    rig.wire.clear();
    let epoch = rig.epoch();
    rig.fail(epoch);
    rig.fail(epoch);
    assert_eq!(rig.wire.len(), 1, "one claim, at once, whatever fails beside it");
    for wait in [2000, 4000, 8000, 16_000, 30_000] {
        rig.wire.clear();
        rig.fail(0);
        rig.pass(wait - 1);
        assert!(rig.wire.is_empty(), "before {wait} ms");
        rig.pass(1);
        assert_eq!(rig.wire.len(), 1, "after {wait} ms");
    }
    rig.settle();
    assert_eq!(rig.told(sent), Told::Accepted(2));
}

// A final failure of the claim itself, reported after the claim was read: no acknowledgement will come for it.
#[test]
fn a_claim_that_stands_but_was_reported_as_failed_is_claimed_again() {
    let mut rig = Rig::idle(Options::new("r7"));
    rig.take_over();
    rig.append_all();
    rig.read_back();
    rig.fail(0);
    rig.pass(2000);
    assert_eq!(rig.wire.len(), 1);
    rig.settle();
    assert_eq!(rig.core.state(), State::Serving { epoch: 1 });
}

#[test]
fn a_foreign_claim_while_it_only_waits_to_claim_again_ends_the_tenure() {
    let mut rig = Rig::with_group(&["alice"]);
    let sent = rig.publish("grp.g", "alice", "m1");
    rig.answer_lookups();
    let epoch = rig.epoch();
    rig.wire.clear();
    rig.fail(epoch);
    rig.wire.clear();
    rig.fail(0);
    rig.log.push(claim(99));
    rig.read_back();
    assert!(rig.stepped_down());
    assert_eq!(rig.told(sent), Told::NotOwner);
}

// Doubt: silence counts as failure, once.
#[test]
fn a_record_that_is_not_read_back_in_time_leads_to_one_claim() {
    let mut rig = Rig::with_group(&["alice"]);
    let sent = rig.publish("grp.g", "alice", "m1");
    rig.answer_lookups();
    rig.wire.clear();
    rig.pass(60_000);
    assert!(rig.wire.is_empty());
    rig.pass(1);
    rig.pass(1);
    rig.pass(3000);
    assert_eq!(rig.wire.len(), 1, "the claim is on its way, the old record says no more");
    rig.settle();
    assert_eq!(rig.told(sent), Told::Accepted(2));
}

// Read back, but its acknowledgement is silent: nothing else would end that.
#[test]
fn a_record_that_is_not_acknowledged_in_time_leads_to_a_claim_that_settles_it() {
    let mut rig = Rig::with_group(&["alice"]);
    let sent = rig.publish("grp.g", "alice", "m1");
    rig.answer_lookups();
    rig.append_all();
    rig.read_back();
    rig.pass(60_000);
    assert!(rig.wire.is_empty());
    rig.pass(1);
    assert_eq!(rig.wire.len(), 1);
    rig.settle();
    assert_eq!(rig.told(sent), Told::Accepted(2));
    assert_eq!(rig.log.iter().filter(|record| record.client_mid == "m1").count(), 1);
}

// A record nobody can parse: what follows is void for all, and the owner sequences it anew.
#[test]
fn an_unreadable_own_record_is_a_hole() {
    let mut rig = Rig::with_group(&["alice"]);
    let sent = ["m1", "m2"].map(|mid| rig.publish("grp.g", "alice", mid));
    rig.answer_lookups();
    rig.append_all();
    let bad = lapwing_model::record::decode(2, None);
    rig.core.read(2, bad.map(|_| message(0, 0, ("grp.g", "alice", "m1"), 0)), rig.now);
    rig.read_back();
    rig.settle();
    assert!(
        rig.others.iter().any(|effect| matches!(effect, Effect::Alarm(text) if text.contains("record 2")))
    );
    assert_eq!((rig.told(sent[0]), rig.told(sent[1])), (Told::Accepted(2), Told::Accepted(3)));
}

// R-SEQ-10: a graceful hand-over finishes what is in hand and takes nothing new.
#[test]
fn a_release_finishes_what_is_in_hand() {
    let mut rig = Rig::with_group(&["alice"]);
    let in_flight = rig.publish("grp.g", "alice", "m1");
    rig.answer_lookups();
    let looking = rig.publish("grp.g", "alice", "m2");
    rig.core.release(rig.now);
    rig.pump();
    assert!(matches!(rig.core.state(), State::Releasing { .. }));
    let new = rig.publish("grp.g", "alice", "m3");
    assert_eq!(rig.told(new), Told::NotOwner);
    assert!(!rig.stepped_down());
    rig.settle();
    rig.pass(1);
    assert_eq!((rig.told(in_flight), rig.told(looking)), (Told::Accepted(2), Told::Accepted(3)));
    assert_eq!((rig.stepped_down(), rig.core.state()), (true, State::Idle));
}

// R-SEQ-10: doubt while releasing: the next owner's claim decides as well, nothing is claimed back.
#[test]
fn a_release_in_doubt_steps_down_at_once() {
    let mut rig = Rig::with_group(&["alice"]);
    let items = ["m1", "m2"].map(|mid| crate::rig::item(mid, mid, 1)).to_vec();
    let sent = rig.batch("grp.g", "alice", items);
    let looking = rig.lookups.pop_back();
    rig.answer_lookups();
    rig.wire.clear();
    rig.core.release(rig.now);
    let epoch = rig.epoch();
    rig.fail(epoch);
    assert!(rig.stepped_down() && looking.is_some());
    assert_eq!(rig.told_all(sent), [Told::Nothing, Told::NotOwner], "the first may yet arrive");
    assert!(rig.wire.is_empty());
}
