//! What an owner's memory of conversations weighs, and what goes first.

use lapwing_model::{Header, Member};
use lapwing_router_core::{Load, Loaded, Options};

use crate::rig::{Rig, Told};

fn with_groups(count: usize) -> Rig {
    let mut rig = Rig::serving();
    for number in 0..count {
        rig.create(&format!("grp.{number}"), &["alice"]);
        rig.settle();
    }
    rig
}

/// Whether the next publish finds everything in memory.
fn warm(rig: &mut Rig, group: &str, mid: &str) -> bool {
    rig.publish(group, "alice", mid);
    let warm = rig.lookups[0].load.is_none();
    rig.settle();
    warm
}

#[test]
fn over_its_bound_the_longest_unused_go_first() {
    let mut rig = with_groups(20);
    assert!(warm(&mut rig, "grp.0", "m0"), "used again");
    rig.apply();
    let whole = rig.core.conversation_bytes();
    assert!((20 * 400..20 * 2000).contains(&whole), "{whole} bytes");
    rig.core.set_conversation_bytes(whole);
    rig.pass(1);
    assert_eq!(rig.core.conversations(), 20, "not over it");
    rig.core.set_conversation_bytes(whole / 2);
    rig.pass(1);
    assert!((8..=9).contains(&rig.core.conversations()), "nine tenths of the half");
    assert!(rig.core.conversation_bytes() <= whole / 2);
    assert!(warm(&mut rig, "grp.0", "m1") && warm(&mut rig, "grp.19", "m2"));
    assert!(!warm(&mut rig, "grp.1", "m3"));
    rig.apply();
    rig.core.set_conversation_bytes(0);
    rig.pass(1);
    assert_eq!((rig.core.conversations(), rig.core.conversation_bytes()), (0, 0));
}

// With the view away for long, MySQL bounds the memory; the view is not loaded from before it has what went.
#[test]
fn while_the_view_is_away_what_mysql_has_may_go() {
    let mut rig = with_groups(3);
    rig.core.set_conversation_bytes(0);
    rig.pass(1);
    assert_eq!(rig.core.conversations(), 3, "nobody else has them");
    let end = rig.core.position();
    rig.core.mark(end, &[]);
    rig.pass(1);
    assert_eq!(rig.core.conversations(), 0);
    let sent = rig.publish("grp.0", "alice", "m1");
    assert_eq!(rig.lookups[0].load.as_ref().unwrap().lowest, end.offset);
    let header = Header { head: 1, n: 0, member_count: 1, history_for_new_members: false };
    let alice = Some(Member { from_seq: 1, to_seq: 0 });
    let loaded = Loaded { header, persisted: 1, mid: None, members: vec![alice] };
    rig.answer_lookups_with(Load::Persisted(end.offset, Box::new(loaded)));
    rig.settle();
    assert_eq!(rig.told(sent), Told::Accepted(2));
}

// A large group that is never idle: members are loaded singly, and again once they were forgotten.
#[test]
fn a_busy_conversation_forgets_members_that_the_view_has() {
    let names: Vec<String> = (0..3000).map(|number| format!("u{number}")).collect();
    let mut rig = Rig::idle(Options::new("r7"));
    rig.take_over();
    rig.settle();
    rig.create("grp.g", &names.iter().map(String::as_str).collect::<Vec<_>>());
    rig.settle();
    let whole = rig.core.conversation_bytes();
    assert!(whole > 3000 * 80, "{whole} bytes");
    let busy = rig.publish("grp.g", "u1", "m1");
    rig.answer_lookups();
    rig.core.set_conversation_bytes(whole / 2);
    rig.pass(1);
    assert_eq!(rig.core.conversation_bytes(), whole, "the view does not have them");
    rig.apply();
    rig.pass(1);
    assert_eq!(rig.core.conversations(), 1, "something of it is on its way");
    assert!(rig.core.conversation_bytes() < 2000);
    let other = rig.publish("grp.g", "u2", "m2");
    assert_eq!(rig.lookups[0].load.as_ref().unwrap().users, ["u2".into()]);
    rig.settle();
    assert_eq!((rig.told(busy), rig.told(other)), (Told::Accepted(4), Told::Accepted(5)));
}
