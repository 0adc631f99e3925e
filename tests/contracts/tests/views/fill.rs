//! Views that are filled anew or change their instance: tokens, markers, what is left behind.

use lapwing_model::Family;
use lapwing_views::{Applied, Expect, Found, Section};

use crate::store::{
    Store, ask_load, at, event, events, head, hot, id_of, joined, key, load, mid, newest, reset, section,
    step, take, window,
};

pub(crate) async fn a_rebuild_is_taken_by_its_token_alone(store: &mut impl Store) {
    let of = key("grp.a");
    let say = |expect, seq| section(&id_of(&of), Family::Commit, expect, vec![head(&of, seq)]);
    let (one, two) = (|| "one-7".to_owned(), || "two-9".to_owned());
    assert_eq!(take(store, say(Expect::Rebuild(one()), 1)).await, Applied::At(None), "nobody began it");
    assert_eq!(take(store, say(Expect::Begin(one()), 2)).await, Applied::Ok);
    assert_eq!(take(store, say(Expect::Rebuild(one()), 3)).await, Applied::Ok);
    assert_eq!(load(store, ask_load(&of, 0, &[], None)).await, None, "it says nothing before its end");
    assert_eq!(take(store, say(Expect::Begin(two()), 4)).await, Applied::Ok, "another one takes over");
    assert_eq!(take(store, say(Expect::Rebuild(one()), 5)).await, Applied::At(None));
    assert_eq!(take(store, say(Expect::End(one(), at(50)), 5)).await, Applied::At(None));
    assert_eq!(take(store, say(Expect::End(two(), at(60)), 6)).await, Applied::Ok);
    assert_eq!(take(store, say(Expect::End(two(), at(60)), 7)).await, Applied::Ok, "its answer was lost");
    for late in [Expect::Begin(one()), Expect::Rebuild(two()), Expect::End(one(), at(70))] {
        assert_eq!(take(store, say(late, 8)).await, Applied::At(Some(at(60))));
    }
    assert_eq!(load(store, ask_load(&of, 60, &[], None)).await.unwrap().header.head, 6);
}

pub(crate) async fn a_rebuild_replaces_what_is_left_of_an_earlier_view(store: &mut impl Store) {
    let (of, other) = (key("grp.a"), key("grp.b"));
    let old = |of| vec![hot(of, 1), hot(of, 2), joined(of, "alice", 1), mid(of, 1, 1, 0), head(of, 2)];
    take(store, step(&of, 0, 5, old(&of))).await;
    let next = if id_of(&of) == id_of(&other) { 5 } else { 0 };
    take(store, step(&other, next, 6, old(&other))).await;
    let rows = vec![reset(&of), head(&of, 1), joined(&of, "bob", 1), hot(&of, 2), hot(&of, 3), head(&of, 3)];
    take(store, section(&id_of(&of), Family::Commit, Expect::Any, rows)).await;
    let loaded = load(store, ask_load(&of, 0, &["alice", "bob"], None)).await.unwrap();
    assert_eq!((loaded.header.head, loaded.members[0], loaded.members[1].unwrap().from_seq), (3, None, 1));
    assert_eq!(window(store, &of).await, events(&of, [2, 3]));
    assert_eq!(window(store, &other).await, events(&other, [1, 2]), "another conversation keeps its own");
}

pub(crate) async fn a_view_that_left_refuses_and_names_its_instance(store: &mut impl Store) {
    let of = key("grp.a");
    let id = id_of(&of);
    take(store, step(&of, 0, 5, vec![hot(&of, 1), head(&of, 1)])).await;
    let leave = |from, ops| section(&id, Family::Commit, Expect::Leave(at(from), "two".to_owned()), ops);
    assert_eq!(take(store, leave(4, Vec::new())).await, Applied::At(Some(at(5))));
    assert_eq!(take(store, leave(5, vec![hot(&of, 2)])).await, Applied::Ok);
    assert_eq!(take(store, leave(5, Vec::new())).await, Applied::Ok, "its answer was lost");
    let moved = || Applied::Moved("two".to_owned());
    assert_eq!(take(store, step(&of, 5, 6, vec![head(&of, 9)])).await, moved());
    assert_eq!(take(store, step(&of, 0, 6, vec![head(&of, 9)])).await, moved());
    let begin = section(&id, Family::Commit, Expect::Begin("x".to_owned()), vec![head(&of, 9)]);
    assert_eq!(take(store, begin).await, moved());
    assert_eq!(store.found(&id, 0).await, Found { at: moved(), placed: None });
    assert_eq!(load(store, ask_load(&of, 0, &[], None)).await, None);
    // A reader that finds the marker goes where it points.
    assert_eq!(store.page(newest(&of)).await, None, "the other has nothing yet");
    let mut there = step(&of, 0, 6, vec![hot(&of, 3), head(&of, 3)]);
    there.piece.instance = 1;
    assert_eq!(take(store, there).await, Applied::Ok);
    let page = store.page(newest(&of)).await.unwrap();
    assert_eq!((page.header.head, page.events), (3, vec![event(&of, 3)]));
}

pub(crate) async fn an_instance_that_is_to_get_the_view_begins_with_nothing(store: &mut impl Store) {
    let of = key("grp.a");
    let id = id_of(&of);
    take(store, step(&of, 0, 5, vec![head(&of, 1)])).await;
    assert_eq!(store.found(&id, 0).await, Found { at: Applied::At(Some(at(5))), placed: None });
    assert_eq!(store.found(&id, 1).await, Found { at: Applied::At(None), placed: None }, "each for itself");
    store.place(&id, 0, 3).await;
    assert_eq!(store.found(&id, 0).await.placed, Some(3));
    store.clear(&id, 0).await;
    assert_eq!(store.found(&id, 0).await, Found { at: Applied::At(None), placed: None });
    let begin = |token: &str| section(&id, Family::Commit, Expect::Begin(token.to_owned()), Vec::new());
    take(store, begin("a")).await;
    store.clear(&id, 0).await;
    let late = section(&id, Family::Commit, Expect::Rebuild("a".to_owned()), vec![head(&of, 7)]);
    assert_eq!(take(store, late).await, Applied::At(None), "a filler from before it was cleared");
}

pub(crate) async fn what_a_move_left_behind_is_swept_away(store: &mut impl Store) {
    let (of, other) = (key("grp.a"), key("p2p.x"));
    let whole = |of| vec![hot(of, 4), joined(of, "alice", 1), head(of, 4)];
    let users = Section { piece: crate::store::piece(Family::User), ..step(&of, 0, 5, Vec::new()) };
    let sections = [step(&of, 0, 5, whole(&of)), step(&other, 0, 5, whole(&other)), users];
    assert_eq!(store.apply(0, &sections).await, [Applied::Ok, Applied::Ok, Applied::Ok]);
    store.sweep(&id_of(&of), 0).await;
    let swept = load(store, ask_load(&of, 0, &["alice"], None)).await.unwrap();
    assert_eq!((swept.header.head, &swept.members[..]), (0, &[None][..]));
    assert_eq!(window(store, &of).await, events(&of, []));
    let kept = load(store, ask_load(&other, 0, &["alice"], None)).await.unwrap();
    assert_eq!((kept.header.head, kept.members[0].is_some()), (4, true));
    assert_eq!(window(store, &other).await, events(&other, [4]));
}
