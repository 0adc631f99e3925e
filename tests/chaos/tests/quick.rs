//! Short variants of scenarios, each on a real stack of its own; the long ones are `./dev chaos`.
#![allow(clippy::unwrap_used, reason = "a test's own failures are its verdict")]

use lapwing_chaos::{find, play};

async fn passes(name: &str) {
    let outcome = play(find(name).unwrap(), true).await.unwrap();
    assert!(outcome.passed(), "{}", outcome.verdict());
}

// R-ACK-2, R-SEQ-6, R-SEQ-9, R-SEQ-10, R-FAN-3, R-GW-2
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_every_part_costs_no_message() {
    passes("tour").await;
}

// R-SEQ-10
#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_answers_for_nothing() {
    passes("router-zombie").await;
}

// R-SEQ-1, #5
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_concurrent_sends_into_one_conversation_are_consecutive() {
    passes("one-conversation").await;
}
