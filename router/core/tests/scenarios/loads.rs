//! Cold loads, eviction, and what memory holds beyond the view (R-SEQ-9; design, Views).

use lapwing_model::{Member, MidEntry, view::mid_hash};
use lapwing_router_core::{Load, Loaded, Options, Own};

use crate::rig::{Rig, Told, key, refused};

fn small() -> Rig {
    let mut rig = Rig::idle(Options { conversation_bytes: 0, recent_mids: 0, ..Options::new("r7") });
    rig.take_over();
    rig.settle();
    for group in ["grp.a", "grp.b"] {
        rig.create(group, &["alice"]);
        rig.settle();
    }
    rig
}

// R-SEQ-9: state ahead of the view stays in memory, behind it may go and is loaded again.
#[test]
fn only_what_the_view_has_is_evicted_and_comes_back_whole() {
    let mut rig = small();
    rig.pass(1);
    let warm = rig.publish("grp.a", "alice", "m1");
    assert!(rig.lookups[0].load.is_none(), "the view has nothing: nothing was evicted");
    rig.settle();
    rig.apply();
    rig.pass(1);
    let cold = rig.publish("grp.a", "alice", "m2");
    let ask = rig.lookups[0].load.clone().unwrap();
    assert_eq!((ask.lowest, ask.users.len()), (rig.view.position().offset, 1));
    rig.settle();
    assert_eq!((rig.told(warm), rig.told(cold)), (Told::Accepted(2), Told::Accepted(3)));
    let known = rig.retry("grp.a", "alice", "m1");
    rig.settle();
    assert_eq!(rig.told(known), Told::Duplicate(2), "by the window");
}

// R-SEQ-9: the highest position ever acknowledged never moves back; a view below it serves no cold load.
#[test]
fn a_view_that_moved_back_serves_no_cold_load_until_it_is_replayed() {
    let mut rig = small();
    let before = rig.view.clone();
    rig.apply();
    rig.pass(1);
    let whole = std::mem::replace(&mut rig.view, before);
    rig.core.view_at(0);
    let sent = rig.publish("grp.a", "alice", "m1");
    assert_eq!(rig.lookups[0].load.as_ref().unwrap().lowest, whole.position().offset);
    rig.settle();
    assert_eq!(rig.told(sent), refused("not_ready"));
    rig.view = whole;
    let again = rig.retry("grp.a", "alice", "m1");
    rig.settle();
    assert_eq!(rig.told(again), Told::Accepted(2));
}

// What was released since the load was asked lies on top of it.
#[test]
fn a_load_fills_only_what_memory_lacks() {
    let mut rig = Rig::idle(Options::new("r7"));
    rig.foreign_epoch(
        99,
        &[("grp.g", "alice", "m1", 5), ("grp.g", "alice", "m2", 6), ("grp.g", "alice", "m3", 7)],
    );
    rig.take_over();
    rig.settle();
    let sent = rig.publish("grp.g", "alice", "m4");
    let lookup = rig.lookups.pop_front().unwrap();
    // The view had 6 when it was read: behind memory, ahead of where the fold began.
    let mut loaded = Loaded { members: vec![Some(Member { from_seq: 1, to_seq: 0 })], ..Loaded::default() };
    (loaded.header.head, loaded.header.n, loaded.header.member_count) = (6, 5, 3);
    rig.answer_with(&lookup, Load::Found(Box::new(loaded)));
    rig.settle();
    assert_eq!(rig.told(sent), Told::Accepted(8));
    assert_eq!(rig.released.last().unwrap().record.n, 7);
}

// A conversation with a load on its way is not evicted: its answer meets the memory it was asked for.
#[test]
fn a_load_on_its_way_keeps_its_conversation() {
    let mut rig = small();
    rig.apply();
    rig.pass(1);
    let sent = rig.publish("grp.a", "alice", "m1");
    let lookup = rig.lookups.pop_front().unwrap();
    let early = rig.load(&lookup);
    let other = rig.retry("grp.a", "alice", "m2");
    rig.answer_lookups();
    assert!(rig.wire.is_empty() && rig.waits(other), "strictly in order");
    rig.pass(1);
    rig.answer_with(&lookup, early.clone());
    rig.settle();
    assert_eq!((rig.told(sent), rig.told(other)), (Told::Accepted(2), Told::Accepted(3)));
    // Evicted and loaded anew meanwhile: the old answer, given again, is nobody's.
    rig.apply();
    rig.pass(1);
    rig.answer_with(&lookup, early);
    let next = rig.publish("grp.a", "alice", "m3");
    rig.settle();
    assert_eq!(rig.told(next), Told::Accepted(4));
}

// I9: absence is not emptiness.
#[test]
fn an_unavailable_view_refuses_nobody_for_good() {
    let mut rig = Rig::serving();
    let cold = rig.publish("grp.x", "alice", "m1");
    let command = rig.create("grp.x", &["alice"]);
    rig.answer_lookups_with(Load::Unavailable);
    assert_eq!(rig.told(cold), refused("not_ready"));
    assert_eq!(rig.told(command), refused("not_ready"));
    assert!(rig.attach_now("grp.x", "alice", Load::Unavailable).not_ready);
}

// R-ACK-4: the window's entry decides, whatever else the load brings.
#[test]
fn the_windows_entry_is_told_even_when_the_member_is_gone() {
    let mut rig = Rig::serving();
    rig.own = Own::SameContent;
    let sent = rig.retry("grp.g", "alice", "m1");
    let hash = lapwing_model::record::content_hash(&key("grp.g"), &crate::rig::text("m1"));
    let entry = MidEntry { seq: 3, n: 2, sent_at_ms: 1, content_hash: hash };
    assert_eq!(rig.lookups[0].load.as_ref().unwrap().mid, Some(mid_hash("t", "alice", "m1")));
    let loaded = Loaded { mid: Some(entry), members: vec![None], ..Loaded::default() };
    rig.answer_lookups_with(Load::Found(Box::new(loaded)));
    assert_eq!(rig.told(sent), Told::Duplicate(3));
}
