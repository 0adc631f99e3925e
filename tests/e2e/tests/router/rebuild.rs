//! A view that lost everything, while the log no longer reaches back to its beginning: MySQL has the rest.

use std::time::Duration;

use lapwing_model::{ConversationKey, PartitionId};
use lapwing_proto::{
    bus::{self, router_reply, router_request::Body},
    client::Outcome,
};
use lapwing_servers::cluster::Options;
use sqlx::MySqlPool;

use crate::bench::{Bench, PARTITIONS};

const TENANT: &str = "t1";
const GROUP: &str = "grp.old";

async fn command(bench: &Bench, key: &ConversationKey, body: bus::command::Body) {
    let command = bus::Command {
        tenant: key.tenant.to_string(),
        conversation: key.conversation.to_string(),
        body: Some(body),
    };
    match bench.ask(key, Body::Command(command)).await {
        router_reply::Body::Command(_) => {}
        other => panic!("{other:?}"),
    }
}

/// Everything accepted is in MySQL; the log is cut there, and the position kept as one of yesterday.
async fn cut_the_log(bench: &Bench, sql: &MySqlPool, id: &PartitionId, head: i64) {
    for _ in 0..200 {
        let stored: Option<i64> = sqlx::query_scalar("SELECT head FROM conversations WHERE conversation = ?")
            .bind(GROUP.as_bytes())
            .fetch_optional(sql)
            .await
            .unwrap();
        if stored == Some(head) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (offset, epoch, index): (i64, i64, i64) = sqlx::query_as(
        "SELECT next_offset, claim_epoch, last_index FROM partition_offsets WHERE topic = ? AND `partition` = ?",
    )
    .bind(id.topic.as_bytes())
    .bind(id.partition)
    .fetch_one(sql)
    .await
    .unwrap();
    sqlx::query("DELETE FROM partition_times WHERE topic = ? AND `partition` = ?")
        .bind(id.topic.as_bytes())
        .bind(id.partition)
        .execute(sql)
        .await
        .unwrap();
    sqlx::query("INSERT INTO partition_times VALUES (?, ?, ?, ?, ?, ?)")
        .bind(id.topic.as_bytes())
        .bind(id.partition)
        .bind(1_000_000_000_000_i64)
        .bind(offset)
        .bind(epoch)
        .bind(index)
        .execute(sql)
        .await
        .unwrap();
    let client =
        rskafka::client::ClientBuilder::new(vec![bench.cluster.kafka().brokers()]).build().await.unwrap();
    let unknown = rskafka::client::partition::UnknownTopicHandling::Error;
    let partition = client.partition_client(&*id.topic, id.partition as i32, unknown).await.unwrap();
    partition.delete_records(offset, 5000).await.unwrap();
}

/// A retry waits while the window is being rebuilt, it is never taken for something new.
async fn settled(bench: &Bench, key: &ConversationKey, mid: &str) -> lapwing_proto::client::Published {
    for _ in 0..100 {
        match bench.publish(key, "u2", mid, "behind the cut", 2).await {
            Ok(published) => return published,
            Err(error) => assert_eq!((error.code, error.temporary), (503, true), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("the view of {key} is not rebuilt within 20 s");
}

// R-SEQ-6, R-SEQ-9, I9
#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_redis_is_rebuilt_from_mysql_when_the_log_was_cut() {
    let bench = Bench::with(Options { gateways: 0, routers: 1, persisters: 1, ..Options::default() }).await;
    let sql = MySqlPool::connect(&bench.cluster.mariadb().url()).await.unwrap();
    let key = ConversationKey::new(TENANT, GROUP);
    let id = PartitionId::of(&key, PARTITIONS).unwrap();
    let members: Vec<String> = (0..30).map(|i| format!("u{i}")).collect();
    let create = bus::CreateGroup { name: "old".into(), members, settings: None };
    command(&bench, &key, bus::command::Body::CreateGroup(create)).await;
    let remove = bus::RemoveMembers { users: vec!["u7".into()] };
    command(&bench, &key, bus::command::Body::RemoveMembers(remove)).await;
    for i in 0..20 {
        let told = bench.publish(&key, "u1", &format!("m{i}"), "x", 1).await.expect("accepted");
        assert_eq!(told.seq, i + 3);
    }
    cut_the_log(&bench, &sql, &id, 22).await;
    let late = bench.publish(&key, "u2", "late", "behind the cut", 1).await.expect("accepted");
    assert_eq!(late.seq, 23);

    let client = redis::Client::open(bench.cluster.redis().url()).expect("url");
    let mut redis = client.get_multiplexed_async_connection().await.expect("connection");
    redis::cmd("FLUSHALL").exec_async(&mut redis).await.expect("flush");
    // The next owner has nothing in memory but what the views and the log tell it.
    bench.cluster.router(0).kill9().await;
    bench.cluster.router(0).start().await.expect("router");

    let again = settled(&bench, &key, "late").await;
    assert_eq!((again.seq, again.outcome()), (23, Outcome::Duplicate));
    let next = bench.publish(&key, "u1", "next", "x", 1).await.expect("accepted");
    assert_eq!(next.seq, 24);
    for stranger in ["u7", "nobody"] {
        let refused = bench.publish(&key, stranger, "m", "x", 1).await.expect_err("not a member");
        assert!([403, 404].contains(&refused.code), "{refused:?}");
    }
    let members: String = redis::cmd("KEYS")
        .arg("members:*")
        .query_async::<Vec<String>>(&mut redis)
        .await
        .unwrap()
        .pop()
        .expect("members of one group");
    let count: u64 = redis::cmd("HLEN").arg(&members).query_async(&mut redis).await.unwrap();
    let left: String = redis::cmd("HGET").arg(&members).arg("u7").query_async(&mut redis).await.unwrap();
    assert_eq!((count, left.as_str()), (30, "1:2"));
    let convs: Vec<String> = redis::cmd("KEYS").arg("convs:*:u*").query_async(&mut redis).await.unwrap();
    assert_eq!(convs.len(), 30, "{convs:?}");
}
