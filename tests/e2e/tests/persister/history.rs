//! Pages of a conversation, as each user may see it.

use lapwing_proto::bus::PersisterHistory;

use crate::{
    feed::{Feed, TENANT, added, created, message_with, removed},
    world::World,
};

fn page(user: &str, from: u64, to: u64, limit: u32, newest: bool) -> PersisterHistory {
    PersisterHistory {
        tenant: TENANT.into(),
        conversation: ROOM.into(),
        user: user.into(),
        from,
        to,
        limit,
        newest,
    }
}

const ROOM: &str = "grp.history";
const ALL: u64 = u64::MAX;

async fn fill(feed: &Feed) {
    let mut owner = feed.claim(ROOM).await;
    owner.send(created(ROOM, &["alice"])).await;
    let text = |seq: u64, n: u64| message_with(ROOM, seq, n, "alice", &format!("m{seq}"));
    owner.send_all((2..=4).map(|seq| text(seq, seq - 1))).await;
    owner.send(added(ROOM, 5, 3, "bob", 0, 2)).await;
    owner.send_all((6..=8).map(|seq| text(seq, seq - 2))).await;
    owner.send(removed(ROOM, 9, 6, "bob", 1)).await;
    owner.send_all((10..=12).map(|seq| text(seq, seq - 3))).await;
}

// R-PST-9
#[tokio::test(flavor = "multi_thread")]
async fn each_user_sees_its_time_in_the_conversation() {
    let world = World::start(2, &[]).await;
    fill(&world.feed).await;
    world.wait_for_head(ROOM, 12, 20).await;
    for (user, from, to, limit, newest, expected) in [
        ("alice", 1, ALL, 3, true, vec![10, 11, 12]),
        ("alice", 1, ALL, 3, false, vec![1, 2, 3]),
        ("alice", 4, 6, 100, false, vec![4, 5, 6]),
        ("bob", 1, ALL, 100, false, vec![5, 6, 7, 8, 9]),
        ("bob", 1, ALL, 2, true, vec![8, 9]),
        ("bob", 10, ALL, 100, false, vec![]),
        ("", 1, ALL, 2, true, vec![11, 12]),
        ("alice", 1, ALL, 0, false, vec![]),
    ] {
        let rows = world.ask(&page(user, from, to, limit, newest)).await;
        let seqs: Vec<u64> = rows.events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, expected, "{user} {from} {to} {limit} {newest}");
        assert!(rows.found && rows.member && rows.error.is_none());
        assert_eq!((rows.head, rows.n, rows.persisted_seq), (12, 9, 12));
    }
    let bob = world.ask(&page("bob", 1, ALL, 0, false)).await;
    assert_eq!((bob.from_seq, bob.to_seq), (5, 9));
    let stranger = world.ask(&page("eve", 1, ALL, 100, false)).await;
    assert!(stranger.found && !stranger.member && stranger.events.is_empty());
    let nowhere = PersisterHistory { conversation: "grp.nowhere".into(), ..page("alice", 1, ALL, 10, true) };
    assert!(!world.ask(&nowhere).await.found);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_come_in_smaller_pages_without_holes() {
    let world = World::start(1, &[]).await;
    let mut owner = world.feed.claim(ROOM).await;
    owner.send(created(ROOM, &["alice"])).await;
    let large = "x".repeat(400 << 10);
    owner.send_all((2..=10).map(|seq| message_with(ROOM, seq, seq - 1, "alice", &large))).await;
    world.wait_for_head(ROOM, 10, 20).await;
    let mut next = 1;
    while next <= 10 {
        let rows = world.ask(&page("alice", next, ALL, 100, false)).await;
        let seqs: Vec<u64> = rows.events.iter().map(|event| event.seq).collect();
        assert!(!seqs.is_empty() && seqs.len() <= 4, "{seqs:?}");
        assert_eq!(seqs, (next..next + seqs.len() as u64).collect::<Vec<_>>());
        next += seqs.len() as u64;
    }
    let newest = world.ask(&page("alice", 1, ALL, 100, true)).await;
    assert_eq!(newest.events.last().unwrap().seq, 10);
}

// R-PST-8: a read storm is answered busy, and writing goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_reads_is_answered_busy_and_slows_no_writer() {
    let env = [("LAPWING_READ_POOL", "1"), ("LAPWING_HISTORY_WAITING", "4")];
    let world = World::start(1, &env).await;
    fill(&world.feed).await;
    world.wait_for_head(ROOM, 12, 20).await;
    let asked = page("alice", 1, ALL, 500, false);
    let storm = futures::future::join_all((0..300).map(|_| world.ask(&asked)));
    let other = "grp.meanwhile";
    let writing = async {
        let mut owner = world.feed.claim(other).await;
        owner.send(created(other, &["alice"])).await;
        owner.send_all((2..=300).map(|seq| crate::feed::message(other, seq))).await;
        world.wait_for_head(other, 300, 10).await;
    };
    let (answers, ()) = tokio::join!(storm, writing);
    let busy =
        answers.iter().filter(|rows| rows.error.as_ref().is_some_and(|error| error.name == "busy")).count();
    let full = answers.iter().filter(|rows| rows.events.len() == 12).count();
    assert!(busy > 0 && full > 0 && busy + full == 300, "{busy} busy, {full} full");
}
