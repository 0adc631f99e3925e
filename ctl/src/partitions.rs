//! `lapwing partitions`
use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use futures::future::join_all;
use hyper::Method;
use lapwing_client::http::Api;
use serde_json::Value;

use crate::{config::Config, table::table};

/// Between the two looks that rates are taken from.
const LOOK: Duration = Duration::from_secs(1);

const COLUMNS: [&str; 14] = [
    "topic",
    "partition",
    "owner",
    "epoch",
    "state",
    "head_offset",
    "head/s",
    "applied_offset",
    "applied/s",
    "users_offset",
    "persisted_offset",
    "persisted/s",
    "pending",
    "redis",
];

/// True: every router answered and every partition has one serving owner.
pub(crate) async fn show(config: &Config) -> anyhow::Result<bool> {
    let routers = config.routers()?;
    let ((earlier, _), began) = (gather(&routers).await, Instant::now());
    tokio::time::sleep(LOOK).await;
    let (mut rows, silent) = gather(&routers).await;
    rates(&earlier, &mut rows, began.elapsed());
    for line in &silent {
        println!("{line}");
    }
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| COLUMNS.map(|column| cell(row, column)).to_vec()));
    println!("{}", table(&lines));
    let findings = judge(&rows);
    for finding in &findings {
        println!("! {finding}");
    }
    println!("{} partitions, {} findings", rows.len(), findings.len() + silent.len());
    Ok(findings.is_empty() && silent.is_empty() && !rows.is_empty())
}

pub(crate) async fn gather(routers: &[Api]) -> (Vec<Value>, Vec<String>) {
    let ask = |router: Api| async move {
        let answer = router.call(Method::GET, "/admin/partitions", None).await;
        (router.base().to_owned(), answer)
    };
    let (mut rows, mut silent) = (Vec::new(), Vec::new());
    for (base, answer) in join_all(routers.iter().cloned().map(ask)).await {
        match answer {
            Ok(Value::Array(list)) => rows.extend(list),
            Ok(other) => silent.push(format!("! {base}: not a list: {other}")),
            Err(error) => silent.push(format!("! {error}")),
        }
    }
    rows.sort_by_key(place);
    (rows, silent)
}

/// How fast the positions move, in records a second; only for a partition whose owner is the same.
fn rates(earlier: &[Value], rows: &mut [Value], passed: Duration) {
    let tenure = |row: &Value| (place(row), cell(row, "owner"), cell(row, "epoch"));
    let before: HashMap<_, &Value> = earlier.iter().map(|row| (tenure(row), row)).collect();
    for row in rows {
        let Some(before) = before.get(&tenure(row)) else { continue };
        for of in ["head", "applied", "persisted"] {
            let offset = format!("{of}_offset");
            if let (Some(from), Some(to)) = (before[&offset].as_u64(), row[&offset].as_u64()) {
                let rate = to.saturating_sub(from) as f64 / passed.as_secs_f64();
                row[format!("{of}/s")] = Value::from(rate.round() as u64);
            }
        }
    }
}

fn place(row: &Value) -> (String, u64) {
    (cell(row, "topic"), row["partition"].as_u64().unwrap_or(0))
}

pub(crate) fn cell(row: &Value, column: &str) -> String {
    match &row[column] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Each partition has exactly one serving owner; gaps in the numbering of a topic are partitions without one.
fn judge(rows: &[Value]) -> Vec<String> {
    let mut serving: BTreeMap<(String, u64), u32> = BTreeMap::new();
    let mut highest: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows {
        let at = place(row);
        let top = highest.entry(at.0.clone()).or_default();
        *top = (*top).max(at.1);
        *serving.entry(at).or_default() += u32::from(row["state"] == "serving");
    }
    let mut findings = Vec::new();
    for (topic, top) in highest {
        for partition in 0..=top {
            match serving.get(&(topic.clone(), partition)).copied().unwrap_or(0) {
                1 => {}
                0 => findings.push(format!("{topic} {partition} has no serving owner")),
                n => findings.push(format!("{topic} {partition} has {n} serving owners")),
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(partition: u64, owner: &str, state: &str) -> Value {
        json!({ "topic": "lapwing.p2p", "partition": partition, "owner": owner, "state": state, "epoch": null })
    }

    // R-SEQ-6, R-SEQ-10
    #[test]
    fn finds_partitions_without_an_owner_and_with_two() {
        assert!(
            judge(&[row(0, "r1", "serving"), row(1, "r2", "serving"), row(1, "r1", "claiming")]).is_empty()
        );
        assert_eq!(judge(&[row(0, "r1", "serving"), row(0, "r2", "serving")]).len(), 1);
        assert_eq!(judge(&[row(0, "r1", "claiming"), row(2, "r1", "serving")]).len(), 2);
        assert_eq!(cell(&row(0, "r1", "x"), "epoch"), "-");
    }

    #[test]
    fn rates_are_of_one_tenure() {
        let at = |owner: &str, epoch: u64, head: u64| json!({ "topic": "lapwing.p2p", "partition": 0, "owner": owner, "epoch": epoch, "head_offset": head });
        let mut rows = [at("r1", 5, 400), at("r2", 9, 400)];
        rates(&[at("r1", 5, 100), at("r2", 7, 100)], &mut rows, Duration::from_millis(1500));
        assert_eq!((cell(&rows[0], "head/s"), cell(&rows[0], "applied/s")), ("200".into(), "-".into()));
        assert_eq!(cell(&rows[1], "head/s"), "-", "claimed anew in between");
    }
}
