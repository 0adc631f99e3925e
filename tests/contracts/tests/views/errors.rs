//! What a real instance's troubles come out as, and that none of them leaves half a batch behind (I5).

use std::time::Duration;

use lapwing_links::redis::RedisError;
use lapwing_model::{Family, Member};
use lapwing_views::{Applied, Expect, OwnItem, Owned, Section, ViewError};

use crate::{
    real::Real,
    store::{
        Store as _, ask_load, at, event, events, head, hot, id_of, joined, key, load, mid, newest, persisted,
        reset, section, step, take, window,
    },
};

const GROUP: &str = "grp.a";

/// Taken, and read by everything.
async fn first(real: &mut Real) {
    let of = key(GROUP);
    let ops = vec![hot(&of, 1), hot(&of, 2), joined(&of, "alice", 1), head(&of, 2)];
    assert_eq!(take(real, step(&of, 0, 5, ops)).await, Applied::Ok);
}

/// The next batch; what is replayed of the first one lies in it, too.
fn second() -> Section {
    let of = key(GROUP);
    let ops =
        vec![hot(&of, 1), hot(&of, 2), hot(&of, 3), mid(&of, 1, 3, 0), joined(&of, "bob", 3), head(&of, 3)];
    step(&of, 5, 8, ops)
}

async fn nothing_of_the_second(real: &mut Real) {
    let of = key(GROUP);
    assert_eq!(window(real, &of).await, events(&of, [1, 2]));
    let loaded = load(real, ask_load(&of, 5, &["alice", "bob"], None)).await.unwrap();
    assert_eq!(
        (loaded.header.head, &loaded.members[..]),
        (2, &[Some(Member { from_seq: 1, to_seq: 0 }), None][..])
    );
    assert_eq!(real.found(&id_of(&of), 0).await.at, Applied::At(Some(at(5))));
}

async fn all_of_the_second(real: &mut Real) {
    let of = key(GROUP);
    assert_eq!(window(real, &of).await, events(&of, [1, 2, 3]));
    assert_eq!(load(real, ask_load(&of, 8, &["bob"], None)).await.unwrap().header.head, 3);
}

async fn fails(real: &Real, section: &Section) -> RedisError {
    match real.views.apply(0, std::slice::from_ref(section)).await {
        Err(ViewError::Redis(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn mine(client_mid: &str) -> OwnItem {
    let (tenant, sender, client_mid) = ("t".into(), "alice".into(), client_mid.into());
    OwnItem { tenant, sender, client_mid, content_hash: [1; 16] }
}

#[tokio::test]
async fn every_script_comes_back_after_a_flush() {
    let mut real = Real::start().await;
    let of = key(GROUP);
    for round in 0..2 {
        real.say(&["SCRIPT", "FLUSH"]).await;
        match round {
            0 => first(&mut real).await,
            _ => assert_eq!(take(&mut real, second()).await, Applied::Ok),
        }
        real.say(&["SCRIPT", "FLUSH"]).await;
        assert!(load(&mut real, ask_load(&of, 0, &[], None)).await.is_some());
        real.say(&["SCRIPT", "FLUSH"]).await;
        assert!(real.page(newest(&of)).await.is_some());
        real.say(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(real.conversations("t", "alice", 9).await, None);
        real.say(&["SCRIPT", "FLUSH"]).await;
        let expected = if round == 0 { Owned::New } else { Owned::SameContent };
        assert_eq!(real.own(&[mine("m")]).await, [expected]);
    }
    all_of_the_second(&mut real).await;
}

#[tokio::test]
async fn a_replica_takes_nothing_and_says_so() {
    let mut real = Real::start().await;
    first(&mut real).await;
    real.say(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let refused = fails(&real, &second()).await;
    assert_eq!(refused, RedisError::ReadOnly { instance: "one".to_owned() });
    assert_eq!(real.views.own(&[mine("m")], Duration::from_secs(1)).await, [None]);
    nothing_of_the_second(&mut real).await;
    real.say(&["REPLICAOF", "NO", "ONE"]).await;
    assert_eq!(take(&mut real, second()).await, Applied::Ok);
    assert_eq!(real.own(&[mine("m")]).await, [Owned::New]);
    all_of_the_second(&mut real).await;
}

// Redis decides at a script's first write, so a call is whole or was never begun; and what frees memory gets through.
#[tokio::test]
async fn without_memory_a_batch_is_whole_or_refused_and_a_full_window_can_be_trimmed() {
    let mut real = Real::start().await;
    first(&mut real).await;
    real.say(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let of = key(GROUP);
    let grows = step(&of, 5, 8, vec![hot(&of, 3), head(&of, 3), reset(&of)]);
    let error = fails(&real, &grows).await;
    assert!(matches!(&error, RedisError::Busy { .. }) && error.is_temporary(), "{error}");
    nothing_of_the_second(&mut real).await;
    assert_eq!(real.views.own(&[mine("m")], Duration::from_secs(1)).await, [None]);
    match real.views.apply(0, &[second()]).await {
        Ok(answers) => {
            assert_eq!(answers, [Applied::Ok]);
            all_of_the_second(&mut real).await;
        }
        Err(_) => nothing_of_the_second(&mut real).await,
    }
    let trim = section(&id_of(&of), Family::Commit, Expect::Any, vec![persisted(&of, 2, 1)]);
    assert_eq!(take(&mut real, trim).await, Applied::Ok);
    let page = real.page(newest(&of)).await.unwrap();
    assert_eq!((page.lowest, page.persisted_seq), (2, 2));
    real.say(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(take(&mut real, second()).await, Applied::Ok);
    assert_eq!(real.own(&[mine("m")]).await, [Owned::New]);
    assert_eq!(load(&mut real, ask_load(&of, 8, &["bob"], None)).await.unwrap().header.head, 3);
}

// It may have run: the same sections again find out and change nothing.
#[tokio::test]
async fn a_slow_instance_times_out_and_the_same_batch_again_is_harmless() {
    let mut real = Real::start().await;
    first(&mut real).await;
    // Its script is known by now: else it would have had to come twice within its deadline.
    real.own(&[mine("before")]).await;
    real.say(&["CLIENT", "PAUSE", "1500", "ALL"]).await;
    let began = std::time::Instant::now();
    let error = fails(&real, &second()).await;
    assert_eq!(error, RedisError::Timeout { instance: "one".to_owned(), after_ms: 1000 });
    let short = real.views.own(&[mine("m")], Duration::from_millis(20)).await;
    assert_eq!(short, [None]);
    assert!(began.elapsed() < Duration::from_millis(1400), "{:?}", began.elapsed());
    tokio::time::sleep(Duration::from_millis(600)).await;
    all_of_the_second(&mut real).await;
    assert_eq!(take(&mut real, second()).await, Applied::Ok);
    assert_eq!(real.own(&[mine("m")]).await, [Owned::SameContent], "that call has run, too");
    all_of_the_second(&mut real).await;
    let of = key(GROUP);
    assert_eq!(real.page(newest(&of)).await.unwrap().events.last(), Some(&event(&of, 3)));
}

#[tokio::test]
async fn several_calls_that_timed_out_are_found_whole() {
    let mut real = Real::start().await;
    first(&mut real).await;
    // Too much for one call: the second goes on from where the first one ends.
    let of = key(GROUP);
    let many = (4..3000).flat_map(|seq| [hot(&of, seq), head(&of, seq)]).collect();
    let sections = [second(), step(&of, 8, 9, many)];
    real.say(&["CLIENT", "PAUSE", "1200", "WRITE"]).await;
    let error = real.views.apply(0, &sections).await.unwrap_err();
    assert!(matches!(&error, ViewError::Redis(RedisError::Timeout { .. })), "{error}");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(real.apply(0, &sections[1..]).await, [Applied::Ok]);
    assert_eq!(window(&mut real, &of).await, events(&of, 1..3000));
}
