//! `lapwing placement`, and `lapwing move-range --view mysql`
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::future::join_all;
use hyper::Method;
use lapwing_client::http::Api;
use serde_json::Value;

use crate::{
    config::Config,
    move_range::{Range, place},
    partitions::cell,
    table::table,
};

const PAUSE: Duration = Duration::from_millis(500);
const COLUMNS: [&str; 7] =
    ["topic", "partition", "instance", "state", "rows_moved", "moved_up_to_bucket", "positions"];

/// True: every persister answered and nothing is on its way.
pub(crate) async fn show(config: &Config) -> anyhow::Result<bool> {
    let (rows, tenants, silent) = gather(&config.persisters()?).await;
    for line in &silent {
        println!("{line}");
    }
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(line));
    println!("{}", table(&lines));
    for (tenant, own) in &tenants {
        println!("tenant {tenant}: instance {}, table {}", cell(own, "instance"), cell(own, "table"));
    }
    let moving = rows.iter().filter(|row| row["state"] != "placed").count();
    println!("{} partitions, {moving} on their way, {} tenants of their own", rows.len(), tenants.len());
    Ok(silent.is_empty() && !rows.is_empty())
}

fn line(row: &Value) -> Vec<String> {
    let mut cells = COLUMNS.map(|column| cell(row, column)).to_vec();
    let at = |name: &str| Some(cell(row, name)).filter(|name| !name.is_empty());
    if let Some(to) = at("filling") {
        cells[3] = format!("{} to {to}", cells[3]);
    } else if let Some(from) = at("sweeping") {
        cells[3] = format!("{} {from}", cells[3]);
    }
    if let Some(positions) = row["positions"].as_object() {
        let each: Vec<_> = positions.iter().map(|(name, offset)| format!("{name} {offset}")).collect();
        cells[6] = each.join(", ");
    }
    cells
}

/// What all persisters say together: each knows the positions of what it holds.
async fn gather(persisters: &[Api]) -> (Vec<Value>, BTreeMap<String, Value>, Vec<String>) {
    let ask = |persister: Api| async move { persister.call(Method::GET, "/admin/placement", None).await };
    let (mut rows, mut tenants, mut silent) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for answer in join_all(persisters.iter().cloned().map(ask)).await {
        match answer {
            Ok(answer) => {
                for row in answer["partitions"].as_array().into_iter().flatten() {
                    merge(&mut rows, row);
                }
                let own = answer["tenants"].as_object().into_iter().flatten();
                tenants.extend(own.map(|(tenant, own)| (tenant.clone(), own.clone())));
            }
            Err(error) => silent.push(format!("! {error}")),
        }
    }
    (rows.into_values().collect(), tenants, silent)
}

fn merge(rows: &mut BTreeMap<(String, u64), Value>, row: &Value) {
    let known = rows.entry(place(row)).or_insert_with(|| row.clone());
    let mut positions = known["positions"].as_object().cloned().unwrap_or_default();
    positions.extend(row["positions"].as_object().cloned().unwrap_or_default());
    if known["version"].as_i64() < row["version"].as_i64() {
        *known = row.clone();
    }
    known["positions"] = positions.into();
}

/// True: all of the range is there and swept where it was. The holders do it; who dies on the way is followed by another.
pub(crate) async fn move_range(config: &Config, range: &Range) -> anyhow::Result<bool> {
    let persisters = config.persisters()?;
    let path = format!("/admin/move-range?view=mysql&buckets={}&to={}", range.buckets, range.to);
    let (end, mut told) = (Instant::now() + Duration::from_secs(range.seconds), String::new());
    let wanted = wish(&persisters, &path).await?;
    loop {
        let (rows, ..) = gather(&persisters).await;
        let rows: Vec<_> = rows.into_iter().filter(|row| wanted.contains(&place(row))).collect();
        let of = |state: &str| rows.iter().filter(|row| row["state"] == state).count();
        let there = rows.iter().filter(|row| cell(row, "instance") == range.to).count();
        let moved: u64 = rows.iter().filter_map(|row| row["rows_moved"].as_u64()).sum();
        let line = format!(
            "{there} of {} partitions are on {}; {} copying, {} switching, {} sweeping; {moved} rows copied",
            wanted.len(),
            range.to,
            of("copying"),
            of("switching"),
            of("sweeping")
        );
        if line != told {
            println!("{line}");
            told = line;
        }
        if there == wanted.len() && of("placed") == wanted.len() {
            println!("moved: what the persisters have stored counts from now on, not LAPWING_MYSQL_BUCKETS");
            return Ok(true);
        }
        if Instant::now() >= end {
            println!("not moved within {} s; it goes on: `lapwing placement` shows it", range.seconds);
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The first persister that answers writes it down.
async fn wish(persisters: &[Api], path: &str) -> anyhow::Result<BTreeSet<(String, u64)>> {
    let mut last = None;
    for persister in persisters {
        match persister.call(Method::POST, path, None).await {
            Ok(Value::Array(rows)) => return Ok(rows.iter().map(place).collect()),
            Ok(other) => anyhow::bail!("{}: not a list: {other}", persister.base()),
            Err(error) if error.code().is_some_and(|code| code < 500) => return Err(error.into()),
            Err(error) => last = Some(error),
        }
    }
    Err(last.context("no persister answers")?.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_persister_adds_the_positions_that_it_knows() {
        let row = |version: i64, instance: &str, positions: Value| {
            json!({ "topic": "lapwing.p2p", "partition": 0, "version": version, "instance": instance,
                "state": "placed", "filling": "", "sweeping": "", "positions": positions })
        };
        let mut rows = BTreeMap::new();
        merge(&mut rows, &row(4, "one", json!({ "one": 7 })));
        merge(&mut rows, &row(5, "two", json!({ "two": 9 })));
        let merged = rows.into_values().next().unwrap();
        assert_eq!(cell(&merged, "instance"), "two");
        assert_eq!(line(&merged)[6], "one 7, two 9");
    }
}
