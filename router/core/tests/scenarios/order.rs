//! Order within a session, and what an answer rests on (R-SEQ-1, R-SEQ-11, R-ACK-1).

use lapwing_router_core::{Effect, Load, Own};

use crate::rig::{Rig, Told, item, refused};

// R-SEQ-11
#[test]
fn seqs_follow_the_sending_order_however_lookups_return() {
    let mut rig = Rig::with_group(&["alice"]);
    let items = ["m1", "m2", "m3"].map(|mid| item(mid, mid, 1)).to_vec();
    let sent = rig.batch("grp.g", "alice", items);
    let mut lookups: Vec<_> = rig.lookups.drain(..).collect();
    assert_eq!(lookups.len(), 3);
    lookups.rotate_left(1);
    for lookup in &lookups[..2] {
        rig.answer(lookup);
        assert!(rig.wire.is_empty(), "the first one's lookup is still on its way");
    }
    rig.answer(&lookups[2]);
    assert_eq!(rig.wire.len(), 3);
    rig.settle();
    assert_eq!(rig.told_all(sent), [2, 3, 4].map(Told::Accepted));
}

// R-SEQ-11: a temporary refusal of one refuses what the session sent behind it, but for what stands already.
#[test]
fn nothing_overtakes_what_was_refused_for_now() {
    let mut rig = Rig::with_group(&["alice", "bob"]);
    rig.publish("grp.g", "alice", "m0");
    rig.settle();
    rig.own = Own::Skipped;
    let items = vec![item("m1", "m1", 2), item("m0", "m0", 2), item("m2", "m2", 1)];
    let sent = rig.batch("grp.g", "alice", items);
    let other = rig.publish("grp.g", "bob", "m3");
    rig.answer_lookups_with(Load::Unavailable);
    rig.settle();
    let expected = [refused("not_ready"), Told::Duplicate(2), refused("not_ready")];
    assert_eq!(rig.told_all(sent), expected);
    assert_eq!(rig.told(other), Told::Accepted(3), "another session goes on");
    // Together again, in order.
    rig.own = Own::SameContent;
    let again = rig.batch("grp.g", "alice", vec![item("m1", "m1", 3), item("m2", "m2", 2)]);
    rig.settle();
    assert_eq!(rig.told_all(again), [4, 5].map(Told::Accepted));
}

// R-SEQ-11: refused at the door, before any lookup.
#[test]
fn nothing_overtakes_what_was_refused_at_the_door() {
    let mut rig = Rig::with_group(&["alice"]);
    rig.publish("grp.g", "alice", "m1");
    let sent = rig.batch("grp.g", "alice", vec![item("m1", "other", 1), item("m2", "m2", 1)]);
    assert_eq!(rig.told_all(sent), [refused("not_ready"), refused("not_ready")]);
}

// R-ACK-1: definite refusals hold nobody up.
#[test]
fn what_follows_a_definite_refusal_is_taken() {
    let mut rig = Rig::with_group(&["alice"]);
    rig.publish("grp.g", "alice", "m1");
    rig.settle();
    let sent = rig.batch("grp.g", "alice", vec![item("m1", "other", 1), item("m2", "m2", 1)]);
    rig.settle();
    assert_eq!(rig.told_all(sent), [refused("client_mid_conflict"), Told::Accepted(3)]);
}

// R-ACK-1, R-SEQ-5: accepted = read back, valid, and acknowledged; in whatever order these come.
#[test]
fn an_answer_needs_the_read_back_and_the_acknowledgement() {
    for acknowledged_first in [true, false] {
        let mut rig = Rig::with_group(&["alice"]);
        let sent = rig.publish("grp.g", "alice", "m1");
        rig.answer_lookups();
        rig.append_all();
        if acknowledged_first {
            rig.acknowledge();
        } else {
            rig.read_back();
        }
        assert!(rig.waits(sent) && rig.seqs("grp.g") == [1], "{acknowledged_first}");
        rig.read_back();
        rig.acknowledge();
        assert_eq!(rig.told(sent), Told::Accepted(2));
        assert_eq!(rig.seqs("grp.g"), [1, 2]);
    }
}

// R-SEQ-5: an acknowledgement covers all before it.
#[test]
fn one_acknowledgement_releases_all_before_it_in_order() {
    let mut rig = Rig::with_group(&["alice"]);
    let sent = ["m1", "m2", "m3"].map(|mid| rig.publish("grp.g", "alice", mid));
    rig.answer_lookups();
    rig.append_all();
    rig.read_back();
    rig.core.produced(3, rig.now);
    rig.pump();
    assert_eq!((rig.told(sent[0]), rig.told(sent[1])), (Told::Accepted(2), Told::Accepted(3)));
    assert!(rig.waits(sent[2]));
    assert!(!rig.others.contains(&Effect::Advanced(rig.core.position())));
    rig.settle();
    rig.acknowledge();
    assert_eq!(rig.told(sent[2]), Told::Accepted(4));
}

// R-SEQ-10: a woken zombie turns nobody away by old state; it only redirects.
#[test]
fn an_isolated_owner_redirects_what_it_would_refuse() {
    let mut rig = Rig::with_group(&["alice"]);
    let (stranger, member) = (rig.publish("grp.g", "eve", "m1"), rig.publish("grp.g", "alice", "m2"));
    rig.core.set_isolated(true);
    rig.settle();
    assert_eq!(rig.told(stranger), Told::NotOwner);
    assert_eq!(rig.told(member), Told::Accepted(2), "the log decides about what it takes");
    let late = rig.publish("grp.g", "alice", "m3");
    assert_eq!(rig.told(late), Told::NotOwner);
    rig.core.set_isolated(false);
    let back = rig.retry("grp.g", "alice", "m3");
    rig.settle();
    assert_eq!(rig.told(back), Told::Accepted(3));
}
