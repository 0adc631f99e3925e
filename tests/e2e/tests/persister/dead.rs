//! Dead letters: told to their topic, looked at, replayed into their tables, purged.

use std::time::Duration;

use lapwing_links::kafka::{Kafka, PartitionReader};
use lapwing_model::{ConversationKey, bucket};
use lapwing_proto::{
    Message as _,
    bus::{DeadAsk, DeadReply, PersisterHistory},
    record::{DeadLetterRecord, Record},
};
use lapwing_servers::http;
use serde_json::{Value, json};

use crate::{
    feed::{Owner, TENANT, added, created, message, message_with, removed},
    world::{World, within},
};

/// The first seq that an INT does not hold.
const BIG: u64 = 1 << 31;

fn table_of(room: &str) -> String {
    let bucket = bucket::bucket_of(&ConversationKey::new(TENANT, room)).unwrap();
    format!("messages_{:02}", bucket / 16)
}

async fn alter(world: &World, room: &str, column: &str) {
    let statement = format!("ALTER TABLE {} MODIFY {column} NOT NULL", table_of(room));
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&world.sql).await.unwrap();
}

async fn call(world: &World, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let address = world.cluster.persister(0).admin_address();
    let (key, body) = (Some(world.cluster.operator_key()), body.map(|body| body.to_string()));
    let answer = http::request(&address, method, path, key, body.as_deref()).await.unwrap();
    (answer.status, answer.json().unwrap())
}

async fn found(world: &World, query: &str) -> Vec<Value> {
    let (status, answer) = call(world, "GET", &format!("/admin/dead-letters?{query}"), None).await;
    assert_eq!(status, 200, "{answer}");
    answer["dead_letters"].as_array().unwrap().clone()
}

/// The results, in order of id.
async fn replay(world: &World, filter: Value, dry_run: bool) -> Vec<String> {
    let body = json!({ "filter": filter, "dry_run": dry_run });
    let (status, answer) = call(world, "POST", "/admin/dead-letters/replay", Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    let results = answer["results"].as_array().unwrap();
    results.iter().map(|row| row["result"].as_str().unwrap().to_owned()).collect()
}

async fn told(world: &World) -> Vec<DeadLetterRecord> {
    let kafka = Kafka::new(&world.cluster.kafka().brokers(), "test");
    let mut reader = PartitionReader::open(&kafka, "lapwing.dead", 0, 0);
    let mut all = Vec::new();
    while let Ok(fetched) = reader.next(Duration::from_millis(500), 1 << 20).await {
        let records = fetched.records.iter().filter_map(|record| record.value.clone());
        all.extend(records.map(|value| DeadLetterRecord::decode(value).unwrap()));
        if reader.position() >= fetched.high_watermark {
            break;
        }
    }
    all
}

/// Seqs of a page of history from `from` on, and which of them are dead letters.
async fn history(world: &World, room: &str, from: u64) -> (Vec<u64>, Vec<u64>) {
    let asked = PersisterHistory {
        tenant: TENANT.into(),
        conversation: room.into(),
        from,
        to: u64::MAX,
        limit: 500,
        ..PersisterHistory::default()
    };
    let rows = world.ask(&asked).await;
    (rows.events.iter().map(|event| event.seq).collect(), rows.dead_lettered)
}

async fn dead_offsets(world: &World, owner: &Owner) -> Vec<u64> {
    let ask = DeadAsk { partition: Some((&owner.at).into()), from: 0, to: u64::MAX };
    let answer = world.nats.request("lw.p.dead", ask.encode_to_vec().into()).await.unwrap();
    DeadReply::decode(answer.payload).unwrap().offsets
}

async fn next_offset(world: &World, owner: &Owner) -> i64 {
    sqlx::query_scalar("SELECT next_offset FROM partition_offsets WHERE topic = ? AND `partition` = ?")
        .bind(owner.at.topic.as_bytes())
        .bind(owner.at.partition)
        .fetch_one(&world.sql)
        .await
        .unwrap()
}

/// A conversation with three events, and then three whose seqs its table does not hold.
async fn three_refused(world: &World, room: &str) -> (Owner, Vec<u64>) {
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    owner.send_all((2..=3).map(|seq| message(room, seq))).await;
    world.wait_for_head(room, 3, 20).await;
    alter(world, room, "seq INT").await;
    let seqs: Vec<u64> = (BIG..BIG + 3).collect();
    owner.send_all(seqs.iter().map(|seq| message(room, *seq))).await;
    world.wait_for_head(room, BIG + 2, 20).await;
    (owner, seqs)
}

// R-PST-4, R-PST-5, R-ACK-3: 11,867 messages were accepted and none stored, for an INT column.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_int_column_refused_is_told_read_and_replayed_when_it_is_repaired() {
    let world = World::start(1, &[]).await;
    let room = "grp.int";
    let (mut owner, seqs) = three_refused(&world, room).await;
    world.wait_for_mark("a mark that lists them", |mark| mark.tombstones.len() == 3).await;
    assert_eq!(history(&world, room, 4).await, (seqs.clone(), seqs.clone()), "bodies before the replay");
    let letters = told(&world).await;
    assert_eq!(letters.iter().map(|letter| letter.seq).collect::<Vec<_>>(), seqs);
    assert!(letters.iter().all(|of| of.error_code == 1264 && of.tenant == TENANT && of.conversation == room));
    let record = Record::decode(letters[0].payload.clone()).unwrap();
    assert_eq!(
        (record.seq, letters[0].offset, letters[0].topic.as_str()),
        (BIG, dead_offsets(&world, &owner).await[0], &*owner.at.topic)
    );

    let shown = found(&world, "").await;
    let ids: Vec<u64> = shown.iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert_eq!(shown[0]["seq"], BIG);
    let with = async |query: &str| found(&world, query).await.len();
    assert_eq!(
        with(&format!("tenant={TENANT}&conversation={room}&topic=lapwing.group&code=1264&replayed=no")).await,
        3
    );
    for nothing in [
        "tenant=other",
        "topic=lapwing.p2p",
        "code=1406",
        "replayed=yes",
        "to_ms=1700000000000",
        "conversation=grp.x",
    ] {
        assert_eq!(with(nothing).await, 0, "{nothing}");
    }
    assert_eq!(with("from_ms=1700000000000").await, 3);
    assert_eq!((with("limit=2").await, with(&format!("limit=2&after={}", ids[1])).await), (2, 1));
    let (_, one) = call(&world, "GET", &format!("/admin/dead-letters/show?id={}", ids[0]), None).await;
    assert_eq!(one["record"]["conversation"], room, "{one}");
    assert_eq!(call(&world, "GET", "/admin/dead-letters/show?id=999999", None).await.0, 404);

    let offset = next_offset(&world, &owner).await;
    assert_eq!(replay(&world, json!({}), true).await, ["refused"; 3], "the column is as it was");
    assert_eq!(replay(&world, json!({ "tenant": TENANT }), false).await, ["refused"; 3]);
    assert_eq!((world.count("tombstones").await, with("replayed=no").await), (3, 3));
    alter(&world, room, "seq BIGINT").await;
    assert_eq!(replay(&world, json!({}), true).await, ["replayed"; 3]);
    assert_eq!(world.rows(room).await.len(), 3, "a dry run writes nothing");
    assert_eq!(replay(&world, json!({ "ids": [ids[0]] }), false).await, ["replayed"]);
    // The writer goes on in the same conversation meanwhile.
    let writing = owner.send_all((BIG + 3..BIG + 203).map(|seq| message(room, seq)));
    let (results, ()) = tokio::join!(replay(&world, json!({}), false), writing);
    assert_eq!(results, ["replayed"; 2]);
    world.wait_for_head(room, BIG + 202, 20).await;
    let stored: Vec<u64> = world.rows(room).await.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(stored, (1..=3).chain(BIG..BIG + 203).collect::<Vec<_>>());
    assert_eq!(replay(&world, json!({ "ids": ids }), false).await, ["replayed_before"; 3]);
    assert_eq!((world.count("tombstones").await, with("replayed=no").await), (0, 0));
    let (seen, dead) = history(&world, room, BIG).await;
    assert_eq!((seen.len(), dead.len(), seen[0]), (203, 0, BIG), "bodies after the replay");
    assert_eq!(dead_offsets(&world, &owner).await.len(), 3, "their receipts stay what they were");
    assert!(next_offset(&world, &owner).await >= offset, "no position moves back");
}

// R-PST-5
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_there_is_enough_and_another_message_keeps_its_place() {
    let world = World::start(1, &[]).await;
    let room = "grp.taken";
    let (mut owner, _) = three_refused(&world, room).await;
    alter(&world, room, "seq BIGINT").await;
    owner.send(message(room, BIG)).await;
    owner.send(message_with(room, BIG + 1, BIG, "mallory", "something else")).await;
    within(20, "both are rows", async || world.rows(room).await.len() == 5).await;
    let expected = ["stored_already", "collision", "replayed"];
    assert_eq!(replay(&world, json!({}), false).await, expected);
    let left = found(&world, "replayed=no").await;
    assert_eq!((left.len(), &left[0]["seq"], &left[0]["code"]), (1, &json!(BIG + 1), &json!(1062)));
    let rows = world.rows(room).await;
    assert_eq!(rows.iter().find(|(seq, _)| *seq == BIG + 1).unwrap().1.sender, "mallory");
    assert_eq!(replay(&world, json!({}), false).await, ["collision"]);
    let metrics = world.cluster.persister(0).metrics().await.unwrap();
    assert!(metrics.contains("lapwing_seq_collisions_total 1"), "counted once");
}

// R-PST-5: a state event on its way back moves nothing back that newer ones have said.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_change_of_members_contradicts_nothing_newer() {
    let world = World::start(1, &[]).await;
    let room = "grp.state";
    let refused = |record: Record| Record { sent_at_ms: u64::MAX, ..record };
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice", "bob", "carol"])).await;
    owner.send(refused(removed(room, 2, 0, "bob", 2))).await;
    owner.send(added(room, 3, 0, "bob", 1, 3)).await;
    owner.send(refused(added(room, 4, 0, "eve", 0, 4))).await;
    owner.send(removed(room, 5, 0, "eve", 3)).await;
    owner.send(refused(removed(room, 6, 0, "carol", 2))).await;
    owner.send(message_with(room, 7, 1, "alice", "hello")).await;
    world.wait_for_head(room, 7, 20).await;
    let members = async || -> Vec<(String, i64, i64)> {
        let rows: Vec<(Vec<u8>, i64, i64)> =
            sqlx::query_as("SELECT user, from_seq, to_seq FROM members ORDER BY user")
                .fetch_all(&world.sql)
                .await
                .unwrap();
        rows.into_iter().map(|(user, from, to)| (String::from_utf8(user).unwrap(), from, to)).collect()
    };
    let of = |name: &str, from: i64, to: i64| (name.to_owned(), from, to);
    assert_eq!(members().await, [of("alice", 1, 0), of("bob", 1, 0), of("carol", 1, 0), of("eve", 6, 5)]);
    alter(&world, room, "sent_at_ms BIGINT UNSIGNED").await;
    // The newest first: the order of replays makes no difference.
    let ids: Vec<u64> = found(&world, "").await.iter().map(|row| row["id"].as_u64().unwrap()).collect();
    for id in ids.iter().rev() {
        assert_eq!(replay(&world, json!({ "ids": [id] }), false).await, ["replayed"]);
    }
    assert_eq!(members().await, [of("alice", 1, 0), of("bob", 1, 0), of("carol", 1, 6), of("eve", 4, 5)]);
    assert_eq!(world.count("conversations WHERE head = 7 AND member_count = 2").await, 1);
    assert_eq!(world.rows(room).await.len(), 7);
}

// R-PST-5
#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_valid_stays_and_only_old_replayed_ones_are_purged() {
    let world = World::start(1, &[("LAPWING_DEAD_RETENTION_MS", "1500")]).await;
    let room = "grp.purge";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    owner.feed.raw(&owner.at.topic, owner.at.partition, b"\xff\xff nobody can read this").await;
    owner.send(Record { client_mid: "m".repeat(100), ..message(room, 2) }).await;
    owner.send(message(room, 3)).await;
    world.wait_for_head(room, 3, 20).await;
    alter(&world, room, "client_mid VARBINARY(128)").await;
    assert_eq!(replay(&world, json!({}), false).await, ["never", "replayed"]);
    let shown = found(&world, "replayed=no").await;
    let (_, one) =
        call(&world, "GET", &format!("/admin/dead-letters/show?id={}", shown[0]["id"]), None).await;
    assert_eq!(one["payload_base64"], data_of(b"\xff\xff nobody can read this"), "{one}");
    let purge =
        async |query: &str| call(&world, "POST", &format!("/admin/dead-letters/purge{query}"), None).await;
    let (status, refused) = purge("?older_than_ms=100").await;
    assert!(status == 400 && refused.to_string().contains("LAPWING_DEAD_RETENTION_MS"), "{refused}");
    assert_eq!(purge("?older_than_ms=60000").await.1["purged"], 0, "not old enough");
    tokio::time::sleep(Duration::from_millis(2000)).await;
    assert_eq!(purge("").await.1["purged"], 1);
    assert_eq!(world.count("dead_letters").await, 1, "what was not replayed is never purged");
    within(40, "the gauge counts it", async || {
        let metrics = world.cluster.persister(0).metrics().await.unwrap();
        metrics.lines().any(|line| line == "lapwing_dead_letters_open 1")
    })
    .await;
    let address = world.cluster.persister(0).admin_address();
    let strange = http::request(&address, "GET", "/admin/dead-letters", None, None).await.unwrap();
    assert_eq!(strange.status, 401, "the operator key is needed");
}

fn data_of(bytes: &[u8]) -> String {
    data_encoding::BASE64.encode(bytes)
}

// R-PST-4: with Kafka away nothing is dead-lettered without having been told, and nothing is skipped.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_waits_for_its_topic() {
    let world = World::start(1, &[]).await;
    let room = "grp.wait";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    world.wait_for_head(room, 1, 20).await;
    // Nothing is written to the table, so the refusal comes when Kafka is away.
    let mut lock = world.sql.acquire().await.unwrap();
    let statement = format!("LOCK TABLES {} WRITE", table_of(room));
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut *lock).await.unwrap();
    owner.send(Record { client_mid: "m".repeat(100), ..message(room, 2) }).await;
    owner.send(message(room, 3)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.cluster.kafka().stop().await;
    sqlx::raw_sql("UNLOCK TABLES").execute(&mut *lock).await.unwrap();
    drop(lock);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.count("dead_letters").await, world.count("tombstones").await), (0, 0));
    assert_eq!(world.head(room).await, 1, "nothing goes past it");
    world.cluster.kafka().start().await.unwrap();
    world.wait_for_head(room, 3, 60).await;
    assert_eq!((world.count("dead_letters").await, world.count("tombstones").await), (1, 1));
    let letters = told(&world).await;
    assert!(!letters.is_empty() && letters.iter().all(|letter| letter.seq == 2), "{letters:?}");
}
