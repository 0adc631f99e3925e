//! Several MySQL instances: rows land where the map says, each instance by itself.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lapwing_model::{ConversationKey, PartitionId, bucket::bucket_of};
use lapwing_proto::{
    Message as _,
    bus::{PersisterHistory, RebuildAsk, RebuildPage},
    record::{CursorRecord, Record},
};
use sqlx::{AssertSqlSafe, MySqlPool};

use crate::{
    feed::{TENANT, created, message},
    world::{World, within},
};

pub(crate) const HALVES: (&str, &str) = ("LAPWING_MYSQL_BUCKETS", "0-127=one 128-255=two");
const TENANTS: (&str, &str) = ("LAPWING_MYSQL_TENANTS", "acme=two big=one/big");

/// A group of the tenant in this half of the buckets.
pub(crate) fn room_in(tenant: &str, second: bool, number: usize) -> String {
    let names = (0..).map(|i| format!("grp.place{i}"));
    let fits = |name: &String| bucket_of(&ConversationKey::new(tenant, name.as_str())).unwrap() >= 128;
    names.filter(|name| fits(name) == second).nth(number).unwrap()
}

pub(crate) fn table_of(tenant: &str, room: &str) -> String {
    format!("messages_{:02}", bucket_of(&ConversationKey::new(tenant, room)).unwrap() / 16)
}

pub(crate) async fn seqs(sql: &MySqlPool, table: &str, tenant: &str, room: &str) -> Vec<u64> {
    let statement = format!("SELECT seq FROM {table} WHERE tenant = ? AND conversation = ? ORDER BY seq");
    let found: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(statement))
        .bind(tenant.as_bytes())
        .bind(room.as_bytes())
        .fetch_all(sql)
        .await
        .unwrap_or_default();
    found.into_iter().map(|seq| seq as u64).collect()
}

pub(crate) fn of(tenant: &str, record: Record) -> Record {
    Record { tenant: tenant.into(), ..record }
}

impl World {
    pub(crate) fn two(&self) -> &MySqlPool {
        &self.two.as_ref().unwrap().sql
    }

    async fn page_of(&self, tenant: &str, room: &str) -> Vec<u64> {
        let asked = PersisterHistory {
            tenant: tenant.into(),
            conversation: room.into(),
            from: 1,
            to: u64::MAX,
            limit: 500,
            ..PersisterHistory::default()
        };
        self.ask(&asked).await.events.iter().map(|event| event.seq).collect()
    }
}

// R-PST-12
#[tokio::test(flavor = "multi_thread")]
async fn rows_land_where_the_map_says() {
    let world = World::prepare_two(2, &[HALVES, TENANTS]).await;
    world.cluster.start_services().await.unwrap();
    let low = room_in(TENANT, false, 0);
    let places = [
        (TENANT, low.clone(), false, table_of(TENANT, &low)),
        (TENANT, room_in(TENANT, true, 0), true, table_of(TENANT, &room_in(TENANT, true, 0))),
        ("acme", room_in("acme", false, 0), true, table_of("acme", &room_in("acme", false, 0))),
        ("big", room_in("big", true, 0), false, "messages_x_big".to_owned()),
    ];
    let all: Vec<u64> = (1..=50).collect();
    for (tenant, room, ..) in &places {
        let mut owner = world.feed.claim_of(tenant, room).await;
        owner.send(of(tenant, created(room, &["alice"]))).await;
        owner.send_all((2..=50).map(|seq| of(tenant, message(room, seq)))).await;
        let key = ConversationKey::new(*tenant, room.as_str());
        let cursor = CursorRecord {
            tenant: (*tenant).into(),
            user: "reader".into(),
            conversation: room.clone(),
            read_seq: 7,
            ..CursorRecord::default()
        };
        let partition = PartitionId::of(&key, 8).unwrap().partition;
        world.feed.raw("lapwing.cursor", partition, &cursor.encode_to_vec()).await;
    }
    for (tenant, room, second, table) in &places {
        let (here, there) = if *second { (world.two(), &world.sql) } else { (&world.sql, world.two()) };
        within(20, &format!("{tenant} {room} is stored"), async || {
            seqs(here, table, tenant, room).await == all
        })
        .await;
        assert!(seqs(there, &table_of(tenant, room), tenant, room).await.is_empty(), "{tenant} {room}");
        let cursors = async |sql: &MySqlPool| -> i64 {
            sqlx::query_scalar(
                "SELECT COUNT(*) FROM cursors WHERE tenant = ? AND conversation = ? AND user = 'reader'",
            )
            .bind(tenant.as_bytes())
            .bind(room.as_bytes())
            .fetch_one(sql)
            .await
            .unwrap()
        };
        within(20, "its cursor is there", async || cursors(here).await == 1).await;
        assert_eq!(cursors(there).await, 0, "{tenant} {room}");
        assert_eq!(world.page_of(tenant, room).await, all, "history finds {tenant} {room}");
    }
    // The views of a partition are made from both: its own rows and those of a tenant that lives elsewhere.
    let (_, room, ..) = &places[2];
    let partition = PartitionId::of(&ConversationKey::new("acme", room.as_str()), 8).unwrap();
    let asked = RebuildAsk {
        partition: Some((&partition).into()),
        first_bucket: 0,
        last_bucket: 255,
        ..RebuildAsk::default()
    };
    let answer = world.nats.request("lw.p.rebuild", asked.encode_to_vec().into()).await.unwrap();
    let page = RebuildPage::decode(answer.payload).unwrap();
    assert_eq!(page.error, None);
    assert!(page.rows.iter().any(|row| row.tenant == "acme" && row.head == 50), "{page:?}");
}

// R-PST-12, R-REL: an instance that is away holds up its own rows, a take-over meanwhile included.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_away_holds_up_only_its_own() {
    let world = World::prepare_two(1, &[HALVES]).await;
    world.cluster.start_services().await.unwrap();
    let (low, high) = (room_in(TENANT, false, 0), room_in(TENANT, true, 0));
    let (mut one, mut two) = (world.feed.claim(&low).await, world.feed.claim(&high).await);
    one.send(created(&low, &["alice"])).await;
    two.send(created(&high, &["alice"])).await;
    world.wait_for_head(&low, 1, 20).await;
    within(20, "the other has its first", async || {
        seqs(world.two(), &table_of(TENANT, &high), TENANT, &high).await == [1]
    })
    .await;

    world.two.as_ref().unwrap().server.kill9().await;
    one.send_all((2..=100).map(|seq| message(&low, seq))).await;
    two.send_all((2..=100).map(|seq| message(&high, seq))).await;
    world.wait_for_head(&low, 100, 5).await;
    world.cluster.persister(0).kill9().await;
    world.cluster.persister(0).spawn().unwrap();
    one.send_all((101..=200).map(|seq| message(&low, seq))).await;
    world.wait_for_head(&low, 200, 15).await;
    let (status, body) = world.ready(0).await;
    assert!(status == 503 && body.contains("mysql two"), "{status} {body}");

    world.two.as_ref().unwrap().server.start().await.unwrap();
    let all: Vec<u64> = (1..=100).collect();
    within(20, "what waited is stored", async || {
        seqs(world.two(), &table_of(TENANT, &high), TENANT, &high).await == all
    })
    .await;
    world.assert_exact(&low, 200).await;
    within(20, "ready", async || world.ready(0).await.0 == 200).await;
}

// R-PST-2, R-PST-12
#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_and_double_nothing_on_either_instance() {
    let world = World::prepare_two(2, &[HALVES]).await;
    world.cluster.start_services().await.unwrap();
    let rooms: Vec<_> = [false, true]
        .into_iter()
        .flat_map(|second| (0..2).map(move |n| (TENANT, room_in(TENANT, second, n))))
        .collect();
    let stop = AtomicBool::new(false);
    let killing = async {
        for round in 0..4 {
            tokio::time::sleep(Duration::from_millis(900)).await;
            let persister = world.cluster.persister(round % 2);
            persister.kill9().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            persister.spawn().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (written, ()) = tokio::join!(write_until(&world, &stop, &rooms, 1), killing);
    for (_, room, last) in written {
        let second = bucket_of(&ConversationKey::new(TENANT, room.as_str())).unwrap() >= 128;
        let (here, there) = if second { (world.two(), &world.sql) } else { (&world.sql, world.two()) };
        let table = table_of(TENANT, &room);
        let all: Vec<u64> = (1..=last).collect();
        within(30, &format!("{room} is stored"), async || seqs(here, &table, TENANT, &room).await == all)
            .await;
        assert!(seqs(there, &table, TENANT, &room).await.is_empty());
    }
    assert_eq!(world.count("dead_letters").await, 0);
}

/// Conversations of tenants, written on until told to stop; how far each came.
pub(crate) async fn write_until(
    world: &World,
    stop: &AtomicBool,
    rooms: &[(&'static str, String)],
    first: u64,
) -> Vec<(&'static str, String, u64)> {
    let at = |tenant: &str, room: &str| PartitionId::of(&ConversationKey::new(tenant, room), 8).unwrap();
    let mut owners = HashMap::new();
    for (tenant, room) in rooms {
        let at = at(tenant, room);
        if !owners.contains_key(&at) {
            owners.insert(at.clone(), world.feed.claim_of(tenant, room).await);
        }
        let owner = owners.get_mut(&at).unwrap();
        owner.send(of(tenant, created(room, &["alice", "bob"]))).await;
        owner.send_all((2..=first).map(|seq| of(tenant, message(room, seq)))).await;
    }
    let mut seq = first.max(1);
    while !stop.load(Ordering::Relaxed) {
        for (tenant, room) in rooms {
            let owner = owners.get_mut(&at(tenant, room)).unwrap();
            owner.send_all((seq + 1..=seq + 20).map(|seq| of(tenant, message(room, seq)))).await;
        }
        seq += 20;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    rooms.iter().map(|(tenant, room)| (*tenant, room.clone(), seq)).collect()
}
