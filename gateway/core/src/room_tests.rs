use std::{cell::RefCell, rc::Rc};

use super::*;
use crate::ring::tests::frame;

#[derive(Clone)]
struct Session {
    id: u64,
    got: Rc<RefCell<Vec<String>>>,
    full: Rc<RefCell<bool>>,
    passed: Rc<RefCell<u64>>,
}

impl Session {
    fn new(id: u64) -> Self {
        Self { id, got: Rc::default(), full: Rc::default(), passed: Rc::default() }
    }

    fn take(&self) -> String {
        std::mem::take(&mut *self.got.borrow_mut()).join(" ")
    }
}

impl Sink for Session {
    fn id(&self) -> u64 {
        self.id
    }

    fn push(&self, frame: &Arc<EventFrame>) -> bool {
        if *self.full.borrow() {
            return false;
        }
        self.got.borrow_mut().push(frame.seq.to_string());
        true
    }

    fn ended(&self, next: u64) {
        *self.passed.borrow_mut() = next;
    }

    fn gap(&self, from: u64, to: u64, _: GapReason) {
        self.got.borrow_mut().push(format!("gap{from}-{to}"));
    }
}

fn empty(events: usize, bytes: usize) -> Room<Session> {
    Room::new(RingLimit { events, bytes }, RingBudget::new(1 << 20))
}

fn room(head: u64) -> Room<Session> {
    let mut room = empty(3, 10_000);
    room.handle_owner_head(head, head, &mut Vec::new());
    room
}

fn attach(room: &mut Room<Session>, session: &Session, from: Option<u64>) -> (Attached, Vec<Effect>) {
    let mut effects = Vec::new();
    let user = Arc::from(format!("u{}", session.id));
    let new = Attach { sink: session.clone(), user, from, first: 0, to: 0, announced: 0 };
    (room.attach(new, &mut effects), effects)
}

fn events(room: &mut Room<Session>, seqs: impl IntoIterator<Item = u64>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for seq in seqs {
        room.handle_event(&frame(seq), &mut effects);
    }
    effects
}

// I4, R-ACK-2: contiguous, ascending, once.
#[test]
fn live_events_come_once_and_in_order() {
    let (mut room, one) = (room(5), Session::new(1));
    assert_eq!(attach(&mut room, &one, None).0.live_after, 5);
    assert!(events(&mut room, [5, 6, 6, 7, 5]).is_empty());
    assert_eq!(one.take(), "6 7");
    let again = attach(&mut room, &one, Some(1)).0;
    assert!(again.already && again.live_after == 7);
}

#[test]
fn a_hole_is_fetched_once_for_all_and_never_skipped() {
    let (mut room, one, two) = (room(5), Session::new(1), Session::new(2));
    attach(&mut room, &one, None);
    attach(&mut room, &two, None);
    assert_eq!(events(&mut room, [6, 9, 10, 8]), [Effect::FetchRoom { soon: false }], "one fetch");
    assert_eq!((one.take(), room.missing()), ("6".into(), Some((7, 10))));
    let mut effects = Vec::new();
    for seq in [6, 7, 8] {
        room.handle_fetched(&frame(seq), &mut effects);
    }
    assert_eq!(room.missing(), Some((9, 10)));
    room.handle_fetched(&frame(9), &mut effects);
    room.handle_fetched(&frame(10), &mut effects);
    assert_eq!(room.missing(), None);
    assert!(effects.is_empty() && events(&mut room, [11]).is_empty());
    assert_eq!((one.take(), two.take()), ("7 8 9 10 11".into(), "6 7 8 9 10 11".into()));
}

#[test]
fn what_cannot_be_had_is_an_explicit_gap() {
    let (mut room, one) = (room(5), Session::new(1));
    attach(&mut room, &one, None);
    events(&mut room, [9]);
    room.handle_gap(4, 8, GapReason::Retention);
    room.handle_fetched(&frame(9), &mut Vec::new());
    assert_eq!((room.missing(), one.take()), (None, "gap6-8 9".into()));
}

#[test]
fn a_head_that_somebody_tells_is_fetched() {
    let (mut room, one) = (room(5), Session::new(1));
    attach(&mut room, &one, None);
    let mut effects = Vec::new();
    room.handle_head(5, true, &mut effects);
    assert!(effects.is_empty());
    room.handle_head(7, true, &mut effects);
    assert_eq!((effects, room.missing()), (vec![Effect::FetchRoom { soon: true }], Some((6, 7))));
}

#[test]
fn events_before_the_owner_told_the_head_are_not_lost() {
    let (mut room, one) = (empty(3, 1000), Session::new(1));
    assert!(events(&mut room, [6, 7]).is_empty());
    let mut effects = Vec::new();
    room.handle_owner_head(5, 5, &mut effects);
    attach(&mut room, &one, Some(6));
    assert_eq!((effects, room.missing()), (vec![Effect::FetchRoom { soon: true }], Some((6, 7))));
}

#[test]
fn a_session_with_a_cursor_catches_up_from_memory_and_by_fetching_then_is_live() {
    let (mut room, one, late) = (room(5), Session::new(1), Session::new(2));
    attach(&mut room, &one, None);
    events(&mut room, 6..=9); // memory holds 7, 8, 9
    let (attached, effects) = attach(&mut room, &late, Some(5));
    let [Effect::CatchUp { session: 2, run }] = effects[..] else { panic!("{effects:?}") };
    assert_eq!((attached.live_after, attached.head), (4, 9));
    let Next::Fetch { from: 5, to: 9 } = room.catch_up(2, run, 1000) else { panic!() };
    events(&mut room, [10]);
    assert_eq!(late.take(), "", "live events wait for the older ones");
    assert!(room.handle_fetched_for(2, run, &frame(5)) && room.handle_fetched_for(2, run, &frame(6)));
    assert!(room.handle_fetched_for(2, run, &frame(7)));
    assert!(matches!(room.catch_up(2, run, 1000), Next::Done), "8, 9, 10 are in memory");
    events(&mut room, [11]);
    assert_eq!(late.take(), "5 6 7 8 9 10 11");
    assert!(matches!(room.catch_up(2, run, 1000), Next::Done), "a run ends once");
}

// R-GW-3: a full queue holds nothing up for others and loses nothing for its own session.
#[test]
fn a_session_whose_queue_is_full_falls_behind_and_comes_back() {
    let (mut room, one, slow) = (room(0), Session::new(1), Session::new(2));
    attach(&mut room, &one, None);
    attach(&mut room, &slow, None);
    events(&mut room, [1]);
    *slow.full.borrow_mut() = true;
    let effects = events(&mut room, [2, 3]);
    let [Effect::CatchUp { session: 2, run }] = effects[..] else { panic!("{effects:?}") };
    assert!(matches!(room.catch_up(2, run, 1000), Next::Some), "still full");
    *slow.full.borrow_mut() = false;
    assert!(matches!(room.catch_up(2, run, 1000), Next::Done));
    events(&mut room, [4]);
    assert_eq!((one.take(), slow.take()), ("1 2 3 4".into(), "1 2 3 4".into()));
}

// R-PERM-3: nothing after the removal event, also for one who is behind.
#[test]
fn a_removed_user_sees_its_removal_and_nothing_after_it() {
    let (mut room, stays, goes) = (room(0), Session::new(1), Session::new(2));
    attach(&mut room, &stays, None);
    attach(&mut room, &goes, None);
    *goes.full.borrow_mut() = true;
    let mut effects = events(&mut room, [1, 2]);
    room.handle_left("u2", 2, &mut effects);
    events(&mut room, [3]);
    let [Effect::CatchUp { run, .. }] = effects[..] else { panic!("{effects:?}") };
    *goes.full.borrow_mut() = false;
    assert!(matches!(room.catch_up(2, run, 1000), Next::Done));
    assert_eq!((stays.take(), goes.take(), room.len()), ("1 2 3".into(), "1 2".into(), 1));
}

#[test]
fn one_who_was_added_again_before_the_removal_came_here_is_attached_anew() {
    let (mut room, one) = (room(0), Session::new(1));
    attach(&mut room, &one, None);
    assert!(!room.announce(1, 5), "still attached");
    let mut effects = events(&mut room, [1]);
    room.handle_left("u1", 1, &mut effects);
    assert_eq!(effects, [Effect::Rejoin { session: 1 }]);
    assert!(room.is_empty());
}

#[test]
fn sync_pushes_everything_after_a_seq_again() {
    let (mut room, one) = (room(0), Session::new(1));
    attach(&mut room, &one, None);
    events(&mut room, 1..=3);
    one.take();
    let mut effects = Vec::new();
    assert!(room.sync(1, 1, &mut effects) && !room.sync(9, 1, &mut effects));
    let [Effect::CatchUp { session: 1, run }] = effects[..] else { panic!("{effects:?}") };
    assert!(matches!(room.catch_up(1, run, 1000), Next::Done));
    assert_eq!(one.take(), "2 3");
}

// R-PERM-3: one who joined at a seq that has not come here yet gets nothing from before it.
#[test]
fn a_new_member_sees_nothing_from_before_its_join() {
    let (mut room, one) = (room(5), Session::new(1));
    let user = Arc::from("u1");
    let new = Attach { sink: one.clone(), user, from: None, first: 8, to: 0, announced: 8 };
    assert_eq!(room.attach(new, &mut Vec::new()).live_after, 7);
    assert!(events(&mut room, 6..=9).is_empty());
    assert_eq!(one.take(), "8 9");
}

fn removal(seq: u64, user: &str) -> Arc<EventFrame> {
    let mut frame = EventFrame::clone(&frame(seq));
    frame.left = vec![user.to_owned()];
    Arc::new(frame)
}

// R-PERM-3: an owner's answer from before a removal that has passed here does not let the user in again.
#[test]
fn an_answer_older_than_the_removal_seats_nobody_behind_it() {
    let (mut room, other, user) = (room(2), Session::new(1), Session::new(7));
    attach(&mut room, &other, None);
    room.handle_event(&removal(3, "u7"), &mut Vec::new());
    let (place, _) = attach(&mut room, &user, None);
    assert_eq!(place.live_after, 3);
    events(&mut room, [4, 5]);
    assert_eq!((user.take().as_str(), other.take().as_str()), ("", "3 4 5"));
    // Added again behind it: open.
    let mut effects = Vec::new();
    let new = Attach { sink: user.clone(), user: "u7".into(), from: Some(6), first: 6, to: 0, announced: 6 };
    room.attach(new, &mut effects);
    events(&mut room, [6]);
    assert_eq!(user.take(), "6");
}

// I4: what a session has had before its removal does not come again.
#[test]
fn a_removed_session_tells_how_far_it_came() {
    let (mut room, user) = (room(2), Session::new(7));
    attach(&mut room, &user, None);
    room.handle_event(&removal(3, "u7"), &mut Vec::new());
    assert_eq!((user.take().as_str(), *user.passed.borrow()), ("3", 4));
}

#[test]
fn a_cursor_or_a_sync_from_nowhere_is_clamped() {
    let (mut room, user) = (room(5), Session::new(7));
    assert_eq!(attach(&mut room, &user, Some(u64::MAX)).0.live_after, 5);
    assert!(room.sync(7, u64::MAX, &mut Vec::new()));
    events(&mut room, [6]);
    assert_eq!(user.take(), "6");
    let late = Session::new(8);
    let new = Attach { sink: late.clone(), user: "u8".into(), from: None, first: 6, to: 0, announced: 0 };
    room.attach(new, &mut Vec::new());
    room.sync(8, 0, &mut Vec::new());
    let Next::Done = room.catch_up(8, 3, 1000) else { panic!("nothing from before it was a member") };
    assert!(!late.take().contains('5'));
}
