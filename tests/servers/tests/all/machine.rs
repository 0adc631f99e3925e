//! What the crate leaves on the machine: no distribution service, no policy file, no orphan.

use std::process::{Command, Stdio};
use std::time::Duration;

use lapwing_servers::process::Identity;
use lapwing_servers::{Infra, InfraOptions, install};

// R-DEV-1
#[tokio::test]
async fn no_service_of_the_distribution_is_left_running() {
    install::ensure().await.unwrap();
    assert_eq!(install::distribution_services(), Vec::<String>::new());
    assert!(!install::policy_left_behind(), "the installer's policy-rc.d is still in place");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the victim of a_killed_test_leaves_no_server, which runs it in a process of its own"]
async fn victim() {
    let report = std::env::var_os("LAPWING_TEST_VICTIM").unwrap();
    let infra = Infra::prepare(InfraOptions::default()).await.unwrap();
    infra.redis().start().await.unwrap();
    infra.nats().start().await.unwrap();
    let pids = format!("{} {}", infra.redis().pid().unwrap(), infra.nats().pid().unwrap());
    std::fs::write(report, format!("{pids} {}", infra.folder().display())).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_killed_test_leaves_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["machine::victim", "--exact", "--ignored"])
        .env("LAPWING_TEST_VICTIM", &report)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut words = String::new();
    for _ in 0..600 {
        words = std::fs::read_to_string(&report).unwrap_or_default();
        if !words.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut words = words.splitn(3, ' ');
    let servers: Vec<Identity> = words
        .by_ref()
        .take(2)
        .map(|pid| Identity::of(pid.parse().unwrap()).expect("the server runs while its parent lives"))
        .collect();
    assert_eq!(servers.len(), 2, "the victim started no servers");
    victim.kill().unwrap();
    victim.wait().unwrap();
    for server in servers {
        assert!(server.wait_gone(Duration::from_secs(5)).await, "process {} outlived its parent", server.pid);
    }
    std::fs::remove_dir_all(words.next().unwrap()).unwrap();
}

#[test]
fn a_reused_process_number_is_not_taken_for_the_old_process() {
    let me = Identity::of(std::process::id()).unwrap();
    assert!(me.is_running());
    let earlier = Identity { pid: me.pid, started: me.started - 1 };
    assert!(!earlier.is_running());
    assert!(earlier.signal(lapwing_servers::process::Signal::Kill).is_err());
}
