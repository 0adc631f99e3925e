//! Six service processes beside the servers: found, killed, restarted, adopted by another program.

use std::collections::BTreeSet;
use std::path::Path;

use lapwing_servers::{Cluster, Infra, InfraOptions, Options, State, http, kafka, paths};
use serde_yaml_ng::Value;

use crate::fake;

#[tokio::test(flavor = "multi_thread")]
async fn services_start_die_and_come_back_on_their_ports() {
    let bin = tempfile::tempdir().unwrap();
    fake::binaries(bin.path());
    let options = Options { bin_dir: Some(bin.path().to_path_buf()), ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let names: Vec<&str> = cluster.services().map(|service| service.node()).collect();
    assert_eq!(names, ["g1", "g2", "r1", "r2", "p1", "p2"]);
    let router = cluster.router(1);
    let answer = http::get(&router.admin_address(), "/readyz").await.unwrap();
    assert_eq!(answer.body, "lapwing-router r2");
    let pid = router.pid().unwrap();
    router.kill9().await;
    assert!(http::get(&router.admin_address(), "/readyz").await.is_err());
    router.start().await.unwrap();
    assert_ne!(router.pid().unwrap(), pid);
    assert_eq!(router.health("/readyz").await.unwrap(), 200);

    // Another program finds the processes by the state file, kills one and starts it again.
    let path = cluster.infra().folder().join("state.json");
    cluster.state().save(&path).unwrap();
    let mut state = State::load(&path).unwrap().unwrap();
    assert!(state.running().iter().all(|(_, runs)| *runs), "{:?}", state.running());
    let persister = state.managed("p1").unwrap();
    persister.kill9().await;
    assert!(!cluster.persister(0).is_running(), "the owner sees that it was killed");
    persister.start().await.unwrap();
    state.update(&persister);
    state.save(&path).unwrap();
    let again = State::load(&path).unwrap().unwrap();
    assert_eq!(again.managed("p1").unwrap().pid(), persister.pid());
    assert_eq!(cluster.persister(0).health("/readyz").await.unwrap(), 200);
    drop(persister);
    cluster.stop().await;
    assert!(again.running().iter().all(|(_, runs)| !*runs), "{:?}", again.running());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_ends_at_once_is_reported_with_its_log() {
    let bin = tempfile::tempdir().unwrap();
    fake::binaries(bin.path());
    std::fs::write(bin.path().join("lapwing-router"), "#!/bin/sh\necho 'no such profile: x' >&2\nexit 3\n")
        .unwrap();
    let infra = Infra::prepare(InfraOptions::default()).await.unwrap();
    let options = Options {
        gateways: 0,
        persisters: 0,
        routers: 1,
        bin_dir: Some(bin.path().into()),
        ..Options::default()
    };
    let cluster = Cluster::with_infra(infra, &options).unwrap();
    let error = format!("{:#}", cluster.start_services().await.unwrap_err());
    assert!(
        error.contains("r1") && error.contains("exit code 3") && error.contains("no such profile"),
        "{error}"
    );
}

/// `compose.yaml` cannot be run here, so it is compared with what `./dev up` starts.
#[tokio::test(flavor = "multi_thread")]
async fn compose_has_the_same_parts_as_dev_up() {
    let bin = tempfile::tempdir().unwrap();
    fake::binaries(bin.path());
    let infra = Infra::prepare(InfraOptions::default()).await.unwrap();
    let demo_tenant = Some("demo".to_owned());
    let options = Options { bin_dir: Some(bin.path().into()), demo_tenant, ..Options::default() };
    let cluster = Cluster::with_infra(infra, &options).unwrap();
    let compose = compose(&paths::workspace_dir().join("compose.yaml"));
    let services = compose["services"].as_mapping().unwrap();
    for service in cluster.services() {
        let part = &services[service.node()];
        let spec = service.record().spec;
        assert_eq!(part["command"].as_str(), spec.program.file_name().and_then(|name| name.to_str()));
        let declared: BTreeSet<&str> =
            part["environment"].as_mapping().unwrap().keys().map(|key| key.as_str().unwrap()).collect();
        let ours: BTreeSet<&str> =
            spec.env.iter().map(|(key, _)| key.as_str()).filter(|key| key.starts_with("LAPWING_")).collect();
        assert_eq!(declared, ours, "environment of {}", service.node());
    }
    for (name, part) in services {
        for port in part["ports"].as_sequence().into_iter().flatten() {
            assert!(
                port.as_str().unwrap().starts_with("127.0.0.1:"),
                "{name:?} publishes {port:?} beyond loopback"
            );
        }
    }
    let script = services["topics"]["command"][0].as_str().unwrap();
    for (topic, partitions) in kafka::topic_partitions() {
        let line = format!("make {} {partitions}", topic.strip_prefix("lapwing.").unwrap());
        assert!(script.lines().any(|found| found.starts_with(&line)), "no `{line}` in compose.yaml");
    }
    assert_eq!(services["kafka"]["image"], services["topics"]["image"]);
}

fn compose(path: &Path) -> Value {
    let mut value: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    // A merged part brings the merge key of its own, so once more.
    value.apply_merge().unwrap();
    value.apply_merge().unwrap();
    value
}
