//! A range of buckets goes to another MySQL instance, and back, while rows are written and read.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lapwing_proto::{
    Message as _,
    bus::{HistoryRows, PersisterHistory},
};
use lapwing_servers::http;
use sqlx::{AssertSqlSafe, MySqlPool};

use crate::{
    feed::TENANT,
    placement::{room_in, seqs, table_of, write_until},
    world::{World, within},
};

const FIRST: u64 = 3000;

/// What an operator does; a persister that is just being killed is followed by the other.
async fn wish(world: &World, buckets: &str, to: &str) {
    let path = format!("/admin/move-range?view=mysql&buckets={buckets}&to={to}");
    within(20, "somebody writes the wish down", async || {
        for persister in 0..2 {
            let address = world.cluster.persister(persister).admin_address();
            let key = Some(world.cluster.operator_key());
            if let Ok(answer) = http::request(&address, "POST", &path, key, None).await
                && answer.status == 200
            {
                return true;
            }
        }
        false
    })
    .await;
}

/// Partitions that are there for good, of those of the first half.
async fn placed(world: &World, instance: &str) -> i64 {
    sqlx::query_scalar(
        "SELECT COUNT(*) FROM placements WHERE `partition` < 4 AND instance = ? AND filling = '' AND sweeping = ''",
    )
    .bind(instance.as_bytes())
    .fetch_one(&world.sql)
    .await
    .unwrap()
}

/// Reads the newest page again and again: never a hole, never less than before. How often there was an answer.
async fn read_until(world: &World, stop: &AtomicBool, room: &str) -> usize {
    let (mut head, mut answers) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let asked = PersisterHistory {
            tenant: TENANT.into(),
            conversation: room.into(),
            from: 1,
            to: u64::MAX,
            limit: 50,
            newest: true,
            ..PersisterHistory::default()
        };
        let asking = world.nats.request("lw.p.history", asked.encode_to_vec().into());
        // One that is killed in its middle answers nothing.
        let Ok(Ok(answer)) = tokio::time::timeout(Duration::from_secs(2), asking).await else { continue };
        let rows = HistoryRows::decode(answer.payload).unwrap();
        if rows.error.is_some() {
            continue;
        }
        answers += 1;
        assert!(rows.head >= head, "the head went back from {head} to {}", rows.head);
        head = rows.head;
        let seqs: Vec<u64> = rows.events.iter().map(|event| event.seq).collect();
        let whole: Vec<u64> = (head.saturating_sub(49).max(1)..=head).collect();
        assert_eq!(seqs, whole, "a hole below {head}");
    }
    answers
}

async fn count(sql: &MySqlPool, table: &str, tenant: &str, room: &str) -> i64 {
    let statement = format!("SELECT COUNT(*) FROM {table} WHERE tenant = ? AND conversation = ?");
    sqlx::query_scalar(AssertSqlSafe(statement))
        .bind(tenant.as_bytes())
        .bind(room.as_bytes())
        .fetch_one(sql)
        .await
        .unwrap()
}

async fn move_under_load(world: &World, to: &str, kills: usize) -> Vec<(&'static str, String, u64)> {
    let tag = if to == "two" { 0 } else { 4 };
    let rooms: Vec<(&str, String)> = (tag..tag + 3)
        .map(|number| (TENANT, room_in(TENANT, false, number)))
        .chain([("acme", room_in("acme", false, tag))])
        .collect();
    let stop = AtomicBool::new(false);
    let moving = async {
        world.wait_for(&rooms[0].1, FIRST).await;
        wish(world, "0-127", to).await;
        for kill in 0..kills {
            tokio::time::sleep(Duration::from_millis(700)).await;
            let persister = world.cluster.persister(kill % 2);
            persister.kill9().await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            persister.spawn().unwrap();
        }
        within(60, "all of the range is there", async || placed(world, to).await == 12).await;
        stop.store(true, Ordering::Relaxed);
    };
    let (written, answers, ()) =
        tokio::join!(write_until(world, &stop, &rooms, FIRST), read_until(world, &stop, &rooms[0].1), moving);
    eprintln!("to {to}: {written:?}, {answers} pages read");
    assert!(answers > 20, "{answers}");
    written
}

impl World {
    /// On whichever instance.
    async fn wait_for(&self, room: &str, last: u64) {
        let table = table_of(TENANT, room);
        within(60, &format!("{room} up to {last}"), async || {
            let (one, two) = (seqs(&self.sql, &table, TENANT, room), seqs(self.two(), &table, TENANT, room));
            let (one, two) = tokio::join!(one, two);
            one.last().max(two.last()).is_some_and(|seq| *seq >= last)
        })
        .await;
    }

    async fn assert_only_on(&self, second: bool, tenant: &str, room: &str, last: u64) {
        let (here, there) = if second { (self.two(), &self.sql) } else { (&self.sql, self.two()) };
        let (table, all) = (table_of(tenant, room), (1..=last).collect::<Vec<_>>());
        within(30, &format!("{tenant} {room} is whole"), async || {
            seqs(here, &table, tenant, room).await == all
        })
        .await;
        for (table, rows) in [(table.as_str(), 0), ("conversations", 0), ("members", 0), ("cursors", 0)] {
            assert_eq!(count(there, table, tenant, room).await, rows, "{tenant} {room}: {table} left behind");
        }
        for (table, rows) in [("conversations", 1), ("members", 2), ("cursors", 1)] {
            assert_eq!(count(here, table, tenant, room).await, rows, "{tenant} {room}: {table}");
        }
    }
}

// R-PST-12, R-PST-2, R-SEQ-3, I6
#[tokio::test(flavor = "multi_thread")]
async fn a_range_moves_while_rows_are_written_and_read_and_holders_die() {
    let world = World::prepare_two(2, &[("LAPWING_MYSQL_TENANTS", "acme=two")]).await;
    world.cluster.start_services().await.unwrap();
    let written = move_under_load(&world, "two", 3).await;
    for (tenant, room, last) in &written {
        world.assert_only_on(true, tenant, room, *last).await;
    }
    // Back again, where a mark says that the rows have gone.
    let later = move_under_load(&world, "one", 2).await;
    for (tenant, room, last) in written.iter().chain(&later) {
        world.assert_only_on(*tenant == "acme", tenant, room, *last).await;
    }
    for sql in [&world.sql, world.two()] {
        let dead: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM dead_letters").fetch_one(sql).await.unwrap();
        assert_eq!(dead, 0);
    }
}

// R-SEQ-3
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_moved_is_refused_with_a_clear_word() {
    let world = World::prepare_two(1, &[]).await;
    world.cluster.start_services().await.unwrap();
    let ask = async |buckets: &str, to: &str, view: &str| {
        let path = format!("/admin/move-range?view={view}&buckets={buckets}&to={to}");
        let address = world.cluster.persister(0).admin_address();
        let key = Some(world.cluster.operator_key());
        let answer = http::request(&address, "POST", &path, key, None).await.unwrap();
        (answer.status, answer.body)
    };
    for (buckets, to, view, status, word) in [
        ("1-64", "two", "mysql", 400, "whole partitions"),
        ("0-31", "three", "mysql", 404, "no instance three"),
        ("0-31", "two", "redis", 400, "rows in mysql only"),
    ] {
        let (found, body) = ask(buckets, to, view).await;
        assert!(found == status && body.contains(word), "{buckets} {to}: {found} {body}");
    }
}
