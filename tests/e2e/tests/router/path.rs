//! One message through admit, sequence, produce, commit, answer, apply.

use lapwing_proto::client::Outcome;

use crate::bench::Bench;

// R-ACK-1, R-ACK-4, R-SEQ-1
#[tokio::test(flavor = "multi_thread")]
async fn a_publish_is_accepted_once_and_a_retry_gets_its_seq_again() {
    let bench = Bench::start(1).await;
    let key = bench.p2p("t1", "alice", "bob").await;
    let first = bench.publish(&key, "alice", "m1", "hello", 1).await.expect("accepted");
    assert_eq!((first.seq, first.n, first.outcome()), (2, 1, Outcome::Accepted));
    let again = bench.publish(&key, "alice", "m1", "hello", 2).await.expect("duplicate");
    assert_eq!((again.seq, again.outcome()), (2, Outcome::Duplicate));
    let conflict = bench.publish(&key, "alice", "m1", "other words", 2).await.expect_err("conflict");
    assert_eq!((conflict.code, conflict.name.as_str()), (409, "client_mid_conflict"));
    let second = bench.publish(&key, "bob", "m1", "hi", 1).await.expect("another sender's mid");
    assert_eq!(second.seq, 3);
    let stranger = bench.publish(&key, "eve", "m1", "let me in", 1).await.expect_err("not a member");
    assert_eq!(stranger.code, 404);
}
