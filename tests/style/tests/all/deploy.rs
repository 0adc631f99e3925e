use std::collections::BTreeSet;

use lapwing_style::deploy::{self, Part, Workload, documents};
use lapwing_style::{files_under, keys, none, read};
use serde_yaml_ng::Value;

fn unknown(part: &Part) -> Vec<String> {
    deploy::unknown_keys(part, &keys::of_service(&part.service).unwrap())
}

#[test]
fn compose_sets_only_keys_that_the_services_know() {
    let text = read("compose.yaml").unwrap();
    let parts = deploy::compose_parts(&documents(&text).unwrap()[0]);
    assert_eq!(parts.len(), 6);
    none(&parts.iter().flat_map(unknown).collect::<Vec<_>>());
    let bent = text.replace("LAPWING_DEMO_TENANT", "LAPWING_DEMO_TENNANT");
    let parts = deploy::compose_parts(&documents(&bent).unwrap()[0]);
    assert_eq!(parts.iter().flat_map(unknown).count(), 2);
}

fn objects(folder: &str) -> Vec<Value> {
    let files = files_under(folder).unwrap();
    let manifests = files.iter().filter(|file| !file.path.ends_with("kustomization.yaml"));
    let manifests = manifests.filter(|file| file.path.ends_with(".yaml"));
    manifests
        .flat_map(|file| documents(&file.text).unwrap_or_else(|e| panic!("{}: {e}", file.path)))
        .collect()
}

fn workloads(objects: &[Value]) -> Vec<Workload> {
    objects.iter().filter_map(Workload::of).map(Result::unwrap).collect()
}

fn own_grace_ms() -> u64 {
    let printed = keys::printed("router").unwrap();
    let line = printed.iter().find(|line| line.key == "LAPWING_DRAIN_GRACE_MS").unwrap();
    line.value.parse().unwrap()
}

fn problems(objects: &[Value]) -> Vec<String> {
    let workloads = workloads(objects);
    let grace = own_grace_ms();
    let mut findings = Vec::new();
    for workload in &workloads {
        findings.extend(unknown(&workload.part));
        findings.extend(workload.wrong_ports());
        findings.extend(workload.wrong_life(grace));
    }
    findings.extend(objects.iter().flat_map(|object| deploy::dangling(object, &workloads)));
    findings
}

// R-OBS-5
#[test]
fn kubernetes_declares_what_the_services_know() {
    let objects = objects("k8s");
    none(&problems(&objects));
    let names: BTreeSet<String> =
        workloads(&objects).iter().map(|workload| workload.part.service.clone()).collect();
    assert_eq!(names, keys::SERVICES.map(str::to_owned).into());
    for service in keys::SERVICES {
        let kinds: BTreeSet<&str> = objects
            .iter()
            .filter(|object| object["metadata"]["name"].as_str().is_some_and(|name| name.contains(service)))
            .filter_map(|object| object["kind"].as_str())
            .collect();
        assert!(kinds.contains("Service") && kinds.contains("PodDisruptionBudget"), "{service}: {kinds:?}");
    }
}

#[test]
fn each_bent_declaration_is_found() {
    let text = read("k8s/gateway/gateway.yaml").unwrap();
    for (right, wrong) in [
        ("LAPWING_API_ADDR", "LAPWING_APPI_ADDR"),
        ("containerPort: 7100", "containerPort: 7101"),
        ("path: /livez", "path: /live"),
        ("memory: 1Gi", "memory: 2Gi"),
        ("terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 10"),
        ("targetPort: clients", "targetPort: client"),
        ("sessionAffinity: None", "sessionAffinity: ClientIP"),
    ] {
        assert!(text.contains(right), "{right}");
        let bent = documents(&text.replace(right, wrong)).unwrap();
        assert!(!problems(&bent).is_empty(), "{wrong} was not found");
    }
}

// The names of gateways and routers become parts of NATS subjects; a router's decides which partitions it gets, so it stays.
#[test]
fn node_names_are_the_pods_and_routers_keep_theirs() {
    for workload in workloads(&objects("k8s")) {
        let env = workload.container["env"].as_sequence().unwrap();
        let node = env.iter().find(|entry| entry["name"] == "LAPWING_NODE").unwrap();
        assert_eq!(node["valueFrom"]["fieldRef"]["fieldPath"], "metadata.name", "{}", workload.part.name);
        // A Deployment's pods add 17 characters at most, a StatefulSet's a dash and an ordinal.
        let added = if workload.kind == "Deployment" { 17 } else { 5 };
        let longest = format!("{}{}", workload.part.name, "x".repeat(added));
        assert!(lapwing_runtime::config::node_name(&longest).is_ok(), "{longest}");
        if workload.part.service != "gateway" {
            assert_eq!(workload.kind, "StatefulSet", "{}", workload.part.name);
        }
    }
}

// R-OBS-5: each service deployable alone.
#[test]
fn each_service_has_a_kustomization_of_its_own() {
    let whole: Value = serde_yaml_ng::from_str(&read("k8s/kustomization.yaml").unwrap()).unwrap();
    let parts: Vec<&str> =
        whole["resources"].as_sequence().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(parts, keys::SERVICES);
    let documented = read("docs/operations.md").unwrap();
    for service in keys::SERVICES {
        let folder = format!("k8s/{service}");
        let own: Value =
            serde_yaml_ng::from_str(&read(&format!("{folder}/kustomization.yaml")).unwrap()).unwrap();
        for resource in own["resources"].as_sequence().unwrap() {
            read(&format!("{folder}/{}", resource.as_str().unwrap())).unwrap();
        }
        let alone = objects(&folder);
        assert_eq!(workloads(&alone).len(), 1);
        for (kind, name) in workloads(&alone)[0].sources() {
            assert!(documented.contains(&format!("`{name}`")), "{service}: {kind} {name} is not explained");
        }
    }
}
