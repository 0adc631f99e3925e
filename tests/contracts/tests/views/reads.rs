//! `load.lua`, `hot.lua`, `convs.lua`, `own.lua` and the single values: what was applied, read back.

use std::sync::Arc;

use lapwing_model::{
    Family, Header, Member, Op, PartitionId, Position, bucket::bucket_of, kind::KINDS, view::SLICE_MS,
};
use lapwing_views::{Applied, Expect, OwnItem, Owned, PageAsk, UserConversation};

use crate::store::{
    NOW, PARTITIONS, START, Store, WINDOW_MS, ask_load, at, events, head, hot, id_of, joined, key, left,
    load, mid, newest, persisted, reset, section, step, take, window,
};

pub(crate) async fn a_load_says_nothing_below_the_lowest_position(store: &mut impl Store) {
    let (one, other) = (key("grp.a"), key("p2p.x"));
    let ask = |lowest| ask_load(&one, lowest, &["alice", "nobody"], Some(1));
    assert_eq!(load(store, ask(0)).await, None, "a view without a position");
    let bucket = bucket_of(&one).unwrap();
    let header = Header { head: 3, n: 2, member_count: 7, history_for_new_members: true };
    let first =
        Op::Head { key: one.clone(), bucket, head: 2, n: 1, member_count: Some(7), history: Some(true) };
    let next = Op::Head { key: one.clone(), bucket, head: 3, n: 2, member_count: None, history: None };
    let ops = vec![first, joined(&one, "alice", 2), mid(&one, 1, 3, NOW), next];
    assert_eq!(take(store, step(&one, 0, 30, ops)).await, Applied::Ok);
    assert_eq!(load(store, ask(31)).await, None);
    let found = load(store, ask(30)).await.unwrap();
    assert_eq!((found.header, found.persisted), (header, 0));
    assert_eq!(found.members, [Some(Member { from_seq: 2, to_seq: 0 }), None]);
    assert_eq!(found.mid.map(|entry| entry.seq), Some(3));
    // Each item for itself.
    let (none, empty) =
        (ask_load(&other, 0, &["alice"], None), ask_load(&key("grp.none"), 0, &["alice"], Some(9)));
    let items = [ask(5), none, ask(99), ask_load(&one, 0, &[], None)];
    let loaded = store.load(0, &items).await;
    assert_eq!(loaded.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false, true]);
    assert_eq!(loaded[3].as_ref().unwrap().members, []);
    if id_of(&key("grp.none")) == id_of(&one) {
        let empty = load(store, empty).await.unwrap();
        assert_eq!((empty.header, empty.mid, &empty.members[..]), (Header::default(), None, &[None][..]));
    }
}

pub(crate) async fn members_come_and_go(store: &mut impl Store) {
    let of = key("grp.a");
    let ops = vec![
        joined(&of, "alice", 3),
        left(&of, "alice", 8),
        joined(&of, "bob", 3),
        left(&of, "bob", 5),
        joined(&of, "bob", 7),
        left(&of, "early", 9),
    ];
    take(store, step(&of, 0, 5, ops)).await;
    let members = load(store, ask_load(&of, 5, &["bob", "early", "alice"], None)).await.unwrap().members;
    let member = |from_seq, to_seq| Some(Member { from_seq, to_seq });
    assert_eq!(members, [member(7, 0), member(0, 9), member(3, 8)]);
    let ask = |user| PageAsk { user, ..newest(&of) };
    assert_eq!(store.page(ask(Some("alice"))).await.unwrap().member, member(3, 8));
    assert_eq!(store.page(ask(Some("nobody"))).await.unwrap().member, None);
    assert_eq!(store.page(ask(None)).await.unwrap().member, None);
}

// R-SEQ-4: the window is cut by slices, of which the first and the last have room for clocks that differ.
pub(crate) async fn a_mid_is_found_in_the_window_s_slices(store: &mut impl Store) {
    let of = key("grp.a");
    let first = (NOW - WINDOW_MS) / SLICE_MS * SLICE_MS;
    let sent = [first, first - 1, NOW + SLICE_MS, NOW + 2 * SLICE_MS, NOW];
    let ops = sent.iter().zip(1..).map(|(sent, name)| mid(&of, name, u64::from(name), *sent)).collect();
    take(store, step(&of, 0, 5, ops)).await;
    let mut found = Vec::new();
    for name in 1..=6 {
        found.push(load(store, ask_load(&of, 5, &[], Some(name))).await.unwrap().mid.map(|entry| entry.seq));
    }
    assert_eq!(found, [Some(1), None, Some(3), None, Some(5), None]);
    // Sent again much later under the same client_mid: the newest counts.
    take(store, step(&of, 5, 6, vec![mid(&of, 1, 60, NOW), mid(&of, 5, 50, first)])).await;
    let seq = async |store: &mut _, name| {
        load(store, ask_load(&of, 6, &[], Some(name))).await.unwrap().mid.unwrap().seq
    };
    assert_eq!((seq(store, 1).await, seq(store, 5).await), (60, 5));
}

pub(crate) async fn a_page_has_what_was_asked_for(store: &mut impl Store) {
    let of = key("grp.a");
    let ask = |from, to, limit, newest| PageAsk { key: &of, user: None, from, to, limit, newest };
    assert_eq!(store.page(ask(1, 9, 9, true)).await, None, "a view without a position");
    take(store, step(&of, 0, 5, (3..=12).map(|seq| hot(&of, seq)).chain([head(&of, 12)]).collect())).await;
    for (page, seqs) in [
        (ask(5, 8, 50, true), 5..9),
        (ask(5, 8, 50, false), 5..9),
        (ask(5, 12, 3, true), 10..13),
        (ask(5, 12, 3, false), 5..8),
        (ask(0, 4, 50, false), 3..5),
        (ask(11, 99, 50, true), 11..13),
        (ask(5, 12, 0, true), 0..0),
        (ask(13, 99, 9, true), 0..0),
        (ask(9, 8, 9, false), 0..0),
    ] {
        let found = store.page(page).await.unwrap();
        assert_eq!(found.events, events(&of, seqs), "{page:?}");
        assert_eq!((found.lowest, found.header.head), (3, 12), "{page:?}");
    }
    store.right_up_to(&id_of(&of), 5, 99);
    assert!(store.page(ask(1, 9, 9, true)).await.is_some());
    store.right_up_to(&id_of(&of), 6, 0);
    store.right_up_to(&id_of(&of), 2, 0);
    assert_eq!(store.page(ask(1, 9, 9, true)).await, None, "it was further once");
    take(store, step(&of, 5, 6, Vec::new())).await;
    assert!(store.page(ask(1, 9, 9, true)).await.is_some());
}

pub(crate) async fn what_is_persisted_only_grows_and_trims(store: &mut impl Store) {
    let (of, other) = (key("grp.a"), key("grp.b"));
    take(store, step(&of, 0, 5, (1..7).map(|seq| hot(&of, seq)).chain([head(&of, 6)]).collect())).await;
    let next = if id_of(&of) == id_of(&other) { 5 } else { 0 };
    take(store, step(&other, next, 6, vec![hot(&other, 1)])).await;
    for (seq, trim_to, persisted_to, left) in [
        (3, 0, 3, 1..7),
        (2, 1, 3, 2..7),
        (5, 4, 5, 5..7),
        (6, 9, 6, 7..7),
        (10, 0, 10, 7..7),
        (9, 0, 10, 7..7),
    ] {
        take(store, section(&id_of(&of), Family::Commit, Expect::Any, vec![persisted(&of, seq, trim_to)]))
            .await;
        let page = store.page(newest(&of)).await.unwrap();
        let lowest = if left.is_empty() { 0 } else { left.start };
        assert_eq!((page.persisted_seq, page.lowest, page.events), (persisted_to, lowest, events(&of, left)));
        assert_eq!(load(store, ask_load(&of, 0, &[], None)).await.unwrap().persisted, persisted_to);
    }
    assert_eq!(window(store, &other).await, events(&other, [1]));
    // One batch may write, trim and write again.
    let from = if next == 5 { 6 } else { 5 };
    let ops = vec![hot(&of, 7), hot(&of, 8), persisted(&of, 8, 7), hot(&of, 9), head(&of, 9)];
    assert_eq!(take(store, step(&of, from, 9, ops)).await, Applied::Ok);
    assert_eq!(window(store, &of).await, events(&of, [8, 9]));
    let ops = vec![hot(&of, 10), persisted(&of, 10, 9), reset(&of), hot(&of, 11)];
    assert_eq!(take(store, step(&of, 9, 11, ops)).await, Applied::Ok);
    assert_eq!(window(store, &of).await, events(&of, [11]), "nothing overtakes on its key");
}

async fn begin_users(store: &mut impl Store, except: Option<&PartitionId>) {
    for id in KINDS.iter().flat_map(|kind| (0..PARTITIONS).map(|n| PartitionId::new(kind.topic(), n))) {
        if Some(&id) != except {
            take(store, section(&id, Family::User, Expect::Move(START, at(5)), Vec::new())).await;
        }
    }
}

fn of_user(conversation: &str, user: &str) -> (Arc<str>, Arc<str>, Arc<str>) {
    ("t".into(), user.into(), conversation.into())
}

fn user_joined(of: &str, user: &str, from_seq: u64) -> Op {
    let (tenant, user, conversation) = of_user(of, user);
    Op::UserJoined { tenant, user, conversation, member: Member { from_seq, to_seq: 0 } }
}

fn cursor(of: &str, user: &str, read: (u64, u64), delivered_seq: u64) -> Op {
    let (tenant, user, conversation) = of_user(of, user);
    Op::Cursor { tenant, user, conversation, read_seq: read.0, read_n: read.1, delivered_seq }
}

pub(crate) async fn conversations_need_the_positions_of_all_partitions(store: &mut impl Store) {
    let last = PartitionId::new(KINDS[2].topic(), PARTITIONS - 1);
    begin_users(store, Some(&last)).await;
    let (tenant, user, conversation) = of_user("p2p.x", "alice");
    let peer = Op::UserPeer { tenant, user, conversation, peer: "bob".into() };
    let (tenant, user, conversation) = of_user("grp.b", "alice");
    let left = Op::UserLeft { tenant, user, conversation, to_seq: 9 };
    for (of, ops) in [
        ("p2p.x", vec![peer, user_joined("p2p.x", "alice", 1), user_joined("p2p.x", "bob", 1)]),
        ("grp.b", vec![user_joined("grp.b", "alice", 4), left, cursor("grp.b", "alice", (3, 2), 5)]),
        ("grp.a", vec![user_joined("grp.a", "alice", 2)]),
    ] {
        let any = section(&id_of(&key(of)), Family::User, Expect::Any, ops);
        assert_eq!(take(store, any).await, Applied::Ok);
    }
    assert_eq!(store.conversations("t", "alice", 9).await, None, "one partition's view has no position");
    take(store, section(&last, Family::User, Expect::Move(START, at(1)), Vec::new())).await;
    let expected = |conversation: &str, from_seq, to_seq| UserConversation {
        conversation: conversation.to_owned(),
        member: Member { from_seq, to_seq },
        ..UserConversation::default()
    };
    let cursors = UserConversation { read_seq: 3, read_n: 2, delivered_seq: 5, ..expected("grp.b", 4, 9) };
    let all = [
        expected("grp.a", 2, 0),
        cursors,
        UserConversation { peer: "bob".to_owned(), ..expected("p2p.x", 1, 0) },
    ];
    assert_eq!(store.conversations("t", "alice", 9).await.unwrap(), all);
    assert_eq!(store.conversations("t", "alice", 2).await.unwrap(), all[..2]);
    assert_eq!(store.conversations("t", "carol", 9).await.unwrap(), []);
    let sent = |seq, n| {
        let (tenant, user, conversation) = of_user("grp.b", "alice");
        section(
            &id_of(&key("grp.b")),
            Family::User,
            Expect::Any,
            vec![Op::Sent { tenant, user, conversation, seq, n }],
        )
    };
    for (seq, read) in [(2, (3, 2)), (7, (7, 4))] {
        assert_eq!(take(store, sent(seq, 4)).await, Applied::Ok);
        let of = &store.conversations("t", "alice", 9).await.unwrap()[1];
        assert_eq!(
            (of.read_seq, of.read_n, of.delivered_seq),
            (read.0, read.1, 5),
            "the further one (R-FAN-8)"
        );
    }
    assert_eq!(store.conversations("u", "alice", 9).await.unwrap(), [], "another tenant");
    store.right_up_to(&last, 99, 1);
    assert!(store.conversations("t", "alice", 9).await.is_some());
    store.right_up_to(&last, 0, 2);
    assert_eq!(store.conversations("t", "alice", 9).await, None, "it was further once");
}

pub(crate) async fn cursors_are_maxima(store: &mut impl Store) {
    begin_users(store, None).await;
    let id = id_of(&key("grp.a"));
    let apply = |ops| section(&id, Family::User, Expect::Any, ops);
    take(store, apply(vec![user_joined("grp.a", "alice", 1)])).await;
    for (moves, expected) in [
        (vec![((3, 2), 0)], (3, 2, 0)),
        (vec![((0, 0), 9)], (3, 2, 9)),
        (vec![((2, 7), 4)], (3, 2, 9)),
        // In one batch they are joined, and the n goes with its read seq.
        (vec![((10, 6), 1), ((9, 8), 12), ((4, 1), 11)], (10, 6, 12)),
        (vec![((100, 50), 99), ((20, 60), 100)], (100, 50, 100)),
        (vec![((100, 51), 0)], (100, 51, 100)),
    ] {
        let ops =
            moves.into_iter().map(|(read, delivered)| cursor("grp.a", "alice", read, delivered)).collect();
        take(store, apply(ops)).await;
        let of = &store.conversations("t", "alice", 9).await.unwrap()[0];
        assert_eq!((of.read_seq, of.read_n, of.delivered_seq), expected);
    }
}

pub(crate) async fn told_only_moves_forward(store: &mut impl Store) {
    let id = id_of(&key("grp.a"));
    let tell = |at: Position| section(&id, Family::Commit, Expect::Any, vec![Op::Told { at }]);
    assert_eq!(store.told(&id).await, None);
    for (told, then) in [(9, 9), (10, 10), (8, 10), (100, 100), (20, 100)] {
        assert_eq!(take(store, tell(at(told))).await, Applied::Ok);
        assert_eq!(store.told(&id).await, Some(at(then)), "told {told}");
    }
    let other = Position { epoch: 77, ..at(100) };
    take(store, tell(other)).await;
    assert_eq!(store.told(&id).await, Some(at(100)));
}

// R-SEQ-7
pub(crate) async fn a_client_mid_belongs_to_its_first_content(store: &mut impl Store) {
    let item = |tenant: &str, sender: &str, mid: &str, hash| OwnItem {
        tenant: tenant.into(),
        sender: sender.into(),
        client_mid: mid.into(),
        content_hash: [hash; 16],
    };
    let first = [item("t", "alice", "m1", 1), item("t", "alice", "m1", 1), item("t", "alice", "m1", 2)];
    assert_eq!(store.own(&first).await, [Owned::New, Owned::SameContent, Owned::OtherContent]);
    let strangers = [item("t", "bob", "m1", 2), item("u", "alice", "m1", 2), item("t", "alice", "m2", 2)];
    assert_eq!(store.own(&strangers).await, [Owned::New; 3]);
    assert_eq!(store.own(&[item("t", "alice", "m1", 1)]).await, [Owned::SameContent]);
    assert_eq!(store.own(&[]).await, []);
}
