//! What stands in MySQL is exactly what is valid in the log.

use lapwing_proto::{
    Message as _,
    record::{AuditRecord, CursorRecord, Record},
};

use crate::{
    feed::{TENANT, created, message, message_with},
    world::{World, within},
};

// R-PST-2, R-PST-3, I3
#[tokio::test(flavor = "multi_thread")]
async fn only_valid_records_become_rows_and_each_once() {
    let world = World::start(2, &[]).await;
    let room = "grp.room";
    let mut old = world.feed.claim(room).await;
    old.send_as(old.epoch + 1000, 1, message_with(room, 1, 1, "x", "of no claim")).await;
    old.send(created(room, &["alice", "bob"])).await;
    old.send_all((2..=600).map(|seq| message(room, seq))).await;
    let mut new = world.feed.claim(room).await;
    old.send(message_with(room, 601, 600, "x", "of a zombie")).await;
    new.send_all((601..=700).map(|seq| message(room, seq))).await;
    new.send_as(new.epoch, new.index, message(room, 700)).await; // doubled
    new.send_as(new.epoch, new.index + 2, message_with(room, 702, 701, "x", "behind a hole")).await;
    let last = new.send(message(room, 701)).await;
    world.wait_for_head(room, 701, 20).await;
    world.assert_exact(room, 701).await;

    let (head, n, members): (i64, i64, u32) = sqlx::query_as(
        "SELECT head, n, member_count FROM conversations WHERE tenant = ? AND conversation = ?",
    )
    .bind(TENANT.as_bytes())
    .bind(room.as_bytes())
    .fetch_one(&world.sql)
    .await
    .unwrap();
    assert_eq!((head, n, members), (701, 700, 2));
    let cursor: (i64, i64) = sqlx::query_as("SELECT read_seq, read_n FROM cursors WHERE user = 'alice'")
        .fetch_one(&world.sql)
        .await
        .unwrap();
    assert_eq!(cursor, (701, 700), "the sender has read what it sent");
    assert_eq!(world.count("members").await, 2);
    assert_eq!(world.count("dead_letters").await, 0);
    let partition = new.at.clone();
    world
        .wait_for_mark("a mark behind the last record", |mark| {
            mark.partition.as_ref() == Some(&(&partition).into())
                && mark.persisted.is_some_and(|p| p.offset > last && p.epoch == new.epoch as i64)
        })
        .await;
}

// R-PST-4, R-ACK-3
#[tokio::test(flavor = "multi_thread")]
async fn only_the_bad_rows_become_dead_letters() {
    let world = World::start(1, &[]).await;
    let room = "grp.poison";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    owner.send_all((2..=4).map(|seq| message(room, seq))).await;
    owner.send(Record { sent_at_ms: u64::MAX, ..message(room, 5) }).await; // 1264
    owner.send(message(room, 6)).await;
    owner.feed.raw(&owner.at.topic, owner.at.partition, b"\xff\xff nobody can read this").await;
    owner.send(Record { client_mid: "m".repeat(100), ..message(room, 7) }).await; // 1406
    owner.send(Record { content_hash: vec![1; 40].into(), ..message(room, 8) }).await; // 1406
    owner.send_all((9..=12).map(|seq| message(room, seq))).await;
    world.wait_for_head(room, 12, 20).await;
    let seqs: Vec<u64> = world.rows(room).await.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 6, 9, 10, 11, 12]);
    assert_eq!(world.count("tombstones").await, 3);
    let dead: Vec<(u32, Vec<u8>)> =
        sqlx::query_as("SELECT error_code, seq_text FROM dead_letters ORDER BY record_offset")
            .fetch_all(&world.sql)
            .await
            .unwrap();
    let dead: Vec<_> = dead.iter().map(|(code, seq)| (*code, std::str::from_utf8(seq).unwrap())).collect();
    assert_eq!(dead, [(1264, "5"), (0, ""), (1406, "7"), (1406, "8")]);
    world.wait_for_mark("a mark with tombstones", |mark| mark.tombstones.len() == 3).await;

    // The same seq with other content is a dead letter too, and what stands there stays.
    owner.send(message_with(room, 3, 2, "mallory", "other content")).await;
    owner.send(message(room, 4)).await; // the same content: nothing
    owner.send(message(room, 13)).await;
    world.wait_for_head(room, 13, 20).await;
    assert_eq!(world.count("dead_letters").await, 5);
    assert_eq!(world.count("tombstones").await, 3);
    assert_eq!(world.rows(room).await[2].1.sender, "alice");
    let metrics = world.cluster.persister(0).metrics().await.unwrap();
    assert!(metrics.contains("lapwing_persist_total{result=\"dead\"} 5"), "{metrics}");
    assert!(metrics.contains("lapwing_seq_collisions_total 1"), "{metrics}");
}

// R-PST-3, R-PST-11
#[tokio::test(flavor = "multi_thread")]
async fn cursors_are_maxima_and_sessions_one_row() {
    // Its sessions are of 1970.
    let world = World::start(1, &[("LAPWING_AUDIT_DAYS", "0")]).await;
    let cursor = |read_seq, delivered_seq| CursorRecord {
        tenant: TENANT.into(),
        conversation: "p2p.x".into(),
        user: "alice".into(),
        read_seq,
        read_n: read_seq,
        delivered_seq,
    };
    for record in [cursor(5, 9), cursor(3, 4), cursor(0, 12)] {
        world.feed.raw("lapwing.cursor", 3, &record.encode_to_vec()).await;
    }
    let opened = AuditRecord {
        session: "0123".into(),
        tenant: TENANT.into(),
        user: "alice".into(),
        opened_at_ms: 5,
        ..AuditRecord::default()
    };
    world.feed.raw("lapwing.audit", 0, &opened.encode_to_vec()).await;
    world.feed.raw("lapwing.audit", 0, b"\xff").await;
    within(20, "cursor and session are stored", async || {
        world.count("cursors").await == 1 && world.count("session_audit WHERE closed_at_ms = 0").await == 1
    })
    .await;
    let closed = AuditRecord { closed_at_ms: 9, close_code: 4000, ..opened.clone() };
    world.feed.raw("lapwing.audit", 0, &closed.encode_to_vec()).await;
    world.feed.raw("lapwing.audit", 0, &opened.encode_to_vec()).await;
    within(20, "the session is closed", async || {
        world.count("session_audit WHERE closed_at_ms = 9 AND close_code = 4000").await == 1
    })
    .await;
    let maxima = "cursors WHERE read_seq = 5 AND read_n = 5 AND delivered_seq = 12";
    within(20, "maxima", async || world.count(maxima).await == 1).await;
    assert_eq!(world.count("dead_letters").await, 1, "the unreadable one stops nobody");
}

// A record that the client cannot decode stops no partition unless a record of the epoch is missing behind it.
#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_record_is_stepped_over_only_if_nothing_is_missing() {
    let world = World::start(1, &[]).await;
    let brokers = world.cluster.kafka().brokers();
    let room = "grp.foreign";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    owner.send(message(room, 2)).await;
    for _ in 0..3 {
        world.feed.undecodable(&brokers, &owner.at.topic, owner.at.partition).await;
    }
    owner.send_all((3..=50).map(|seq| message(room, seq))).await;
    world.wait_for_head(room, 50, 30).await;
    world.assert_exact(room, 50).await;
    assert!(world.count("dead_letters").await >= 1);
    within(10, "ready", async || world.ready(0).await.0 == 200).await;

    // Now the next index is missing: it may have been in what cannot be read.
    world.feed.undecodable(&brokers, &owner.at.topic, owner.at.partition).await;
    owner.index += 1;
    owner.send(message(room, 52)).await;
    within(20, "stopped, naming the offset", async || {
        let (status, body) = world.ready(0).await;
        status == 503 && body.contains("was part of epoch")
    })
    .await;
    assert_eq!(world.head(room).await, 50);
}

// R-SEQ-6, R-SEQ-9: a partition that was idle for days must be able to say from where its dedupe window is read.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_position_from_before_the_last_day_is_kept() {
    let world = World::start(1, &[]).await;
    let room = "grp.idle";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    world.wait_for_head(room, 1, 20).await;
    world.cluster.persister(0).stop().await;
    let sql = "UPDATE partition_times SET at_ms = ? WHERE topic = ? AND `partition` = ?";
    let place = |at_ms: i64| {
        sqlx::query(sql)
            .bind(at_ms)
            .bind(owner.at.topic.as_bytes())
            .bind(owner.at.partition)
            .execute(&world.sql)
    };
    let now = lapwing_runtime::time::now_ms() as i64;
    let hours = |hours: i64| now - hours * 3_600_000;
    place(hours(100)).await.unwrap();
    for at in [hours(72), hours(48), hours(12)] {
        let more = "INSERT INTO partition_times VALUES (?, ?, ?, 1, 0, 0)";
        let row = sqlx::query(more).bind(owner.at.topic.as_bytes()).bind(owner.at.partition).bind(at);
        row.execute(&world.sql).await.unwrap();
    }
    world.cluster.persister(0).start().await.unwrap();
    owner.send(message(room, 2)).await;
    world.wait_for_head(room, 2, 20).await;
    let kept: Vec<i64> = sqlx::query_scalar(
        "SELECT at_ms FROM partition_times WHERE topic = ? AND `partition` = ? AND at_ms < ? ORDER BY at_ms",
    )
    .bind(owner.at.topic.as_bytes())
    .bind(owner.at.partition)
    .bind(now)
    .fetch_all(&world.sql)
    .await
    .unwrap();
    assert_eq!(kept, [hours(48), hours(12)]);
}
