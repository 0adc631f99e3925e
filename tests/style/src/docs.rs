//! Documents: links, tables, and examples that must say what the code says.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use lapwing_model::outcome::{CODES, Code};
use serde_json::Value;

use crate::File;

/// The text without code: fences become empty lines, code spans vanish.
pub fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let shown = if fenced || fence { "" } else { line };
        let outside = shown.split('`').enumerate().filter(|(part, _)| part % 2 == 0);
        lines.push(outside.map(|(_, text)| text).collect::<String>());
    }
    lines.join("\n")
}

/// Targets of `[…](target)`.
pub fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let after = prose.split("](").skip(1);
    after.filter_map(|rest| rest.split(')').next()).map(|target| target.trim().to_owned()).collect()
}

/// GitHub's anchor of a heading.
pub fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) {
            anchors.insert(anchor(heading.trim_start_matches('#')));
        }
    }
    anchors
}

/// Relative links that lead nowhere. `exists` tells of files and folders, `text_of` reads a document.
pub fn dead_links(
    file: &File,
    exists: &dyn Fn(&str) -> bool,
    text_of: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for link in links(&file.text) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (path, fragment) = link.split_once('#').unwrap_or((&link, ""));
        let target = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
        if !exists(&target) {
            findings.push(format!("{}: {link} leads nowhere", file.path));
        } else if !fragment.is_empty() && target.ends_with(".md") {
            let there = text_of(&target).is_some_and(|text| anchors(&text).contains(fragment));
            if !there {
                findings.push(format!("{}: {target} has no heading #{fragment}", file.path));
            }
        }
    }
    findings
}

fn resolve(from: &str, link: &str) -> String {
    let mut path = PathBuf::from(from);
    path.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.to_string_lossy().into_owned()
}

/// The cells of the first table below `heading` (a whole heading line), without its own head.
pub fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let below = text.lines().skip_while(|line| line.trim() != heading).skip(1);
    let section = below.take_while(|line| !line.starts_with('#'));
    let rows = section.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2).map(cells).collect()
}

fn cells(row: &str) -> Vec<String> {
    let inner = row.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split(" | ").map(|cell| cell.trim().trim_matches('|').trim().to_owned()).collect()
}

/// A table of errors (code, name, outcome, temporary, what the client does) that is not the code's.
pub fn wrong_outcomes(rows: &[Vec<String>]) -> Vec<String> {
    let wanted = CODES.map(outcome_row);
    let mut findings = Vec::new();
    for (wanted, found) in wanted.iter().zip(rows) {
        if found.get(..wanted.len()) != Some(wanted.as_slice()) {
            findings.push(format!("the table says {found:?}, the code {wanted:?}"));
        }
    }
    if rows.len() != wanted.len() {
        findings.push(format!("the table has {} lines, the code {} codes", rows.len(), wanted.len()));
    }
    findings
}

pub fn outcome_row(code: Code) -> Vec<String> {
    let line = code.line();
    let class = line.class.as_str_name().trim_start_matches("CLASS_").to_ascii_lowercase();
    let temporary = if line.temporary { "yes" } else { "no" };
    let cells = [&line.http.to_string(), &format!("`{}`", line.name), &class, temporary, line.client_does];
    cells.map(str::to_owned).to_vec()
}

/// Blocks of JSON behind `<!-- vector: NAME -->`, as (name, text).
pub fn vector_blocks(text: &str) -> Vec<(String, String)> {
    let after = text.split("<!-- vector: ").skip(1);
    after
        .filter_map(|rest| {
            let (name, rest) = rest.split_once(" -->")?;
            let json = rest.trim_start().strip_prefix("```json")?.split("```").next()?;
            Some((name.to_owned(), json.to_owned()))
        })
        .collect()
}

/// Whether everything that `part` shows stands in `whole`: an example may leave out, never differ.
pub fn shows(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|there| shows(value, there)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.iter().all(|value| whole.iter().any(|there| shows(value, there)))
        }
        (part, whole) => part == whole,
    }
}

/// Tests that a document names as `[name](path)` or `[a::name](path)` and that are not in that file.
pub fn missing_tests(file: &File, text_of: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, path) in named_tests(&file.text) {
        let target = resolve(&file.path, &path);
        let there = text_of(&target).is_some_and(|text| text.contains(&format!("fn {name}(")));
        if !there {
            findings.push(format!("{}: {target} has no test {name}", file.path));
        }
    }
    findings
}

/// `[`name`](path.rs)`, as (name, path).
pub fn named_tests(text: &str) -> Vec<(String, String)> {
    let after = text.split("[`").skip(1);
    after
        .filter_map(|rest| {
            let (name, rest) = rest.split_once("`](")?;
            let path = rest.split(')').next()?;
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            (is_name && path.ends_with(".rs")).then(|| (name.to_owned(), path.to_owned()))
        })
        .collect()
}

/// The first strings of calls such as `named("…")` in a text.
pub fn quoted_after(text: &str, before: &str) -> BTreeSet<String> {
    let after = text.split(before).skip(1);
    after.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

/// Words in code spans of a text.
pub fn code_spans(text: &str) -> BTreeSet<String> {
    let spans = text.split('`').enumerate().filter(|(part, _)| part % 2 == 1);
    spans.map(|(_, span)| span.to_owned()).collect()
}
