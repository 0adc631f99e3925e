//! Redis is away, and somebody writes where this owner never was: MySQL has the state, by way of a persister.

use std::time::Duration;

use lapwing_model::{ConversationKey, PartitionId, kind};
use lapwing_proto::{
    bus::{self, router_reply, router_request::Body},
    client::{self, Outcome, Published},
};
use lapwing_servers::cluster::Options;
use sqlx::MySqlPool;

use crate::bench::{Bench, PARTITIONS};

const TENANT: &str = "t1";
/// An owner remembers no client_mid from before its take-over: what was sent around it counts as a retry.
const YOUNG: Duration = Duration::from_millis(6500);

struct Cold {
    bench: Bench,
    sql: MySqlPool,
    key: ConversationKey,
    id: PartitionId,
}

impl Cold {
    /// A group of alice, bob and carol, who has left: its head is 2.
    async fn start(name: &str) -> Self {
        let options = Options { gateways: 0, routers: 1, persisters: 1, ..Options::default() };
        let bench = Bench::with(options).await;
        let sql = MySqlPool::connect(&bench.cluster.mariadb().url()).await.unwrap();
        let key = ConversationKey::new(TENANT, kind::group_id(name).unwrap());
        let id = PartitionId::of(&key, PARTITIONS).unwrap();
        let cold = Self { bench, sql, key, id };
        let members = ["alice", "bob", "carol"].map(str::to_owned).to_vec();
        let create = bus::CreateGroup { name: name.into(), members, settings: None };
        cold.command(&cold.key, bus::command::Body::CreateGroup(create)).await;
        let remove = bus::RemoveMembers { users: vec!["carol".into()] };
        cold.command(&cold.key, bus::command::Body::RemoveMembers(remove)).await;
        cold
    }

    async fn command(&self, key: &ConversationKey, body: bus::command::Body) {
        let command = bus::Command {
            tenant: key.tenant.to_string(),
            conversation: key.conversation.to_string(),
            body: Some(body),
        };
        match self.bench.ask(key, Body::Command(command)).await {
            router_reply::Body::Command(_) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn publish(&self, sender: &str, mid: &str, attempt: u32) -> Result<Published, client::Error> {
        self.bench.publish(&self.key, sender, mid, mid, attempt).await
    }

    async fn fetch(&self, user: &str) -> bus::FetchReply {
        let ask = bus::Fetch {
            tenant: self.key.tenant.to_string(),
            conversation: self.key.conversation.to_string(),
            user: user.into(),
            after: 0,
            limit: 100,
        };
        match self.bench.ask(&self.key, Body::Fetch(ask)).await {
            router_reply::Body::Fetch(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    async fn persisted(&self, head: u64) {
        for _ in 0..400 {
            let stored: Option<i64> =
                sqlx::query_scalar("SELECT head FROM conversations WHERE conversation = ?")
                    .bind(self.key.conversation.as_bytes())
                    .fetch_optional(&self.sql)
                    .await
                    .unwrap();
            if stored == Some(head as i64) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("MySQL does not get {}", self.key);
    }

    /// A new tenure with an empty memory, then Redis is gone.
    async fn forget_everything(&self) {
        // The view has all of it, so that the new owner's memory begins behind it.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let router = self.bench.cluster.router(0);
        router.kill9().await;
        router.start().await.expect("router");
        self.bench.owner(&self.id, Duration::from_secs(20)).await.expect("an owner");
        tokio::time::sleep(YOUNG).await;
        self.bench.cluster.redis().kill9().await;
    }

    /// How often the persister told what MySQL has of single conversations.
    async fn loads(&self) -> u64 {
        let metrics = self.bench.cluster.persister(0).metrics().await.expect("metrics");
        let count = metrics
            .lines()
            .find(|line| {
                line.starts_with("lapwing_rpc_seconds_count")
                    && line.contains(r#"rpc="load""#)
                    && line.contains(r#"result="ok""#)
            })
            .and_then(|line| line.rsplit(' ').next()?.parse().ok());
        count.unwrap_or(0)
    }
}

// R-SEQ-9, R-ACK-5, I9
#[tokio::test(flavor = "multi_thread")]
async fn without_redis_a_conversation_that_its_owner_never_saw_goes_on() {
    let cold = Cold::start("cold").await;
    for i in 0..5 {
        let told = cold.publish("alice", &format!("m{i}"), 1).await.expect("accepted");
        assert_eq!(told.seq, i + 3);
    }
    cold.persisted(7).await;
    cold.forget_everything().await;

    let before = cold.loads().await;
    let told = cold.publish("alice", "first", 1).await.expect("accepted without Redis");
    assert_eq!((told.seq, told.n, told.outcome()), (8, 6, Outcome::Accepted));
    assert!(cold.loads().await > before, "it came from MySQL");
    let seen = cold.fetch("bob").await;
    assert_eq!((seen.head, seen.member, seen.from_seq, seen.to_seq), (8, true, 1, 0));
    assert_eq!(seen.events.iter().map(|event| event.seq).collect::<Vec<_>>(), [8]);
    let left = cold.fetch("carol").await;
    assert_eq!((left.member, left.to_seq, left.events.len()), (true, 2, 0));
    for stranger in ["carol", "nobody"] {
        let refused = cold.publish(stranger, "m", 1).await.expect_err("not a member");
        assert_eq!((refused.code, refused.temporary), (403, false), "{refused:?}");
    }
    // MySQL has no key by client_mid: what may have been stored before waits for the window.
    let retry = cold.publish("alice", "m1", 2).await.expect_err("the window cannot be read");
    assert_eq!((retry.code, retry.name.as_str()), (503, "not_ready"), "{retry:?}");
    let again = cold.publish("alice", "first", 2).await.expect("memory knows it");
    assert_eq!((again.seq, again.outcome()), (8, Outcome::Duplicate));
    let p2p = cold.bench.p2p(TENANT, "alice", "dora").await;
    let told = cold.bench.publish(&p2p, "dora", "hello", "x", 1).await.expect("a new one, too");
    assert_eq!(told.seq, 2);

    cold.bench.cluster.redis().start().await.expect("Redis is back");
    let mut known = cold.publish("alice", "m1", 2).await;
    for _ in 0..50 {
        if known.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        known = cold.publish("alice", "m1", 2).await;
    }
    let known = known.expect("the window is back");
    assert_eq!((known.seq, known.outcome()), (4, Outcome::Duplicate));
    assert_eq!(cold.publish("bob", "next", 1).await.expect("accepted").seq, 9);
}

// R-SEQ-9: a persister that is behind answers, and its head would be given out a second time.
#[tokio::test(flavor = "multi_thread")]
async fn without_redis_a_persister_that_is_behind_says_nothing() {
    let cold = Cold::start("behind").await;
    cold.publish("alice", "m0", 1).await.expect("accepted");
    cold.persisted(3).await;
    let mut lock = cold.sql.begin().await.unwrap();
    sqlx::query("SELECT next_offset FROM partition_offsets WHERE topic = ? AND `partition` = ? FOR UPDATE")
        .bind(cold.id.topic.as_bytes())
        .bind(cold.id.partition)
        .execute(&mut *lock)
        .await
        .unwrap();
    for (mid, seq) in [("m1", 4), ("m2", 5)] {
        assert_eq!(cold.publish("alice", mid, 1).await.expect("accepted").seq, seq);
    }
    cold.forget_everything().await;

    let before = cold.loads().await;
    for _ in 0..5 {
        let refused = cold.publish("alice", "m3", 1).await.expect_err("MySQL is behind");
        assert_eq!((refused.code, refused.name.as_str()), (503, "not_ready"), "{refused:?}");
    }
    assert!(cold.loads().await >= before + 5, "it was asked each time, and answered");
    lock.rollback().await.unwrap();
    cold.persisted(5).await;
    let mut told = cold.publish("alice", "m3", 1).await;
    for _ in 0..100 {
        if told.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        told = cold.publish("alice", "m3", 1).await;
    }
    assert_eq!(told.expect("accepted once MySQL has it").seq, 6);
}
