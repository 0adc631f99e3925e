//! Sources: length, unfinished work, requirement numbers, pure cores, stages.

use crate::File;

pub const MOST_LINES: usize = 500;

/// Hand-written sources; what a generator wrote stands in folders named `gen`.
pub fn is_source(file: &File) -> bool {
    let script = file.path == "dev" || file.path == ".ci/run";
    (script || file.ends_with(&[".rs", ".ts", ".lua", ".sh"])) && !file.path.contains("/gen/")
}

/// Sources, manifests, protocol and deployment files: all but prose and what was built.
pub fn is_code(file: &File) -> bool {
    let built = file.path.starts_with("clients/demo/site/");
    let other = [".proto", ".toml", ".sql", ".yaml", ".yml", ".mjs", ".css", ".html"];
    is_source(file) || (file.ends_with(&other) && !built)
}

pub fn too_long(file: &File) -> Option<String> {
    let lines = file.text.lines().count();
    (lines > MOST_LINES).then(|| format!("{}: {lines} lines, at most {MOST_LINES}", file.path))
}

/// Work that was put off in a comment, or left out by a macro.
pub fn unfinished(file: &File) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let macros = [concat!("to", "do!("), concat!("unimple", "mented!(")];
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let words: Vec<&str> = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let mark = marks.iter().find(|mark| words.contains(mark));
        let call = macros.iter().find(|call| line.contains(**call));
        if let Some(found) = mark.or(call) {
            findings.push(format!("{}:{}: {found}", file.path, number + 1));
        }
    }
    findings
}

/// The areas of the requirements with their highest number.
const AREAS: [(&str, u32); 12] = [
    ("ACK", 6),
    ("SEQ", 11),
    ("FAN", 14),
    ("GW", 9),
    ("PERM", 5),
    ("PST", 12),
    ("AUTH", 2),
    ("API", 2),
    ("CHAT", 2),
    ("DEV", 3),
    ("OBS", 6),
    ("LT", 8),
];

/// Every requirement that a text names, such as (`ACK`, 2).
pub fn requirements(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("R-") {
        if text[..at].chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric()) {
            continue;
        }
        let rest = &text[at + 2..];
        let area: String = rest.chars().take_while(char::is_ascii_uppercase).collect();
        let Some(after) = rest[area.len()..].strip_prefix('-') else { continue };
        let number: String = after.chars().take_while(char::is_ascii_digit).collect();
        if area.len() > 1 && !number.is_empty() {
            found.push((area, number));
        }
    }
    found
}

pub fn unknown_requirements(file: &File) -> Vec<String> {
    let known = |area: &str, number: &str| {
        let number: u32 = number.parse().unwrap_or(0);
        AREAS.iter().any(|(name, highest)| *name == area && (1..=*highest).contains(&number))
    };
    requirements(&file.text)
        .into_iter()
        .filter(|(area, number)| !known(area, number))
        .map(|(area, number)| format!("{}: R-{area}-{number} is no requirement", file.path))
        .collect()
}

/// Crates through which a core would do IO or see a clock of its own.
const IO: [&str; 11] = [
    "tokio",
    "tokio-util",
    "hyper",
    "hyper-util",
    "async-nats",
    "redis",
    "rdkafka",
    "rskafka",
    "sqlx",
    "lapwing-runtime",
    "lapwing-links",
];

/// What the manifest of a pure crate names that does IO, in any of its dependency tables.
pub fn impure(file: &File) -> Vec<String> {
    let manifest: toml::Table = match file.text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![format!("{}: {error}", file.path)],
    };
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
    let names =
        tables.iter().filter_map(|table| manifest.get(*table)?.as_table()).flat_map(|table| table.keys());
    let bad = names.filter(|name| IO.contains(&name.as_str()));
    bad.map(|name| format!("{}: a pure crate depends on {name}", file.path)).collect()
}

/// Stages without a file of their name in one of the services.
pub fn stages_without_file(stages: &[&str], paths: &[&str]) -> Vec<String> {
    let has_file = |stage: &str| {
        ["gateway", "router", "persister"]
            .iter()
            .any(|service| paths.contains(&format!("{service}/src/{stage}.rs").as_str()))
    };
    let without = stages.iter().filter(|stage| **stage != "total" && !has_file(stage));
    without.map(|stage| format!("stage {stage}: no service has src/{stage}.rs")).collect()
}
