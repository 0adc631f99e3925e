//! Cold loads by way of a persister, while the view's Redis is away (R-ACK-5, R-SEQ-9; ADR 7).

use lapwing_model::{Family, Header, Member, Position};
use lapwing_router_core::{Load, Loaded, Options, view::ViewCursor};

use crate::rig::{Rig, Told, refused};

const ALICE: Member = Member { from_seq: 1, to_seq: 0 };

/// MySQL's answer for one who asks about alice.
fn mysql(at: u64, head: u64) -> Load {
    let header = Header { head, n: head.saturating_sub(1), member_count: 1, history_for_new_members: false };
    let loaded = Loaded { header, persisted: head, mid: None, members: vec![Some(ALICE)] };
    Load::Persisted(at, Box::new(loaded))
}

/// Its memory begins where the view stood, behind a conversation of 5 events that ends at offset 5.
fn new_owner(options: Options) -> Rig {
    let mut rig = Rig::idle(options);
    rig.foreign_epoch(99, &[1, 2, 3, 4, 5].map(|seq| ("grp.g", "alice", "old", seq)));
    rig.view.force(Position { offset: 6, epoch: 0, index: 5 }, &[]);
    rig.cursor = ViewCursor::new(Family::Commit, rig.view.position(), 1 << 20);
    rig.take_over();
    rig.settle();
    rig.wait(10_000);
    rig
}

#[test]
fn a_cold_conversation_goes_on_from_what_mysql_has() {
    let mut rig = new_owner(Options::new("r7"));
    let sent = rig.publish("grp.g", "alice", "m1");
    assert!(rig.lookups[0].load.as_ref().unwrap().cold);
    rig.answer_lookups_with(mysql(6, 5));
    rig.settle();
    assert_eq!(rig.told(sent), Told::Accepted(6));
    let again = rig.publish("grp.g", "alice", "m2");
    assert!(rig.lookups[0].load.is_none(), "it is in memory now");
    rig.settle();
    assert_eq!(rig.told(again), Told::Accepted(7));
}

// A head that lacks what was stored before memory began would be given out twice.
#[test]
fn mysql_behind_the_beginning_of_memory_says_nothing() {
    let mut rig = new_owner(Options::new("r7"));
    let sent = rig.publish("grp.g", "alice", "m1");
    rig.answer_lookups_with(mysql(5, 4));
    assert_eq!(rig.told(sent), refused("not_ready"));
    assert!(rig.attach_now("grp.g", "alice", mysql(5, 4)).not_ready);
    assert_eq!(rig.attach_now("grp.g", "alice", mysql(6, 5)).head, 5);
}

#[test]
fn an_eviction_moves_the_beginning_of_memory_forward() {
    let mut rig = new_owner(Options { conversation_bytes: 0, ..Options::new("r7") });
    let warm = rig.publish("grp.g", "alice", "m1");
    rig.answer_lookups_with(mysql(6, 5));
    rig.settle();
    assert_eq!(rig.told(warm), Told::Accepted(6));
    rig.apply();
    rig.pass(1);
    let cold = rig.publish("grp.g", "alice", "m2");
    rig.answer_lookups_with(mysql(6, 5));
    assert_eq!(rig.told(cold), refused("not_ready"), "what was evicted is not in MySQL yet");
    let later = rig.publish("grp.g", "alice", "m3");
    rig.answer_lookups_with(mysql(rig.log.len() as u64, 6));
    rig.settle();
    assert_eq!(rig.told(later), Told::Accepted(7));
}

// What was released since then lies over it, however far MySQL is.
#[test]
fn memory_lies_over_what_mysql_has() {
    for head in [4, 5, 6] {
        let mut rig = new_owner_of(&[5, 6]);
        let sent = rig.publish("grp.g", "alice", "m1");
        rig.answer_lookups_with(mysql(0, head));
        rig.settle();
        assert_eq!(rig.told(sent), Told::Accepted(7));
    }
}

/// Its memory begins with the log, and has these.
fn new_owner_of(seqs: &[u64]) -> Rig {
    let mut rig = Rig::idle(Options::new("r7"));
    let messages: Vec<_> = seqs.iter().map(|seq| ("grp.g", "alice", "old", *seq)).collect();
    rig.foreign_epoch(99, &messages);
    rig.take_over();
    rig.settle();
    rig.wait(10_000);
    rig
}

// R-ACK-4: MySQL has no key by client_mid, so a retry waits for the window.
#[test]
fn a_retry_waits_for_the_window_all_the_same() {
    let mut rig = new_owner(Options::new("r7"));
    let retry = rig.retry("grp.g", "alice", "m1");
    let overtaken = rig.late_batch("grp.g", "alice", vec![crate::rig::item("m2", "m2", 1)], 20_000);
    rig.answer_lookups_with(mysql(6, 5));
    rig.settle();
    assert_eq!([rig.told(retry), rig.told(overtaken)], [refused("not_ready"), refused("not_ready")]);
    let window_only = rig.retry("grp.g", "alice", "m3");
    assert!(!rig.lookups[0].load.as_ref().unwrap().cold, "nothing else is lacking: MySQL is not asked");
    rig.answer_lookups_with(Load::Unavailable);
    assert_eq!(rig.told(window_only), refused("not_ready"));
}

// I9: what is not in MySQL at that position is not there at all.
#[test]
fn a_conversation_that_mysql_does_not_have_can_be_created() {
    let mut rig = new_owner(Options::new("r7"));
    let stranger = rig.publish("grp.new", "alice", "m1");
    rig.answer_lookups_with(Load::Persisted(
        6,
        Box::new(Loaded { members: vec![None], ..Loaded::default() }),
    ));
    assert_eq!(rig.told(stranger), refused("not_found"));
    let created = rig.create("grp.new", &["alice"]);
    rig.settle();
    assert_eq!(rig.changed(created), (1, true));
}
