//! The four foreign servers: start, kill, pause, restart on the same port with the same data.

use std::time::{Duration, Instant};

use lapwing_servers::install;
use lapwing_servers::managed::Ready;
use lapwing_servers::{Infra, InfraOptions, Managed};

use crate::raw;

#[tokio::test(flavor = "multi_thread")]
async fn all_four_start_together_and_listen_on_loopback_only() {
    install::ensure().await.unwrap();
    let begin = Instant::now();
    let infra = Infra::start(InfraOptions::default()).await.unwrap();
    let took = begin.elapsed();
    eprintln!("infrastructure ready after {took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    let servers: [&Managed; 4] = [infra.nats(), infra.redis(), infra.kafka(), infra.mariadb()];
    for server in servers {
        let addresses = raw::listening(server.pid().unwrap());
        assert!(!addresses.is_empty(), "{} listens nowhere", server.name());
        for address in addresses {
            assert!(address.starts_with("0100007F:"), "{} listens on {address}", server.name());
            let port = u16::from_str_radix(address.rsplit(':').next().unwrap(), 16).unwrap();
            assert!(port < 32_768, "{} took the ephemeral port {port}", server.name());
        }
    }
    let folder = infra.folder().to_path_buf();
    let pids: Vec<u32> = servers.iter().map(|server| server.pid().unwrap()).collect();
    drop(infra);
    assert!(!folder.exists(), "the run's folder is left behind");
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "process {pid} survived the drop");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_server_lets_a_stranger_in() {
    let infra = Infra::start(InfraOptions::default()).await.unwrap();
    let redis = raw::talk(&infra.redis().address(), "GET a\r\nQUIT\r\n").await;
    assert!(redis.contains("NOAUTH"), "{redis}");
    let nats = raw::talk(&infra.nats().address(), "CONNECT {\"verbose\":true}\r\nPING\r\n").await;
    assert!(nats.contains("Authorization Violation"), "{nats}");
    let maria = infra.mariadb();
    assert!(raw::sql(&infra, "root", "", "SELECT 1").is_err());
    assert!(raw::sql(&infra, "lapwing", "wrong", "SELECT 1").is_err());
    raw::sql(
        &infra,
        "lapwing",
        maria.password(),
        "CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (7)",
    )
    .unwrap();
    let reader = maria.reader_url();
    let reader_password = reader.split([':', '@']).nth(2).unwrap();
    assert_eq!(raw::sql(&infra, "lapwing_ro", reader_password, "SELECT a FROM t").unwrap(), "7");
    let refused = raw::sql(&infra, "lapwing_ro", reader_password, "INSERT INTO t VALUES (8)").unwrap_err();
    assert!(refused.contains("denied"), "{refused}");
    let settings = "SELECT @@max_connections, @@innodb_flush_log_at_trx_commit, @@character_set_server";
    assert_eq!(raw::sql(&infra, "lapwing", maria.password(), settings).unwrap(), "170\t1\tutf8mb4");
    let mode = raw::sql(&infra, "lapwing", maria.password(), "SELECT @@sql_mode").unwrap();
    assert!(mode.contains("STRICT_ALL_TABLES"), "{mode}");
    let policy = raw::redis(&infra, "CONFIG GET maxmemory-policy").await;
    assert!(policy.contains("noeviction"), "{policy}");
    for file in ["nats/nats.conf", "redis/redis.conf", "mariadb/init.sql", "redis/password"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(infra.folder().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file} is open to others");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_comes_back_on_its_port_with_its_data() {
    let infra = Infra::start(InfraOptions::default()).await.unwrap();
    let password = infra.mariadb().password().to_owned();
    raw::sql(&infra, "lapwing", &password, "CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (7)")
        .unwrap();
    assert!(raw::redis(&infra, "SET kept yes").await.contains("+OK"));
    let redis_address = infra.redis().address();
    infra.redis().kill9().await;
    infra.nats().kill9().await;
    infra.kafka().kill9().await;
    infra.mariadb().kill9().await;
    assert!(!infra.redis().is_running() && !infra.kafka().is_running());
    assert!(tokio::net::TcpStream::connect(&redis_address).await.is_err());
    let begin = Instant::now();
    infra.start_all().await.unwrap();
    eprintln!("all four back {:?} after kill -9", begin.elapsed());
    assert_eq!(infra.redis().address(), redis_address);
    assert!(raw::redis(&infra, "GET kept").await.contains("yes"));
    assert_eq!(raw::sql(&infra, "lapwing", &password, "SELECT a FROM t").unwrap(), "7");
    infra.redis().restart().await.unwrap();
    infra.mariadb().restart().await.unwrap();
    infra.kafka().restart().await.unwrap();
    assert!(raw::redis(&infra, "GET kept").await.contains("yes"));
    assert_eq!(raw::sql(&infra, "lapwing", &password, "SELECT a FROM t").unwrap(), "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_is_silent_until_it_is_resumed() {
    let infra = Infra::start(InfraOptions::default()).await.unwrap();
    let redis =
        Ready::Redis { address: infra.redis().address(), password: infra.redis().password().to_owned() };
    let nats = Ready::Greets { address: infra.nats().address(), with: "INFO".to_owned() };
    infra.redis().pause().unwrap();
    infra.nats().pause().unwrap();
    assert!(!redis.holds().await && !nats.holds().await);
    assert!(infra.redis().is_running(), "a paused process is still there");
    infra.redis().resume().unwrap();
    infra.nats().resume().unwrap();
    assert!(redis.holds().await && nats.holds().await);
    // A stop gets through to a paused server, too.
    infra.redis().pause().unwrap();
    assert!(infra.redis().stop().await, "redis did not stop gracefully");
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_has_the_products_topics_with_their_settings() {
    let infra = Infra::start(InfraOptions::default()).await.unwrap();
    let tools = install::ensure().await.unwrap();
    let output = tokio::process::Command::new(&tools.java)
        .args(["-XX:TieredStopAtLevel=1", "-cp"])
        .arg(format!("{}/*", tools.kafka_lib.display()))
        .args(["org.apache.kafka.tools.TopicCommand", "--describe", "--bootstrap-server"])
        .arg(infra.kafka().brokers())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for (topic, partitions) in
        [("p2p", 8), ("group", 8), ("system", 8), ("cursor", 8), ("tenants", 1), ("audit", 2), ("dead", 1)]
    {
        let line = text.lines().find(|line| line.starts_with(&format!("Topic: lapwing.{topic}\t")));
        let line = line.unwrap_or_else(|| panic!("no topic {topic} in\n{text}"));
        assert!(line.contains(&format!("PartitionCount: {partitions}\t")), "{line}");
        let compacted =
            line.contains("cleanup.policy=compact") && line.contains("min.compaction.lag.ms=604800000");
        assert_eq!(compacted, ["cursor", "tenants"].contains(&topic), "{line}");
        assert!(line.contains("min.insync.replicas=1"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn works_in_a_folder_with_a_space_and_a_long_path() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a folder with spaces").join("and-a-long-name-".repeat(7));
    let infra = Infra::start(InfraOptions { folder: Some(folder), ..InfraOptions::default() }).await.unwrap();
    let socket = infra.mariadb().socket().to_path_buf();
    assert!(socket.as_os_str().len() < 107, "{}", socket.display());
    assert_eq!(raw::sql_by_socket(&socket, "SELECT 40 + 2").unwrap(), "42");
    assert!(raw::redis(&infra, "SET a b").await.contains("+OK"));
    assert!(infra.folder().join("redis").join("appendonlydir").is_dir());
    infra.redis().restart().await.unwrap();
    assert!(raw::redis(&infra, "GET a").await.contains("\nb\r"));
    drop(infra);
    assert!(!socket.exists(), "the short folder of the socket is left behind");
}
