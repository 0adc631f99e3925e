//! Servers, persisters, and a look into the database from outside.

use std::time::{Duration, Instant};

use lapwing_proto::{
    Message as _,
    bus::{HistoryRows, Mark, PersisterHistory},
    record::Record,
};
use lapwing_servers::{
    Infra, InfraOptions,
    cluster::{Cluster, Options},
    http, install,
    mariadb::MariaDb,
    ports,
};
use sqlx::{AssertSqlSafe, MySqlPool, mysql::MySqlPoolOptions};
use tokio::sync::{Mutex, MutexGuard};

use crate::feed::{Feed, TENANT, text_of};

/// One set of servers at a time: times are measured here.
static ONE: Mutex<()> = Mutex::const_new(());

/// A second instance.
pub(crate) struct Second {
    pub(crate) server: MariaDb,
    pub(crate) sql: MySqlPool,
}

pub(crate) struct World {
    /// Before the cluster, in whose folder it is.
    pub(crate) two: Option<Second>,
    pub(crate) cluster: Cluster,
    pub(crate) feed: Feed,
    pub(crate) sql: MySqlPool,
    pub(crate) nats: async_nats::Client,
    _one: MutexGuard<'static, ()>,
}

impl World {
    pub(crate) async fn start(persisters: usize, env: &[(&str, &str)]) -> Self {
        let world = Self::prepare(persisters, env).await;
        world.cluster.start_services().await.unwrap();
        world
    }

    /// Servers without services.
    pub(crate) async fn prepare(persisters: usize, env: &[(&str, &str)]) -> Self {
        let one = ONE.lock().await;
        let infra = Infra::start(InfraOptions::default()).await.unwrap();
        Self::with(one, infra, None, persisters, env).await
    }

    /// The same with two instances of MySQL, `one` and `two`.
    pub(crate) async fn prepare_two(persisters: usize, env: &[(&str, &str)]) -> Self {
        let one = ONE.lock().await;
        let infra = Infra::start(InfraOptions::default()).await.unwrap();
        let tools = install::ensure().await.unwrap();
        let folder = infra.folder().join("mariadb-two");
        let server = MariaDb::prepare(&tools, &folder, ports::any().unwrap(), false).unwrap();
        server.start().await.unwrap();
        let urls = format!("one={} two={}", infra.mariadb().url(), server.url());
        let env: Vec<_> = [("LAPWING_MYSQL_URL", urls.as_str())].iter().chain(env).copied().collect();
        let sql = looking_at(&server.url());
        Self::with(one, infra, Some(Second { server, sql }), persisters, &env).await
    }

    async fn with(
        one: MutexGuard<'static, ()>,
        infra: Infra,
        two: Option<Second>,
        persisters: usize,
        env: &[(&str, &str)],
    ) -> Self {
        let feed = Feed::new(&infra.kafka().brokers());
        let sql = looking_at(&infra.mariadb().url());
        let nats = async_nats::ConnectOptions::new()
            .user_and_password("lapwing".to_owned(), infra.nats().password().to_owned())
            .connect(infra.nats().address())
            .await
            .unwrap();
        let options = Options {
            gateways: 0,
            routers: 0,
            persisters,
            env: env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..Options::default()
        };
        let cluster = Cluster::with_infra(infra, &options).unwrap();
        Self { two, cluster, feed, sql, nats, _one: one }
    }

    pub(crate) async fn count(&self, from: &str) -> i64 {
        let statement = AssertSqlSafe(format!("SELECT COUNT(*) FROM {from}"));
        sqlx::query_scalar(statement).fetch_one(&self.sql).await.unwrap()
    }

    /// (owner, epoch) of each leased partition.
    pub(crate) async fn leases(&self) -> Vec<(String, i64)> {
        let rows: Vec<(Vec<u8>, i64)> = sqlx::query_as(
            "SELECT lease_owner, lease_epoch FROM partition_offsets WHERE lease_until > NOW(3)",
        )
        .fetch_all(&self.sql)
        .await
        .unwrap();
        rows.into_iter().map(|(owner, epoch)| (String::from_utf8(owner).unwrap(), epoch)).collect()
    }

    pub(crate) async fn held_by(&self, persister: &str) -> usize {
        self.leases().await.iter().filter(|(owner, _)| owner == persister).count()
    }

    /// Every message table's rows of a conversation, by seq.
    pub(crate) async fn rows(&self, conversation: &str) -> Vec<(u64, Record)> {
        let key = lapwing_model::ConversationKey::new(TENANT, conversation);
        let table = lapwing_model::bucket::bucket_of(&key).unwrap() / 16;
        let statement = AssertSqlSafe(format!(
            "SELECT seq, record FROM messages_{table:02} WHERE tenant = ? AND conversation = ? ORDER BY seq"
        ));
        let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(statement)
            .bind(TENANT.as_bytes())
            .bind(conversation.as_bytes())
            .fetch_all(&self.sql)
            .await
            .unwrap();
        rows.into_iter().map(|(seq, raw)| (seq as u64, Record::decode(&raw[..]).unwrap())).collect()
    }

    pub(crate) async fn head(&self, conversation: &str) -> u64 {
        let head: Option<i64> =
            sqlx::query_scalar("SELECT head FROM conversations WHERE tenant = ? AND conversation = ?")
                .bind(TENANT.as_bytes())
                .bind(conversation.as_bytes())
                .fetch_optional(&self.sql)
                .await
                .ok()
                .flatten();
        head.unwrap_or(0) as u64
    }

    pub(crate) async fn wait_for_head(&self, conversation: &str, seq: u64, seconds: u64) {
        within(seconds, &format!("{conversation} is stored up to {seq}"), async || {
            self.head(conversation).await >= seq
        })
        .await;
    }

    /// Exactly the rows 1…last, each with the content that was sent.
    pub(crate) async fn assert_exact(&self, conversation: &str, last: u64) {
        let rows = self.rows(conversation).await;
        let seqs: Vec<u64> = rows.iter().map(|(seq, _)| *seq).collect();
        assert_eq!(seqs, (1..=last).collect::<Vec<_>>(), "{conversation}");
        for (seq, record) in &rows[1..] {
            assert_eq!(
                record,
                &Record {
                    epoch: record.epoch,
                    index: record.index,
                    ..crate::feed::message(conversation, *seq)
                }
            );
            assert!(format!("{record:?}").contains(&text_of(conversation, *seq)));
        }
    }

    pub(crate) async fn ask(&self, asked: &PersisterHistory) -> HistoryRows {
        let payload = asked.encode_to_vec().into();
        let asking = self.nats.request("lw.p.history", payload);
        let answer = tokio::time::timeout(Duration::from_secs(8), asking).await.expect("an answer").unwrap();
        HistoryRows::decode(answer.payload).unwrap()
    }

    /// Listens to marks until one satisfies the test.
    pub(crate) async fn wait_for_mark(&self, what: &str, mut fits: impl FnMut(&Mark) -> bool) {
        use futures::StreamExt as _;
        let mut marks = self.nats.subscribe("lw.p.mark").await.unwrap();
        let waiting = async {
            while let Some(message) = marks.next().await {
                if fits(&Mark::decode(message.payload).unwrap()) {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(8), waiting).await.expect(what);
    }

    pub(crate) async fn ready(&self, index: usize) -> (u16, String) {
        match http::get(&self.cluster.persister(index).admin_address(), "/readyz").await {
            Ok(answer) => (answer.status, answer.body),
            Err(error) => (0, error.to_string()),
        }
    }
}

fn looking_at(url: &str) -> MySqlPool {
    let options = MySqlPoolOptions::new().max_connections(2).acquire_timeout(Duration::from_secs(2));
    options.connect_lazy(url).unwrap()
}

/// Polls until a condition holds; answers how long it took.
pub(crate) async fn within(seconds: u64, what: &str, mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed().as_secs() < seconds, "not within {seconds} s: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    start.elapsed()
}
