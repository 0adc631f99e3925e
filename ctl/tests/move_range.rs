//! `lapwing move-range` while people write: 2 → 4 Redis instances, and back with an owner killed in the middle; and to another MySQL
//! instance, with a holder killed in the middle.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says where"
)]

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lapwing_client::{Client, Message, Options as ClientOptions, RetryPolicy, Update, Updates, proto};
use lapwing_servers::{
    Cluster, Infra, InfraOptions, Options, install, mariadb::MariaDb, ports, redis::Redis,
};
use serde_json::json;

const GROUPS: usize = 16;
const TENANT: &str = "t-move";

struct Instances {
    more: Vec<Redis>,
    cluster: Cluster,
}

/// One and two have everything; three and four are there and empty.
async fn start() -> Instances {
    let infra = Infra::start(InfraOptions::default()).await.unwrap();
    let tools = install::ensure().await.unwrap();
    let mut more = Vec::new();
    let mut urls = format!("one={}", infra.redis().url());
    for name in ["two", "three", "four"] {
        let folder: PathBuf = infra.folder().join(name);
        let redis = Redis::prepare(&tools, &folder, ports::any().unwrap(), false).unwrap();
        redis.start().await.unwrap();
        urls.push_str(&format!(" {name}={}", redis.url()));
        more.push(redis);
    }
    let env = [
        ("LAPWING_REDIS_URL", urls.as_str()),
        ("LAPWING_REDIS_BUCKETS", "0-127=one 128-255=two"),
        ("LAPWING_REDIS_USERS", "0-31=one 32-63=two"),
    ];
    let env = env.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let options = Options {
        gateways: 1,
        routers: 2,
        persisters: 1,
        env,
        profile: "bench".to_owned(),
        ..Options::default()
    };
    let cluster = Cluster::with_infra(infra, &options).unwrap();
    cluster.start_services().await.unwrap();
    Instances { more, cluster }
}

async fn groups(cluster: &Cluster) -> (String, Arc<Vec<String>>) {
    let key = cluster.tenant(TENANT).await.unwrap();
    let mut groups = Vec::new();
    for i in 0..GROUPS {
        let body = json!({ "name": format!("g{i}"), "members": ["alice", "bob"] });
        let made = cluster.api_post(&key, "/v1/groups", body).await.unwrap();
        groups.push(made["conversation"].as_str().unwrap().to_owned());
    }
    (key, Arc::new(groups))
}

async fn connect(cluster: &Cluster, key: &str, user: &str) -> (Client, Updates) {
    let token = cluster.token(key, user).await.unwrap();
    let mut options = ClientOptions::new(cluster.gateway(0).client_url(), token, "phone");
    options.patience = Duration::from_secs(30);
    Client::connect(options).await.unwrap()
}

/// Writes to all groups in turn until told to stop; how many each got.
async fn write(client: Client, groups: Arc<Vec<String>>, stop: Arc<AtomicBool>) -> (Client, Vec<u64>) {
    let policy =
        RetryPolicy { max_elapsed: Duration::from_secs(60), max_attempts: 1000, ..RetryPolicy::default() };
    let mut sent = vec![0; groups.len()];
    while !stop.load(Ordering::Relaxed) {
        let (client, groups) = (&client, &groups);
        let round = sent.iter().enumerate().map(|(place, number)| async move {
            let mid = format!("g{place}-m{number}");
            let report =
                client.publish_with(&Message::text(&groups[place], mid, number.to_string()), policy).await;
            assert!(report.outcome.is_accepted(), "{report:?}");
        });
        futures::future::join_all(round).await;
        sent.iter_mut().for_each(|number| *number += 1);
    }
    (client, sent)
}

/// How many messages of each group came, in order by content; read all the time, so that the session is never too slow.
fn read(mut updates: Updates, groups: Arc<Vec<String>>) -> Arc<Mutex<Vec<u64>>> {
    let got = Arc::new(Mutex::new(vec![0; groups.len()]));
    let seen = got.clone();
    tokio::spawn(async move {
        while let Some(update) = updates.next().await {
            let Update::Event(event) = update else { continue };
            let Some(proto::event::Body::Message(content)) = &event.body else { continue };
            let place = groups.iter().position(|group| *group == event.conversation).unwrap();
            let next = &mut seen.lock().unwrap()[place];
            let text = proto::content::Body::Text(next.to_string());
            assert_eq!(content.body, Some(text), "{} seq {}", event.conversation, event.seq);
            *next += 1;
        }
    });
    got
}

async fn lapwing(state: &Path, words: &[&str]) -> (bool, String) {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_lapwing"))
        .args(words)
        .env("LAPWING_STATE", state)
        .output()
        .await
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("lapwing {words:?}\n{text}");
    (output.status.success(), text)
}

async fn count(redis: &Redis, pattern: &str) -> usize {
    let client = ::redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    ::redis::cmd("KEYS").arg(pattern).query_async::<Vec<String>>(&mut connection).await.unwrap().len()
}

// R-SEQ-3, R-SEQ-9, I5, I9
#[tokio::test(flavor = "multi_thread")]
async fn ranges_move_while_people_write() {
    let Instances { more, cluster } = start().await;
    let state = cluster.infra().folder().join("state.json");
    cluster.state().save(&state).unwrap();
    let (key, groups) = groups(&cluster).await;
    let (alice, to_alice) = connect(&cluster, &key, "alice").await;
    let (bob, to_bob) = connect(&cluster, &key, "bob").await;
    let got = [to_alice, to_bob].map(|updates| read(updates, groups.clone()));
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write(alice, groups.clone(), stop.clone()));

    let (ok, _) =
        lapwing(&state, &["move-range", "--buckets", "64-127", "--to", "three", "--seconds", "60"]).await;
    assert!(ok);
    let (ok, _) =
        lapwing(&state, &["move-range", "--buckets", "192-255", "--to", "four", "--seconds", "60"]).await;
    assert!(ok);
    let heads = [count(&more[1], "head:*").await, count(&more[2], "head:*").await];
    assert!(heads.iter().all(|heads| *heads > 0), "{heads:?}");

    // Back again, and the owner of half of it dies on the way.
    let command = ["move-range", "--buckets", "64-127", "--to", "one", "--seconds", "90"];
    let back = lapwing(&state, &command);
    let kill = async {
        tokio::time::sleep(Duration::from_millis(60)).await;
        cluster.router(0).kill9().await;
        cluster.router(0).start().await.unwrap();
    };
    let ((ok, text), ()) = tokio::join!(back, kill);
    assert!(ok, "{text}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop.store(true, Ordering::Relaxed);
    let (_alice, sent) = writing.await.unwrap();
    println!("{sent:?} messages to each of {GROUPS} groups");
    assert!(sent.iter().all(|sent| *sent > 20), "{sent:?}");
    for got in got {
        let since = Instant::now();
        while *got.lock().unwrap() != sent {
            assert!(since.elapsed() < Duration::from_secs(30), "{:?} of {sent:?} came", got.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!((bob.counts().holes, bob.counts().duplicates), (0, 0));
    for (group, sent) in groups.iter().zip(&sent) {
        whole(&bob, group, *sent).await;
    }
    let (ok, text) = lapwing(&state, &["move-range", "--buckets", "1-64", "--to", "one"]).await;
    assert!(!ok && text.contains("whole partitions"), "{text}");
    let (ok, text) = lapwing(&state, &["move-range", "--buckets", "0-31", "--to", "five"]).await;
    assert!(!ok && text.contains("no instance five"), "{text}");
}

/// History has each message once, in order.
async fn whole(client: &Client, group: &str, sent: u64) {
    let texts = texts(client, group).await;
    texts
}

/// One has everything, two is there and empty; a short hot window, so that history comes from MySQL.
async fn start_two_databases() -> (MariaDb, Cluster) {
    let infra = Infra::start(InfraOptions::default()).await.unwrap();
    let tools = install::ensure().await.unwrap();
    let folder = infra.folder().join("mariadb-two");
    let two = MariaDb::prepare(&tools, &folder, ports::any().unwrap(), false).unwrap();
    two.start().await.unwrap();
    let urls = format!("one={} two={}", infra.mariadb().url(), two.url());
    let env = [("LAPWING_MYSQL_URL", urls.as_str()), ("LAPWING_HOT_EVENTS", "10")];
    let env = env.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let options = Options { gateways: 1, env, profile: "bench".to_owned(), ..Options::default() };
    let cluster = Cluster::with_infra(infra, &options).unwrap();
    cluster.start_services().await.unwrap();
    (two, cluster)
}

// R-PST-12, R-SEQ-3, I6
#[tokio::test(flavor = "multi_thread")]
async fn rows_move_to_another_mysql_while_people_write_and_read_history() {
    let (_two, cluster) = start_two_databases().await;
    let state = cluster.infra().folder().join("state.json");
    cluster.state().save(&state).unwrap();
    let (key, groups) = groups(&cluster).await;
    let (alice, to_alice) = connect(&cluster, &key, "alice").await;
    let (bob, to_bob) = connect(&cluster, &key, "bob").await;
    let _got = [to_alice, to_bob].map(|updates| read(updates, groups.clone()));
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write(alice, groups.clone(), stop.clone()));
    tokio::time::sleep(Duration::from_secs(3)).await;

    let command = ["move-range", "--view", "mysql", "--buckets", "0-255", "--to", "two", "--seconds", "90"];
    let moving = async {
        let (ok, text) = lapwing(&state, &command).await;
        stop.store(true, Ordering::Relaxed);
        assert!(ok && text.contains("24 of 24 partitions are on two"), "{text}");
    };
    let kill = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        cluster.persister(0).kill9().await;
        cluster.persister(0).spawn().unwrap();
    };
    let reading = async {
        let mut scans = 0;
        while !stop.load(Ordering::Relaxed) {
            let group = &groups[scans % GROUPS];
            let texts = texts(&bob, group).await;
            assert_eq!(
                texts,
                (0..texts.len()).map(|number| number.to_string()).collect::<Vec<_>>(),
                "{group}"
            );
            scans += 1;
        }
        scans
    };
    let ((), (), scans) = tokio::join!(moving, kill, reading);
    let (_alice, sent) = writing.await.unwrap();
    println!("{sent:?} messages to each of {GROUPS} groups, {scans} histories read meanwhile");
    for (group, sent) in groups.iter().zip(&sent) {
        whole(&bob, group, *sent).await;
    }
    let (ok, text) = lapwing(&state, &["placement"]).await;
    assert!(ok && text.contains("24 partitions, 0 on their way") && !text.contains(" one "), "{text}");
    let (ok, text) =
        lapwing(&state, &["move-range", "--view", "mysql", "--buckets", "1-64", "--to", "one"]).await;
    assert!(!ok && text.contains("whole partitions"), "{text}");
}

/// All of a conversation's history, without a hole.
async fn texts(client: &Client, group: &str) -> Vec<String> {
    let (mut after, mut texts) = (0, Vec::new());
    loop {
        let request = proto::HistoryRequest {
            conversation: group.to_owned(),
            after: Some(after),
            limit: 100,
            ..Default::default()
        };
        let page = client.history(request).await.unwrap();
        assert!(page.gaps.is_empty(), "{group}: {:?}", page.gaps);
        for event in page.events {
            assert_eq!(event.seq, after + 1, "{group}");
            after = event.seq;
            if let Some(proto::event::Body::Message(proto::Content {
                body: Some(proto::content::Body::Text(text)),
                ..
            })) = event.body
            {
                texts.push(text);
            }
        }
        if !page.more {
            break;
        }
    }
    assert_eq!(texts, (0..sent).map(|number| number.to_string()).collect::<Vec<_>>(), "{group}");
}
