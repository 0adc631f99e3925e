use std::collections::BTreeSet;

use lapwing_style::{File, docs, files, files_under, keys, none, read, root};
use serde_json::{Value, json};

fn documents() -> Vec<File> {
    let mut all = files_under("docs").unwrap();
    all.retain(|file| file.path.ends_with(".md"));
    all.push(File { path: "README.md".into(), text: read("README.md").unwrap() });
    all
}

#[test]
fn links_live() {
    let file = File {
        path: "docs/a.md".into(),
        text: "[x](b.md#one-two) `[y](gone.md)`\n# One, two\n[z](#one-two)".into(),
    };
    let exists = |path: &str| path == "docs/b.md" || path == "docs/a.md";
    let heading = |_: &str| Some("text\n## One, two\n".to_owned());
    assert!(docs::dead_links(&file, &exists, &heading).is_empty());
    assert_eq!(docs::dead_links(&file, &|_| false, &heading).len(), 2);
    assert_eq!(docs::dead_links(&file, &exists, &|_| Some("# Other".into())).len(), 2);

    let exists = |path: &str| root().join(path).exists();
    let all = documents();
    assert!(all.len() > 8, "only {} documents", all.len());
    none(
        &all.iter()
            .flat_map(|file| docs::dead_links(file, &exists, &|path| read(path).ok()))
            .collect::<Vec<_>>(),
    );
}

// R-ACK-1: one table, in the code; README and protocol repeat it.
#[test]
fn outcome_tables_are_the_codes() {
    for (path, heading) in
        [("README.md", "## What becomes of a message"), ("docs/protocol.md", "### Errors and what to do")]
    {
        let text = read(path).unwrap();
        none(&docs::wrong_outcomes(&docs::table(&text, heading)));
        let bent = text.replace("`too_large` | rejected", "`too_large` | open");
        assert_ne!(bent, text, "{path}");
        assert_eq!(docs::wrong_outcomes(&docs::table(&bent, heading)).len(), 1);
    }
}

#[test]
fn close_codes_are_the_gateways() {
    let code = read("gateway/src/close.rs").unwrap();
    let of = |arm: &str| {
        code.split(arm).skip(1).filter_map(|rest| rest.split([',', '"']).next()).collect::<Vec<_>>()
    };
    let text = read("docs/protocol.md").unwrap();
    let rows = docs::table(&text, "### Close codes");
    let mut count = 0;
    for variant in [
        "GoingAway",
        "SlowConsumer",
        "HeartbeatLost",
        "NotReady",
        "SessionReplaced",
        "Unauthenticated",
        "TenantSuspended",
    ] {
        let number = of(&format!("Close::{variant} => "))[0].to_owned();
        let reason = of(&format!("Close::{variant} => \""))[0].to_owned();
        let row =
            rows.iter().find(|row| row[0] == number).unwrap_or_else(|| panic!("no close code {number}"));
        assert_eq!(row[1], format!("`{reason}`"));
        assert_eq!(row[2] == "yes", number.as_str() < "4500", "reconnect at {number}");
        count += 1;
    }
    // 4502 has a reason of its own each time; the rest are WebSocket's own.
    assert!(rows.iter().any(|row| row[0] == "4502"));
    assert!(rows.len() > count);
}

#[test]
fn examples_are_the_committed_vectors() {
    assert!(docs::shows(&json!({"a": [{"b": 1}]}), &json!({"a": [{"b": 1, "c": 2}, 3], "d": 4})));
    assert!(!docs::shows(&json!({"a": [{"b": 2}]}), &json!({"a": [{"b": 1}]})));
    let text = read("docs/protocol.md").unwrap();
    let mut shown = BTreeSet::new();
    for (name, block) in docs::vector_blocks(&text) {
        let part: Value = serde_json::from_str(&block).unwrap_or_else(|error| panic!("{name}: {error}"));
        let whole: Value =
            serde_json::from_str(&read(&format!("proto/vectors/{name}.json")).unwrap()).unwrap();
        assert!(docs::shows(&part, &whole), "{name} is shown as {part}, the vector is {whole}");
        shown.insert(name);
    }
    let vectors = files_under("proto/vectors").unwrap();
    let names =
        vectors.iter().filter_map(|file| file.path.strip_prefix("proto/vectors/")?.strip_suffix(".json"));
    let frames = names.filter(|name| name.starts_with("client_frame-") || name.starts_with("server_frame-"));
    none(
        &frames
            .filter(|name| !shown.contains(*name))
            .map(|name| format!("no example of {name}"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn invariants_name_tests_that_exist() {
    let path = "docs/architecture.md";
    let file = File { path: path.into(), text: read(path).unwrap() };
    let rows = docs::table(&file.text, "## Invariants");
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row[0], format!("I{}", number + 1));
        assert!(!docs::named_tests(&row[2]).is_empty(), "{} names no test", row[0]);
    }
    assert_eq!(rows.len(), 9);
    none(&docs::missing_tests(&file, &|path| read(path).ok()));
    let bent = File { path: path.into(), text: "[`no_such_test`](../router/core/src/lib.rs)".into() };
    assert_eq!(docs::missing_tests(&bent, &|path| read(path).ok()).len(), 1);
}

fn service_sources() -> Vec<File> {
    let mut all = files().unwrap();
    all.retain(|file| {
        let ours = ["gateway/", "router/", "persister/", "shared/"]
            .iter()
            .any(|folder| file.path.starts_with(folder));
        ours && file.path.contains("/src/") && file.path.ends_with(".rs") && !file.path.contains("tests")
    });
    all.iter_mut()
        .for_each(|file| file.text = file.text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
    all
}

// R-OBS-3: what can be scraped is listed, and nothing else.
#[test]
fn every_metric_is_listed() {
    let is_metric =
        |name: &String| name.starts_with("lapwing_") && !name.ends_with('_') && !name.contains("::");
    let text = service_sources().into_iter().map(|file| file.text).collect::<String>();
    let strings = text.split('"').filter(|part| part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
    let exported: BTreeSet<String> = strings.map(str::to_owned).filter(is_metric).collect();
    let listed: BTreeSet<String> =
        docs::code_spans(&read("docs/operations.md").unwrap()).into_iter().filter(is_metric).collect();
    assert!(exported.len() > 30, "only {} metrics were found", exported.len());
    assert_eq!(listed, exported);
}

// Every queue has its place in the picture.
#[test]
fn every_queue_is_in_the_architecture() {
    let text = service_sources().into_iter().map(|file| file.text).collect::<String>();
    let mut queues = docs::quoted_after(&text, "Queue::named(\"");
    queues.extend(docs::quoted_after(&text, "SubscriptionOptions::named(\""));
    assert!(queues.len() > 12, "{queues:?}");
    let rows = docs::table(&read("docs/architecture.md").unwrap(), "### Queues");
    let listed: BTreeSet<String> = rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    assert_eq!(listed, queues);
}

// Commands that a document tells people to run exist.
#[test]
fn commands_of_dev_exist() {
    let script = read("dev").unwrap();
    let known: BTreeSet<&str> =
        script.lines().filter_map(|line| line.strip_prefix("./dev ")?.split_whitespace().next()).collect();
    assert!(known.contains("up") && known.contains("process"), "{known:?}");
    let mut findings = Vec::new();
    for file in documents() {
        let words = file.text.split("./dev ").skip(1);
        let words =
            words.map(|rest| rest.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default());
        let unknown = words.filter(|word| !word.is_empty() && *word != "help" && !known.contains(word));
        findings.extend(unknown.map(|word| format!("{}: ./dev {word}", file.path)));
    }
    none(&findings);
}

const BEGIN: &str =
    "<!-- configuration: cargo test -p lapwing-style with LAPWING_BLESS=1 writes this part -->";
const END: &str = "<!-- end of configuration -->";

#[test]
fn configuration_is_what_the_services_print() {
    let path = "docs/operations.md";
    let text = read(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    let wanted = format!("\n{}\n", configuration());
    if std::env::var_os("LAPWING_BLESS").is_some() {
        std::fs::write(root().join(path), format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(listed, wanted, "LAPWING_BLESS=1 cargo test -p lapwing-style configuration");
}

fn configuration() -> String {
    let printed = keys::SERVICES.map(|service| (service, keys::printed(service).unwrap()));
    let [(_, first), (_, second), (_, third)] = &printed;
    let same = first.iter().zip(second).zip(third).take_while(|((a, b), c)| a.key == b.key && b.key == c.key);
    let common = same.count();
    assert!(common > 5, "the common keys are printed first");
    let mut parts = vec![part("Every service", &first[..common])];
    parts.extend(printed.iter().map(|(service, lines)| part(&format!("The {service}"), &lines[common..])));
    parts.join("\n")
}

fn part(title: &str, lines: &[keys::Printed]) -> String {
    let row = |line: &keys::Printed| {
        let value = if line.value.is_empty() { String::new() } else { format!("`{}`", line.value) };
        format!("| `{}` | {value} | {} |\n", line.key, line.meaning.replace('|', "/"))
    };
    let rows = lines.iter().map(row).collect::<String>();
    format!("\n### {title}\n\n| key | default | meaning |\n|---|---|---|\n{rows}")
}
