//! `apply.lua`: a batch and its position are one (I5).

use lapwing_model::{Family, Header, Op};
use lapwing_views::{Applied, Expect};

use crate::store::{
    START, Store, ask_load, at, events, head, hot, id_of, joined, key, load, mid, newest, persisted, section,
    step, take, window,
};

pub(crate) async fn a_section_is_taken_at_its_position_alone(store: &mut impl Store) {
    let of = key("grp.a");
    let batch = |from, to, seq| {
        step(
            &of,
            from,
            to,
            vec![hot(&of, seq), joined(&of, "alice", seq), mid(&of, 1, seq, 0), head(&of, seq)],
        )
    };
    assert_eq!(take(store, batch(7, 9, 3)).await, Applied::At(None), "no position is the log's start alone");
    assert_eq!(store.page(newest(&of)).await, None);
    assert_eq!(take(store, batch(0, 5, 1)).await, Applied::Ok);
    let before = (store.page(newest(&of)).await, load(store, ask_load(&of, 0, &["alice"], Some(1))).await);
    for from in [0, 4, 6] {
        assert_eq!(take(store, batch(from, 9, 3)).await, Applied::At(Some(at(5))), "from {from}");
    }
    // The same offset under another claim is another position.
    let mut other = at(5);
    other.epoch += 1;
    let strange = section(&id_of(&of), Family::Commit, Expect::Move(other, at(9)), vec![head(&of, 9)]);
    assert_eq!(take(store, strange).await, Applied::At(Some(at(5))));
    let after = (store.page(newest(&of)).await, load(store, ask_load(&of, 0, &["alice"], Some(1))).await);
    assert_eq!(before, after);
    assert_eq!(take(store, batch(5, 9, 2)).await, Applied::Ok);
    assert_eq!(window(store, &of).await, events(&of, [1, 2]));
    assert_eq!(load(store, ask_load(&of, 9, &[], None)).await.unwrap().header.head, 2);
    assert_eq!(load(store, ask_load(&of, 10, &[], None)).await, None);
}

pub(crate) async fn sections_of_one_call_stand_for_themselves(store: &mut impl Store) {
    let (one, other) = (key("grp.a"), key("p2p.x"));
    let id = id_of(&one);
    let answers = store
        .apply(
            0,
            &[
                step(&one, 0, 3, vec![hot(&one, 1)]),
                step(&other, 8, 9, vec![hot(&other, 1)]),
                step(&one, 3, 4, vec![hot(&one, 2)]),
                step(&one, 3, 5, vec![hot(&one, 3)]),
                section(&id, Family::User, Expect::Move(START, at(2)), Vec::new()),
            ],
        )
        .await;
    let stands = Applied::At(Some(at(4)));
    assert_eq!(answers, [Applied::Ok, Applied::At(None), Applied::Ok, stands, Applied::Ok]);
    assert_eq!(window(store, &one).await, events(&one, [1, 2]));
    assert_eq!(store.page(newest(&other)).await, None);
    assert_eq!(store.apply(0, &[]).await, []);
}

pub(crate) async fn the_same_section_again_changes_nothing(store: &mut impl Store) {
    let of = key("grp.a");
    let batch = |from: u64, seqs: std::ops::RangeInclusive<u64>| {
        let last = *seqs.end();
        let ops = seqs.flat_map(|seq| [hot(&of, seq), head(&of, seq), joined(&of, "alice", seq)]);
        step(&of, from, from + last, ops.collect())
    };
    assert_eq!(take(store, batch(0, 1..=3)).await, Applied::Ok);
    assert_eq!(take(store, batch(0, 1..=3)).await, Applied::Ok, "its answer was lost");
    let ask = || ask_load(&of, 3, &["alice"], None);
    let before = (load(store, ask()).await, store.page(newest(&of)).await);
    // Read again from the log with other bounds, as a replay does.
    store.clear(&id_of(&of), 0).await;
    for (from, seqs) in [(0, 1..=2), (2, 3..=3)] {
        let last = *seqs.end();
        let ops = seqs.flat_map(|seq| [hot(&of, seq), head(&of, seq), joined(&of, "alice", seq)]).collect();
        assert_eq!(take(store, step(&of, from, last, ops)).await, Applied::Ok);
    }
    assert_eq!((load(store, ask()).await, store.page(newest(&of)).await), before);
    assert_eq!(window(store, &of).await, events(&of, 1..=3));
}

pub(crate) async fn what_comes_from_elsewhere_leaves_the_position(store: &mut impl Store) {
    let of = key("grp.a");
    let anyway = |ops| section(&id_of(&of), Family::Commit, Expect::Any, ops);
    assert_eq!(take(store, anyway(vec![persisted(&of, 4, 0)])).await, Applied::Ok);
    assert_eq!(store.found(&id_of(&of), 0).await.at, Applied::At(None), "there still is none");
    assert_eq!(load(store, ask_load(&of, 0, &[], None)).await, None);
    take(store, step(&of, 0, 5, vec![head(&of, 6)])).await;
    assert_eq!(take(store, anyway(vec![persisted(&of, 5, 0)])).await, Applied::Ok);
    assert_eq!(store.found(&id_of(&of), 0).await.at, Applied::At(Some(at(5))));
    let loaded = load(store, ask_load(&of, 5, &[], None)).await.unwrap();
    assert_eq!((loaded.header.head, loaded.persisted), (6, 5));
}

// Lua unpacks only so much at once, and a call has a length of its own.
pub(crate) async fn a_long_batch_is_whole(store: &mut impl Store) {
    let (of, other) = (key("grp.a"), key("grp.b"));
    let mut ops = vec![Op::Head {
        key: of.clone(),
        bucket: lapwing_model::bucket::bucket_of(&of).unwrap(),
        head: 1,
        n: 1,
        member_count: Some(3),
        history: Some(true),
    }];
    for seq in 1..=2300 {
        ops.extend([hot(&of, seq), mid(&of, seq as u8, seq, 0), head(&of, seq)]);
    }
    let next = vec![hot(&other, 1), hot(&other, 2), head(&other, 2)];
    let sections = [
        step(&of, 0, 2300, ops),
        step(&other, if id_of(&of) == id_of(&other) { 2300 } else { 0 }, 2400, next),
    ];
    assert_eq!(store.apply(0, &sections).await, [Applied::Ok, Applied::Ok]);
    assert_eq!(window(store, &of).await, events(&of, 1..=2300));
    assert_eq!(window(store, &other).await, events(&other, 1..=2));
    let header = Header { head: 2300, n: 2300, member_count: 3, history_for_new_members: true };
    assert_eq!(load(store, ask_load(&of, 2300, &[], None)).await.unwrap().header, header);
}
