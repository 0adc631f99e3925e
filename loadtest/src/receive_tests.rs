use lapwing_client::proto::{ConversationState, Gap, Persisted, Welcome};

use super::*;

fn receiver() -> (Arc<Deliveries>, Arc<Receiver>) {
    let mut ledger = Ledger::new("t-run", vec!["a".into(), "b".into()]);
    let conversation = ledger.conversation("p2p.x", vec![0, 1]);
    for text in ["one", "two"] {
        ledger.plan(conversation, 0, text.into(), String::new(), false);
    }
    ledger.ready();
    ledger.sending(0, 1);
    let all = Deliveries::new(Arc::new(ledger));
    let receiver = Receiver::new(1, all.clone());
    let state =
        ConversationState { conversation: "p2p.x".into(), live_after: 1, head: 1, ..Default::default() };
    let welcome = Welcome { conversations: vec![state], ..Default::default() };
    receiver.update(Update::Connected(Arc::new(welcome)));
    (all, receiver)
}

fn event<'a>(seq: u64, mid: &'a str, text: &'a str) -> RawEvent<'a> {
    RawEvent {
        conversation: "p2p.x",
        seq,
        sender: "a",
        client_mid: mid,
        body: RawBody::Text(text.as_bytes()),
        ..RawEvent::default()
    }
}

// R-LT-3, R-LT-4
#[test]
fn a_delivery_is_counted_once_with_its_latency() {
    let (all, receiver) = receiver();
    receiver.event(&event(2, "t-run-0", "one"), Order::InOrder);
    receiver.event(&event(2, "t-run-0", "one"), Order::Duplicate);
    assert_eq!((all.messages.load(Relaxed), all.doubled.load(Relaxed)), (1, 1));
    assert_eq!((receiver.lines()[0].messages, receiver.lines()[0].last), (1, 2));
    assert_eq!(receiver.take_latency().len(), 1);
    assert_eq!((all.ledger.at(0, 2), all.ledger.conversations[0].head.load(Relaxed)), (Some(0), 2));
}

// I4
#[test]
fn what_is_not_as_it_was_sent_is_not_a_delivery() {
    let (all, receiver) = receiver();
    receiver.event(&event(2, "t-run-0", "One"), Order::InOrder);
    let other = RawEvent { sender: "b", ..event(2, "t-run-0", "one") };
    receiver.event(&other, Order::InOrder);
    receiver.event(&event(3, "t-other-0", "one"), Order::InOrder);
    assert_eq!((all.messages.load(Relaxed), all.wrong_content.load(Relaxed)), (0, 2));
    assert_eq!((all.ledger.unexpected.load(Relaxed), all.ledger.faults().len()), (1, 3));
}

// R-LT-5
#[test]
fn disorder_is_counted_and_kept_in_words() {
    let (all, receiver) = receiver();
    receiver.event(&event(3, "t-run-1", "two"), Order::AfterHole { from: 2 });
    receiver.event(&event(2, "t-run-0", "one"), Order::Late);
    receiver.update(Update::Gap(Gap { conversation: "p2p.x".into(), from: 4, to: 5, reason: 3 }));
    let counts = (all.holes.load(Relaxed), all.late.load(Relaxed), all.gaps.load(Relaxed));
    assert_eq!((counts, all.disorder.lock().len()), ((1, 1, 1), 3));
    assert_eq!(all.messages.load(Relaxed), 2, "late ones are still delivered");
}

// R-ACK-3
#[test]
fn receipts_find_their_message() {
    let (all, receiver) = receiver();
    receiver.event(&event(2, "t-run-0", "one"), Order::InOrder);
    let receipt =
        Persisted { conversation: "p2p.x".into(), persisted_seq: 2, seqs: vec![2], dead_lettered: vec![3] };
    Receiver::new(0, all.clone()).update(Update::Persisted(receipt));
    let receipts = all.ledger.receipts();
    assert_eq!((receipts.told, receipts.wanted, receipts.astray), (1, 1, 0));
    assert_eq!(all.dead_lettered.load(Relaxed), 1);
}

// A resume names the conversations again: where delivery began stays what it was.
#[test]
fn a_second_welcome_changes_nothing() {
    let (_, receiver) = receiver();
    let state = ConversationState { conversation: "p2p.x".into(), live_after: 7, ..Default::default() };
    let welcome = Welcome { conversations: vec![state], ..Default::default() };
    receiver.update(Update::Connected(Arc::new(welcome)));
    assert_eq!((receiver.lines().len(), receiver.lines()[0].live_after), (1, 1));
}
