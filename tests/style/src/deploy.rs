//! `compose.yaml` and `k8s/`: what they declare against what the services know.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_yaml_ng::Value;

use crate::keys::knows;

/// All documents of a YAML text; anchors and `<<` are resolved.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let parts = text.split("\n---\n").filter(|part| !part.trim().is_empty());
    parts
        .map(|part| {
            let mut value: Value = serde_yaml_ng::from_str(part)?;
            // What is merged in may itself begin with a merge.
            for _ in 0..3 {
                value.apply_merge()?;
            }
            Ok(value)
        })
        .collect()
}

/// A part of compose or a container, with what is looked at.
pub struct Part {
    pub name: String,
    /// `gateway`, `router` or `persister`.
    pub service: String,
    pub env: Vec<(String, Option<String>)>,
}

/// Our own services in a compose file.
pub fn compose_parts(compose: &Value) -> Vec<Part> {
    let services = compose["services"].as_mapping().into_iter().flatten();
    services
        .filter_map(|(name, part)| {
            let service = part["command"].as_str()?.strip_prefix("lapwing-")?.to_owned();
            let env = part["environment"].as_mapping()?.iter();
            let env = env.map(|(key, value)| (text(key), value.as_str().map(str::to_owned))).collect();
            Some(Part { name: text(name), service, env })
        })
        .collect()
}

/// Keys that the part's service does not know.
pub fn unknown_keys(part: &Part, known: &BTreeSet<String>) -> Vec<String> {
    let unknown = part.env.iter().filter(|(key, _)| !knows(known, key));
    unknown.map(|(key, _)| format!("{}: {} knows no {key}", part.name, part.service)).collect()
}

/// A Deployment or StatefulSet of one container.
pub struct Workload {
    pub kind: String,
    pub part: Part,
    pub labels: Value,
    pub pod: Value,
    pub container: Value,
    pub object: Value,
}

impl Workload {
    pub fn of(object: &Value) -> Option<Result<Self>> {
        let kind = object["kind"].as_str()?;
        matches!(kind, "Deployment" | "StatefulSet").then(|| Self::read(kind, object))
    }

    fn read(kind: &str, object: &Value) -> Result<Self> {
        let name = object["metadata"]["name"].as_str().context("a workload without a name")?;
        let pod = &object["spec"]["template"]["spec"];
        let container = pod["containers"][0].clone();
        let command = container["command"][0].as_str().with_context(|| format!("{name} has no command"))?;
        let service = command.strip_prefix("lapwing-").with_context(|| format!("{name} runs {command}"))?;
        let env = container["env"].as_sequence().into_iter().flatten();
        let env = env.map(|entry| (text(&entry["name"]), entry["value"].as_str().map(str::to_owned)));
        let part = Part { name: name.to_owned(), service: service.to_owned(), env: env.collect() };
        Ok(Self {
            kind: kind.to_owned(),
            part,
            labels: object["spec"]["template"]["metadata"]["labels"].clone(),
            pod: pod.clone(),
            container,
            object: object.clone(),
        })
    }

    pub fn value(&self, key: &str) -> Option<&str> {
        self.part.env.iter().find(|(name, _)| name == key)?.1.as_deref()
    }

    /// The container's ports by name.
    pub fn ports(&self) -> Vec<(String, u64)> {
        let ports = self.container["ports"].as_sequence().into_iter().flatten();
        ports.map(|port| (text(&port["name"]), port["containerPort"].as_u64().unwrap_or(0))).collect()
    }

    /// Ports that are declared and those of the addresses that the service listens on must be the same.
    pub fn wrong_ports(&self) -> Vec<String> {
        let listened: [(&str, &str); 3] = [
            ("admin", "LAPWING_ADMIN_ADDR"),
            ("clients", "LAPWING_CLIENT_ADDR"),
            ("api", "LAPWING_API_ADDR"),
        ];
        let port_of = |key: &str| self.value(key)?.rsplit_once(':')?.1.parse::<u64>().ok();
        let wanted: Vec<(String, u64)> =
            listened.iter().filter_map(|(name, key)| Some(((*name).to_owned(), port_of(key)?))).collect();
        let mut declared = self.ports();
        declared.sort();
        let mut sorted = wanted;
        sorted.sort();
        if declared == sorted && !declared.is_empty() {
            return Vec::new();
        }
        vec![format!("{}: declares ports {declared:?}, listens on {sorted:?}", self.part.name)]
    }

    /// Probes by the admin port and paths that it answers; limits as required (R-OBS-5); a grace above the service's own.
    pub fn wrong_life(&self, own_grace_ms: u64) -> Vec<String> {
        let name = &self.part.name;
        let mut findings = Vec::new();
        for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            let get = &self.container[probe]["httpGet"];
            if get["path"].as_str() != Some(path) || get["port"].as_str() != Some("admin") {
                findings.push(format!("{name}: {probe} is not GET {path} on the admin port"));
            }
        }
        let resources = &self.container["resources"];
        for (kind, what, wanted) in [
            ("requests", "cpu", "1"),
            ("requests", "memory", "512Mi"),
            ("limits", "cpu", "2"),
            ("limits", "memory", "1Gi"),
        ] {
            if resources[kind][what].as_str() != Some(wanted) {
                findings.push(format!("{name}: {kind}.{what} is not {wanted}"));
            }
        }
        let own = self.value("LAPWING_DRAIN_GRACE_MS").and_then(|ms| ms.parse().ok()).unwrap_or(own_grace_ms);
        let grace = self.pod["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
        if grace * 1000 <= own {
            findings.push(format!("{name}: {grace} s until it is killed, its own grace is {own} ms"));
        }
        findings
    }

    /// ConfigMaps and Secrets that the container's environment takes values from.
    pub fn sources(&self) -> BTreeSet<(String, String)> {
        let env = self.container["env"].as_sequence().into_iter().flatten();
        env.flat_map(|entry| {
            let from = &entry["valueFrom"];
            [("ConfigMap", &from["configMapKeyRef"]), ("Secret", &from["secretKeyRef"])]
                .map(|(kind, reference)| (kind.to_owned(), text(&reference["name"])))
        })
        .filter(|(_, name)| !name.is_empty())
        .collect()
    }
}

/// A Service or disruption budget whose selector or port no workload has.
pub fn dangling(object: &Value, workloads: &[Workload]) -> Vec<String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = text(&object["metadata"]["name"]);
    let selector = match kind {
        "Service" => &object["spec"]["selector"],
        "PodDisruptionBudget" => &object["spec"]["selector"]["matchLabels"],
        _ => return Vec::new(),
    };
    let selected: Vec<&Workload> =
        workloads.iter().filter(|workload| covers(&workload.labels, selector)).collect();
    if selected.is_empty() {
        return vec![format!("{kind} {name} selects no pod")];
    }
    let mut findings = Vec::new();
    for port in object["spec"]["ports"].as_sequence().into_iter().flatten() {
        let target = text(&port["targetPort"]);
        if !selected.iter().all(|workload| workload.ports().iter().any(|(name, _)| *name == target)) {
            findings.push(format!("Service {name}: no port {target} in its pods"));
        }
    }
    if kind == "Service" && object["spec"]["sessionAffinity"].as_str() != Some("None") {
        findings.push(format!("Service {name}: sessionAffinity is not None"));
    }
    findings
}

fn covers(labels: &Value, selector: &Value) -> bool {
    let wanted = selector.as_mapping().into_iter().flatten();
    let mut count = 0;
    let all = wanted.inspect(|_| count += 1).all(|(key, value)| labels.get(key) == Some(value));
    all && count > 0
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
