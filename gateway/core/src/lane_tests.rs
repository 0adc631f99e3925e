use lapwing_proto::bus::NotOwner;

use super::*;

fn item(mid: &str) -> PublishItem {
    PublishItem { client_mid: mid.into(), attempt: 1, ..Default::default() }
}

fn lane(mids: &[&str], now: Instant) -> Lane<String> {
    let mut lane = Lane::default();
    push(&mut lane, mids, now);
    lane
}

fn push(lane: &mut Lane<String>, mids: &[&str], now: Instant) {
    for mid in mids {
        lane.admit(mid, now).unwrap();
        lane.push((*mid).to_owned(), item(mid), now);
    }
}

fn sent(lane: &mut Lane<String>, now: Instant) -> Vec<(String, u32)> {
    match lane.next_step(now) {
        Step::Send(items, _) => items.into_iter().map(|item| (item.client_mid, item.attempt)).collect(),
        other => panic!("expected a request, got {other:?}"),
    }
}

fn ok(seq: u64) -> PublishOutcome {
    PublishOutcome { outcome: Some(Outcome::Published(Published { seq, ..Default::default() })) }
}

fn error(code: Code) -> PublishOutcome {
    PublishOutcome { outcome: Some(Outcome::Error(Refusal::new(code, "no").to_wire(""))) }
}

fn codes(answers: Vec<Answer<String>>) -> Vec<(String, Result<u64, &'static str>)> {
    let short = |result: Result<Published, Refusal>| {
        result.map(|published| published.seq).map_err(|refusal| refusal.code.line().name)
    };
    answers.into_iter().map(|(answer, result)| (answer, short(result))).collect()
}

fn expect(mid: &str, result: Result<u64, &'static str>) -> (String, Result<u64, &'static str>) {
    (mid.to_owned(), result)
}

fn tick(now: Instant, lane: &mut Lane<String>) -> Instant {
    match lane.next_step(now) {
        Step::Wait(at) => at,
        other => panic!("expected to wait, got {other:?}"),
    }
}

// R-SEQ-11: one in flight, the rest together and in order.
#[test]
fn what_arrives_meanwhile_goes_together_in_the_next_request() {
    let now = Instant::now();
    let mut lane = lane(&["a"], now);
    assert_eq!(sent(&mut lane, now), [("a".into(), 1)]);
    push(&mut lane, &["b", "c"], now);
    assert_eq!(lane.next_step(now), Step::Idle, "one in flight");
    assert_eq!(codes(lane.handle_reply(Reply::Outcomes(vec![ok(1)]), now)), [expect("a", Ok(1))]);
    assert_eq!(sent(&mut lane, now), [("b".into(), 1), ("c".into(), 1)]);
    lane.handle_reply(Reply::Outcomes(vec![ok(2), ok(3)]), now);
    assert!(lane.is_forgettable(now));
}

// R-SEQ-10: a hand-over is a redirect, not an answer; nothing was produced, so a refusal after it is definite.
#[test]
fn after_not_owner_the_same_goes_again_in_order_and_a_refusal_stands() {
    let now = Instant::now();
    let mut lane = lane(&["a", "b"], now);
    sent(&mut lane, now);
    assert!(lane.handle_reply(Reply::NotOwner(Duration::ZERO), now).is_empty());
    let now = tick(now, &mut lane);
    assert_eq!(sent(&mut lane, now), [("a".into(), 1), ("b".into(), 1)], "still the first attempt");
    assert!(lane.handle_reply(Reply::Unreached, now).is_empty());
    let now = tick(now, &mut lane);
    sent(&mut lane, now);
    let answers = lane.handle_reply(Reply::Outcomes(vec![error(Code::Forbidden), ok(7)]), now);
    assert_eq!(codes(answers), [expect("a", Err("forbidden")), expect("b", Ok(7))]);
}

// R-ACK-1 (*): a refusal after an own unanswered try is unknown, with the refusal as its cause.
#[test]
fn a_refusal_after_an_unanswered_try_is_unknown() {
    let now = Instant::now();
    let mut lane = lane(&["a"], now);
    sent(&mut lane, now);
    assert!(lane.handle_reply(Reply::TimedOut, now + REQUEST_TIMEOUT).is_empty());
    assert_eq!(sent(&mut lane, now + REQUEST_TIMEOUT), [("a".into(), 2)], "marked as a retry");
    let answers = lane.handle_reply(Reply::Outcomes(vec![error(Code::Forbidden)]), now + REQUEST_TIMEOUT);
    let Err(refusal) = &answers[0].1 else { panic!("accepted") };
    assert_eq!((refusal.code, refusal.cause.as_str()), (Code::PublishUnknown, "forbidden"));
}

// R-ACK-6: unknown once it was handed over, unreachable if nobody was reached.
#[test]
fn without_an_answer_it_is_unknown_and_without_an_owner_unreachable() {
    let start = Instant::now();
    let end = start + ANSWER_TIMEOUT;
    let mut handed = lane(&["a"], start);
    sent(&mut handed, start);
    assert_eq!(codes(handed.handle_reply(Reply::TimedOut, end)), [expect("a", Err("publish_unknown"))]);

    let mut alone = lane(&["a"], start);
    sent(&mut alone, start);
    assert!(alone.handle_reply(Reply::Unreached, start).is_empty());
    assert!(alone.handle_timeout(end - Duration::from_millis(1)).is_empty());
    assert_eq!(codes(alone.handle_timeout(end)), [expect("a", Err("unreachable"))]);
}

// R-SEQ-11: what was sent behind a temporary refusal is refused until that one comes again or is given up.
#[test]
fn nothing_overtakes_a_temporary_refusal() {
    let now = Instant::now();
    let mut lane = lane(&["a", "b"], now);
    sent(&mut lane, now);
    push(&mut lane, &["c"], now);
    let outcomes = vec![ok(1), error(Code::Overloaded)];
    let answers = codes(lane.handle_reply(Reply::Outcomes(outcomes), now));
    assert_eq!(
        answers,
        [expect("a", Ok(1)), expect("b", Err("overloaded")), expect("c", Err("overloaded"))],
        "the queued one too"
    );
    assert_eq!(lane.admit("d", now).unwrap_err().cause, "order");
    assert!(!lane.is_forgettable(now));
    assert!(lane.admit("b", now).is_ok(), "it comes again");
    lane.push("b".into(), item("b"), now);
    push(&mut lane, &["c", "d"], now);
    assert_eq!(sent(&mut lane, now).len(), 3);
    lane.handle_reply(Reply::Refused(Refusal::new(Code::NotReady, "")), now);
    assert!(lane.admit("c", now + GIVEN_UP - Duration::from_millis(1)).is_err());
    assert!(lane.admit("c", now + GIVEN_UP).is_ok(), "the refused one is given up");
}

#[test]
fn an_owner_that_lost_the_partition_in_the_middle_gets_only_the_rest_again() {
    let now = Instant::now();
    let mut lane = lane(&["a", "b", "c"], now);
    sent(&mut lane, now);
    let moved = PublishOutcome { outcome: Some(Outcome::NotOwner(NotOwner::default())) };
    let answers = lane.handle_reply(Reply::Outcomes(vec![ok(1), moved]), now);
    assert_eq!(codes(answers), [expect("a", Ok(1))]);
    let now = tick(now, &mut lane);
    assert_eq!(sent(&mut lane, now), [("b".into(), 1), ("c".into(), 2)], "c: nobody knows");
}

// I7
#[test]
fn the_queue_is_bounded_and_a_full_one_answers() {
    let now = Instant::now();
    let mut lane: Lane<u32> = Lane::default();
    for i in 0..QUEUE_ITEMS {
        lane.admit(&i.to_string(), now).unwrap();
        lane.push(0, item(&i.to_string()), now);
    }
    assert_eq!(lane.admit("x", now).unwrap_err().code, Code::Overloaded);
    assert!(matches!(lane.next_step(now), Step::Send(items, _) if items.len() == BATCH_ITEMS));
    assert!(lane.admit("y", now).is_err(), "x was refused before it");
    assert!(lane.admit("x", now).is_ok());
}

// R-SEQ-11
#[test]
fn a_refusal_at_the_door_leaves_alone_what_stands_before_it() {
    let now = Instant::now();
    let mut lane = lane(&["a", "b"], now);
    sent(&mut lane, now);
    lane.admit("c", now).unwrap();
    lane.refused("c", now);
    assert!(lane.admit("d", now).is_err(), "behind c");
    let answers = lane.handle_reply(Reply::Outcomes(vec![ok(1), error(Code::NotReady)]), now);
    assert_eq!(codes(answers), [expect("a", Ok(1)), expect("b", Err("not_ready"))]);
    assert!(lane.admit("c", now).is_err(), "b stands before it and was refused, too");
    assert!(lane.admit("b", now).is_ok() && lane.admit("c", now).is_ok());
}

// R-SEQ-11: what stood in the socket behind a refused one while the gateway was stopped does not overtake it.
#[test]
fn a_pause_of_the_gateway_is_no_time_in_which_a_refused_one_was_given_up() {
    let now = Instant::now();
    let mut lane: Lane<u32> = Lane::default();
    lane.refused("a", now);
    let woken = now + GIVEN_UP + Duration::from_secs(5);
    lane.woke(woken);
    assert!(lane.admit("b", woken).is_err());
    assert!(lane.admit("a", woken).is_ok());
    assert!(lane.admit("b", woken).is_ok());
    lane.refused("c", woken);
    assert!(lane.admit("d", woken + GIVEN_UP).is_ok(), "else it is given up");
}

// R-SEQ-11: found by the simulation. The owner lost the partition in the middle and had refused a later one already.
#[test]
fn what_stands_before_a_refused_one_goes_again_and_what_stands_behind_it_waits_for_it() {
    let now = Instant::now();
    let mut lane = lane(&["a", "b", "c"], now);
    sent(&mut lane, now);
    push(&mut lane, &["d"], now);
    let not_owner = || PublishOutcome {
        outcome: Some(Outcome::NotOwner(NotOwner { retry_after_ms: 20, ..Default::default() })),
    };
    let outcomes = vec![not_owner(), error(Code::NotReady), not_owner()];
    let answers = codes(lane.handle_reply(Reply::Outcomes(outcomes), now));
    let behind = |mid| expect(mid, Err("overloaded"));
    assert_eq!(answers, [expect("b", Err("not_ready")), behind("c"), behind("d")]);
    let later = tick(now, &mut lane);
    assert_eq!(sent(&mut lane, later), [("a".into(), 1)]);
    assert!(lane.admit("c", later).is_err(), "b is to come first");
    // Refused in its turn it is the first one again.
    assert_eq!(codes(lane.handle_reply(Reply::Outcomes(vec![error(Code::NotReady)]), later)).len(), 1);
    assert!(lane.admit("b", later).is_err(), "a is to come first");
    assert!(lane.admit("a", later).is_ok() && lane.admit("b", later).is_ok());
}

// R-SEQ-11: found by the simulation. The session wrote d before it heard that c was refused, too.
#[test]
fn all_that_were_refused_come_again_before_what_was_sent_behind_them() {
    let now = Instant::now();
    let mut lane = lane(&["a"], now);
    sent(&mut lane, now);
    assert_eq!(codes(lane.handle_reply(Reply::Outcomes(vec![error(Code::NotReady)]), now)).len(), 1);
    assert!(lane.admit("b", now).is_err() && lane.admit("c", now).is_err());
    push(&mut lane, &["a"], now);
    assert!(lane.admit("d", now).is_err(), "b and c are to come first");
    push(&mut lane, &["b", "c", "d", "e"], now);
    let all: Vec<_> = ["a", "b", "c", "d", "e"].map(|mid| (mid.to_owned(), 1)).into();
    assert_eq!(sent(&mut lane, now), all);
}
