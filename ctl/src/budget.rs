//! `lapwing budget`: who shares the database with how many connections, and whether that fits.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use lapwing_persister_core::budget::Budget;

use crate::table::table;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The budget file, as the persisters get it by LAPWING_BUDGET_FILE
    #[arg(long, env = "LAPWING_BUDGET_FILE")]
    file: PathBuf,
    /// MySQL's max_connections
    #[arg(long, default_value_t = 151)]
    max_connections: u64,
}

/// True: it fits.
pub(crate) fn show(arguments: &Arguments) -> anyhow::Result<bool> {
    let path = arguments.file.display();
    let text = std::fs::read_to_string(&arguments.file).with_context(|| format!("cannot read {path}"))?;
    let budget = Budget::parse(&text).map_err(|error| anyhow!("{path}: {error}"))?;
    let mut rows = vec![["service", "replicas", "pools", "each", "sum"].map(str::to_owned).to_vec()];
    for sharer in &budget.sharers {
        let pools: Vec<_> = sharer.pools.iter().map(|(name, size)| format!("{name} {size}")).collect();
        rows.push(vec![
            sharer.service.clone(),
            sharer.replicas.to_string(),
            pools.join(" + "),
            sharer.each().to_string(),
            sharer.all().to_string(),
        ]);
    }
    println!("{}", table(&rows));
    let (sum, max) = (budget.sum(), arguments.max_connections);
    let (allowed, reserve) = (budget.allowed(max), budget.reserve);
    println!(
        "{sum} in all · max_connections {max} · {reserve} % stay free · {allowed} allowed · {} left",
        allowed.saturating_sub(sum)
    );
    match budget.check(max) {
        Ok(()) => Ok(true),
        Err(why) => {
            println!("! {why}");
            Ok(false)
        }
    }
}
