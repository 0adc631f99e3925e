//! Members: the owner decides on the state with pending events (R-PERM-1, R-PERM-3, R-PERM-4).

use lapwing_model::{Member, fold::member_changes};
use lapwing_proto::record::record::Body;
use lapwing_router_core::Options;

use crate::rig::{Rig, Told, key, refused};

// R-PERM-1: a change takes effect for the very next message.
#[test]
fn a_removal_in_flight_holds_the_next_message_back_and_then_refuses_it() {
    let mut rig = Rig::with_group(&["alice", "bob"]);
    let before = rig.publish("grp.g", "bob", "m1");
    let removal = rig.remove("grp.g", &["bob"]);
    let after = rig.publish("grp.g", "bob", "m2");
    let other = rig.publish("grp.g", "alice", "m3");
    rig.answer_lookups();
    assert_eq!(rig.wire.len(), 2, "m1 and the removal; the refusal rests on the removal");
    assert!(rig.waits(after));
    rig.settle();
    assert_eq!((rig.told(before), rig.changed(removal)), (Told::Accepted(2), (3, true)));
    assert_eq!((rig.told(after), rig.told(other)), (refused("forbidden"), Told::Accepted(4)));
}

// R-PERM-1, I1: the removal never stood: nobody was refused by it.
#[test]
fn a_refusal_never_rests_on_an_event_that_did_not_stand() {
    let mut rig = Rig::with_group(&["alice", "bob"]);
    let removal = rig.remove("grp.g", &["bob"]);
    let after = rig.publish("grp.g", "bob", "m2");
    rig.answer_lookups();
    rig.wire.clear();
    rig.log.push(crate::rig::claim(99));
    rig.read_back();
    assert_eq!((rig.told(removal), rig.told(after)), (Told::NotOwner, Told::NotOwner));
}

// R-PERM-1: and a join in flight lets the next message through at once.
#[test]
fn a_join_in_flight_lets_the_next_message_through() {
    let mut rig = Rig::with_group(&["alice"]);
    rig.add("grp.g", &["carol", "carol", "alice"]);
    let sent = rig.publish("grp.g", "carol", "m1");
    rig.answer_lookups();
    assert_eq!(rig.wire.len(), 2);
    let Some(Body::MembersAdded(added)) = &rig.wire[0].record.body else { panic!() };
    assert_eq!((&added.users[..], added.member_count), (&["carol".to_owned()][..], 2));
    rig.settle();
    assert_eq!(rig.told(sent), Told::Accepted(3));
}

// Commands are idempotent, and their answers rest on what stands.
#[test]
fn a_repeated_command_changes_nothing_and_waits_for_the_first() {
    let mut rig = Rig::with_group(&["alice"]);
    let (first, again) = (rig.add("grp.g", &["bob"]), rig.add("grp.g", &["bob"]));
    rig.answer_lookups();
    assert!(rig.waits(first) && rig.waits(again));
    rig.settle();
    assert_eq!((rig.changed(first), rig.changed(again)), ((2, true), (2, false)));
    let unknown = rig.add("grp.none", &["bob"]);
    rig.settle();
    assert_eq!(rig.told(unknown), refused("not_found"));
}

// R-PERM-2: repairs both sides.
#[test]
fn ensure_p2p_repairs_a_side_that_is_missing() {
    let mut rig = Rig::serving();
    let (id, _) = rig.ensure_p2p("alice", "bob");
    rig.remove(&id, &["bob"]);
    let (_, repair) = rig.ensure_p2p("alice", "bob");
    let sent = rig.publish(&id, "bob", "m1");
    rig.settle();
    assert_eq!((rig.changed(repair), rig.told(sent)), ((3, true), Told::Accepted(4)));
}

fn many(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("u{i:04}")).collect()
}

// FAN tiers, lists ≤ 1,000: created + lots of members, consecutive seqs, the right counts.
#[test]
fn a_group_of_2500_is_created_in_lists_of_at_most_1000() {
    let mut rig = Rig::serving();
    let names = many(2500);
    let members: Vec<_> = names.iter().map(String::as_str).collect();
    let created = rig.create("grp.big", &members);
    rig.answer_lookups();
    let lists: Vec<_> = rig.wire.iter().map(|sent| member_changes(&sent.record).len()).collect();
    assert_eq!(lists, [1000, 1000, 500]);
    let sent = rig.publish("grp.big", "u2499", "m1");
    rig.settle();
    assert_eq!((rig.changed(created), rig.told(sent)), ((3, true), Told::Accepted(4)));
    rig.apply();
    assert_eq!(rig.view.heads[&key("grp.big")].member_count, 2500);
    assert_eq!(rig.view.members.len(), 2500);
    assert_eq!(rig.attach("grp.big", "u2499").from_seq, 1, "all see from the first event");
}

// One of the lists was lost: what is missing is added, under consecutive seqs, and answered once.
#[test]
fn a_large_creation_that_was_cut_in_the_middle_is_completed() {
    let mut rig = Rig::serving();
    let names = many(2500);
    let members: Vec<_> = names.iter().map(String::as_str).collect();
    let created = rig.create("grp.big", &members);
    rig.answer_lookups();
    rig.wire.remove(1);
    rig.settle();
    assert_eq!(rig.seqs("grp.big"), [1, 2, 3]);
    assert_eq!(rig.changed(created), (3, true));
    rig.apply();
    assert_eq!((rig.view.heads[&key("grp.big")].member_count, rig.view.members.len()), (2500, 2500));
}

// Removed in the fold, joined before it: the view knows since when; the permission is clear at once.
#[test]
fn a_removal_inherited_without_its_join_keeps_what_the_member_had_seen() {
    let mut rig = Rig::with_group(&["alice", "bob"]);
    rig.publish("grp.g", "alice", "m1");
    rig.settle();
    rig.apply();
    rig.remove("grp.g", &["bob"]);
    rig.settle();
    let mut next = Rig::idle(Options::new("r7"));
    (next.log, next.view) = (rig.log, rig.view);
    next.take_over();
    next.settle();
    let sent = next.publish("grp.g", "bob", "m2");
    next.settle();
    assert_eq!(next.told(sent), refused("forbidden"));
    let attached = next.attach("grp.g", "bob");
    let seen = Member { from_seq: attached.from_seq, to_seq: attached.to_seq };
    assert_eq!(seen, Member { from_seq: 1, to_seq: 3 });
}

#[test]
fn a_group_beyond_the_bound_is_invalid() {
    let mut rig = Rig::serving();
    let names = many(9999);
    let members: Vec<_> = names.iter().map(String::as_str).collect();
    rig.create("grp.big", &members);
    for i in 1..=10 {
        let more: Vec<_> = (0..9999).map(|j| format!("v{i}-{j}")).collect();
        let more: Vec<_> = more.iter().map(String::as_str).collect();
        let added = rig.add("grp.big", &more);
        rig.settle();
        if i == 10 {
            assert_eq!(rig.told(added), refused("invalid"));
        } else {
            assert!(rig.changed(added).1);
        }
    }
}
