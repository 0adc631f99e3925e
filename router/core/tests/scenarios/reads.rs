//! What gateways ask: attach, fetch, cursors; receipts from marks (R-ACK-3, R-FAN-8, R-FAN-14, R-PERM-3).

use lapwing_model::Position;
use lapwing_proto::{bus, record::CursorRecord};
use lapwing_router_core::Effect;

use crate::rig::{Rig, Told, event_of, refused};

/// Group of alice; m1; bob joins at 3; m2; bob leaves at 5; m3.
fn history() -> Rig {
    let mut rig = Rig::with_group(&["alice"]);
    rig.publish("grp.g", "alice", "m1");
    rig.add("grp.g", &["bob"]);
    rig.publish("grp.g", "alice", "m2");
    rig.remove("grp.g", &["bob"]);
    rig.publish("grp.g", "alice", "m3");
    rig.settle();
    assert_eq!(rig.seqs("grp.g"), [1, 2, 3, 4, 5, 6]);
    rig
}

fn seqs(reply: &bus::FetchReply) -> Vec<u64> {
    reply.events.iter().map(|event| event.seq).collect()
}

// R-PERM-3: a new member sees from its join, a removed one nothing after the removal.
#[test]
fn members_see_their_own_time_and_nothing_else() {
    let mut rig = history();
    let all = rig.fetch("grp.g", "alice", 0);
    assert_eq!((seqs(&all), all.head, all.n, all.member), (vec![1, 2, 3, 4, 5, 6], 6, 3, true));
    let bob = rig.fetch("grp.g", "bob", 0);
    assert_eq!((seqs(&bob), bob.from_seq, bob.to_seq), (vec![3, 4, 5], 3, 5));
    assert_eq!(seqs(&rig.fetch("grp.g", "bob", 3)), [4, 5]);
    let eve = rig.fetch("grp.g", "eve", 0);
    assert_eq!((seqs(&eve), eve.found, eve.member), (vec![], true, false));
    assert_eq!(seqs(&rig.fetch("grp.g", "", 4)), [5, 6], "the server API sees all");
    assert!(!rig.fetch("grp.none", "alice", 0).found);
}

// R-PERM-3: or all history, by the group's setting.
#[test]
fn with_history_for_new_members_they_see_from_the_beginning() {
    let mut rig = Rig::serving();
    let settings = lapwing_proto::client::Settings { history_for_new_members: true, ..Default::default() };
    let ask = bus::CreateGroup {
        name: "g".into(),
        members: crate::rig::users(&["alice"]),
        settings: Some(settings),
    };
    rig.command("grp.g", bus::command::Body::CreateGroup(ask));
    rig.publish("grp.g", "alice", "m1");
    rig.add("grp.g", &["bob"]);
    rig.settle();
    assert_eq!(seqs(&rig.fetch("grp.g", "bob", 0)), [1, 2, 3]);
    assert_eq!(rig.attach("grp.g", "bob").from_seq, 1);
}

#[test]
fn attach_confirms_the_user_gives_the_head_and_counts_as_interest_at_once() {
    let mut rig = history();
    rig.others.clear();
    let alice = rig.attach("grp.g", "alice");
    assert_eq!((alice.found, alice.head, alice.n, alice.from_seq, alice.to_seq), (true, 6, 3, 1, 0));
    let bob = rig.attach("grp.g", "bob");
    assert_eq!((bob.found, bob.from_seq, bob.to_seq), (true, 3, 5));
    assert!(!rig.attach("grp.g", "eve").found);
    let interest = rig.others.iter().filter(|effect| matches!(effect, Effect::Interest { .. }));
    assert_eq!(interest.count(), 3);
}

// I2: what is pending is seen by nobody.
#[test]
fn reads_show_only_what_was_released() {
    let mut rig = history();
    rig.publish("grp.g", "alice", "m4");
    rig.answer_lookups();
    assert_eq!(rig.attach_now("grp.g", "alice", lapwing_router_core::Load::NotAsked).head, 6);
}

fn cursor(user: &str, read: u64, delivered: u64) -> CursorRecord {
    CursorRecord {
        tenant: "t".into(),
        conversation: "grp.g".into(),
        user: user.into(),
        read_seq: read,
        read_n: 99,
        delivered_seq: delivered,
    }
}

// R-FAN-14, R-FAN-8: clamped to the head and to the member's time, n by the owner.
#[test]
fn cursors_are_clamped_by_the_owner() {
    let mut rig = history();
    rig.others.clear();
    let asked = vec![cursor("alice", 100, 100), cursor("alice", 2, 4), cursor("bob", 6, 6)];
    let request = rig.cursors(asked);
    rig.settle();
    let clamped: Vec<_> = rig
        .others
        .drain(..)
        .filter_map(|effect| match effect {
            Effect::Cursor { cursor, slot, .. } => {
                Some((slot, cursor.read_seq, cursor.read_n, cursor.delivered_seq))
            }
            _ => None,
        })
        .collect();
    assert_eq!(clamped, [(0, 6, 3, 6), (1, 2, 1, 4), (2, 5, 2, 5)]);
    assert!(rig.waits(request), "not before they stand in their topic");
    rig.core.cursor_stored(request, 0);
    rig.core.cursor_stored(request, 2);
    rig.pump();
    assert!(rig.waits(request));
    rig.core.cursor_failed(request, 1, "gone");
    rig.pump();
    assert_eq!(rig.told(request), refused("not_ready"), "one of them has to come again");
    let strangers = rig.cursors(vec![cursor("eve", 1, 1)]);
    rig.settle();
    assert_eq!(rig.told(strangers), refused("not_found"));
}

// R-SEQ-10: who waits for a cursor is redirected when the owner changes.
#[test]
fn cursors_on_their_way_are_redirected_at_step_down() {
    let mut rig = history();
    let request = rig.cursors(vec![cursor("alice", 3, 3)]);
    rig.settle();
    assert!(rig.waits(request));
    rig.log.push(crate::rig::claim(99));
    rig.read_back();
    assert_eq!(rig.told(request), Told::NotOwner);
}

fn receipts(rig: &mut Rig) -> Vec<bus::Receipt> {
    rig.others
        .drain(..)
        .filter_map(|effect| match effect {
            Effect::Receipts { receipt, .. } => Some(receipt),
            _ => None,
        })
        .collect()
}

// R-ACK-3: persisted and dead-lettered seqs are told apart; a lost mark heals with the next.
#[test]
fn marks_become_receipts_and_tombstones_are_listed_apart() {
    let mut rig = history();
    let offset_of =
        |rig: &Rig, seq: u64| rig.released.iter().find(|released| released.record.seq == seq).unwrap().offset;
    let dead = offset_of(&rig, 4);
    let tombstone = bus::Tombstone { offset: dead, seq: 4, ..bus::Tombstone::default() };
    rig.core.mark(Position { offset: dead + 1, epoch: 0, index: 9 }, &[tombstone]);
    rig.pump();
    let told = receipts(&mut rig);
    assert_eq!((told.len(), told[0].persisted_seq), (1, 4));
    let alice = &told[0].senders[0];
    assert_eq!(
        (alice.sender.as_str(), &alice.seqs[..], &alice.dead_lettered[..]),
        ("alice", &[2][..], &[4][..])
    );
    rig.core.mark(Position { offset: dead, epoch: 0, index: 9 }, &[]);
    rig.pump();
    assert!(receipts(&mut rig).is_empty(), "older than the newest: nothing");
    rig.core.mark(Position { offset: 100, epoch: 0, index: 99 }, &[]);
    rig.pump();
    let told = receipts(&mut rig);
    assert_eq!((told[0].persisted_seq, &told[0].senders[0].seqs[..]), (6, &[6][..]));
    assert_eq!(rig.fetch("grp.g", "alice", 6).persisted_seq, 6);
}

// R-FAN-8: n counts messages only; the event's bytes are those that every session gets.
#[test]
fn released_events_carry_seq_and_n() {
    let rig = history();
    let events: Vec<_> = rig.released.iter().map(|released| event_of(released)).collect();
    let pairs: Vec<_> = events.iter().map(|event| (event.seq, event.n)).collect();
    assert_eq!(pairs, [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3)]);
    assert_eq!((events[1].sender.as_str(), events[1].client_mid.as_str()), ("alice", "m1"));
}
