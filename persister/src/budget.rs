//! This process's connections among all that share the database (R-PST-7): by the budget file, and by what is registered now.

use std::sync::LazyLock;

use anyhow::anyhow;
use lapwing_persister_core::budget::{self, Budget};
use lapwing_runtime::throttle::Throttle;
use serde_json::{Value, json};
use sqlx::MySqlConnection;

use crate::{
    config::Config,
    db::{self, Borrowed},
    persister::Persister,
    schema::Problem,
};

/// A name in the file, and among the registered.
const SERVICE: &str = "persister";

fn of(config: &Config) -> anyhow::Result<Option<Budget>> {
    let Some(text) = config.budget.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
    Budget::parse(text).map(Some).map_err(|error| anyhow!("LAPWING_BUDGET: {error}"))
}

fn reserve(budget: Option<&Budget>) -> u64 {
    budget.map_or(0, |budget| budget.reserve)
}

/// What was found on the server: its limit, and who has registered how many.
struct Seen {
    max: u64,
    rows: Vec<(String, u64)>,
}

impl Seen {
    fn registered(&self) -> u64 {
        self.rows.iter().map(|(_, connections)| connections).sum()
    }
}

async fn look(connection: &mut MySqlConnection) -> Result<Seen, sqlx::Error> {
    let max: i64 =
        sqlx::query_scalar("SELECT CAST(@@max_connections AS SIGNED)").fetch_one(&mut *connection).await?;
    let rows: Vec<(Vec<u8>, u32)> = sqlx::query_as(
        "SELECT name, connections FROM pool_registry WHERE seen_at > NOW(3) - INTERVAL 15 SECOND ORDER BY name",
    )
    .fetch_all(connection)
    .await?;
    let named = |(name, connections): (Vec<u8>, u32)| {
        (String::from_utf8_lossy(&name).into_owned(), u64::from(connections))
    };
    Ok(Seen { max: max.max(0) as u64, rows: rows.into_iter().map(named).collect() })
}

/// Names this process's connections and refuses to start above the budget.
pub(crate) async fn register(
    connection: &mut MySqlConnection,
    config: &Config,
    name: &str,
) -> Result<(), Problem> {
    let fatal = |why: String| Problem::Fatal(anyhow!(why));
    let budget = of(config).map_err(Problem::Fatal)?;
    let mut seen = look(connection).await?;
    // By a process before this one, under the same name.
    seen.rows.retain(|(registered, _)| registered != name);
    if let Some(budget) = &budget {
        budget.check(seen.max).map_err(fatal)?;
        budget.check_own(SERVICE, &config.pools()).map_err(fatal)?;
    }
    let (own, others) = (u64::from(config.connections()), seen.registered());
    let allowed = budget::allowed(seen.max, reserve(budget.as_ref()));
    if others + own > allowed {
        return Err(fatal(format!(
            "connection budget: others have {others} registered, this process wants {own}, MySQL's max_connections is {} and only \
             {allowed} are allowed; lower LAPWING_WRITE_POOL/LAPWING_READ_POOL or raise max_connections",
            seen.max
        )));
    }
    refresh(connection, config, name).await?;
    Ok(())
}

async fn refresh(connection: &mut MySqlConnection, config: &Config, name: &str) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO pool_registry (name, connections, seen_at) VALUES (?, ?, NOW(3)) \
         ON DUPLICATE KEY UPDATE connections = VALUES(connections), seen_at = VALUES(seen_at)",
    )
    .bind(name.as_bytes())
    .bind(config.connections())
    .execute(connection)
    .await
    .map(|_| ())
}

pub(crate) async fn unregister(connection: &mut MySqlConnection, name: &str) -> Result<(), sqlx::Error> {
    for table in ["pool_registry", "persisters"] {
        let statement = sqlx::AssertSqlSafe(format!("DELETE FROM {table} WHERE name = ?"));
        sqlx::query(statement).bind(name.as_bytes()).execute(&mut *connection).await?;
    }
    Ok(())
}

static OVER: LazyLock<Throttle> = LazyLock::new(|| Throttle::every_ms(60_000));

/// Live: over the budget this process is not ready, its work goes on.
pub(crate) async fn watch(
    connection: &mut MySqlConnection,
    config: &Config,
    name: &str,
) -> Result<Result<(), String>, sqlx::Error> {
    refresh(connection, config, name).await?;
    let seen = look(connection).await?;
    let budget = of(config).ok().flatten();
    let reserve = reserve(budget.as_ref());
    for (kind, value) in [
        ("max", seen.max),
        ("allowed", budget::allowed(seen.max, reserve)),
        ("registered", seen.registered()),
    ] {
        metrics::gauge!("lapwing_budget_connections", "kind" => kind).set(value as f64);
    }
    let fits = budget.as_ref().map_or(Ok(()), |budget| budget.check(seen.max));
    let registered = || budget::check_registered(seen.registered(), seen.max, reserve);
    let lines = || budget.as_ref().map_or(Ok(()), |budget| budget.check_replicas(SERVICE, &seen.rows));
    let state = fits.and_then(|()| registered()).and_then(|()| lines());
    if let (Err(why), Some(_)) = (&state, OVER.pass()) {
        tracing::error!("ALARM: {why}");
    }
    Ok(state)
}

/// For `lapwing budget`: what the server allows, and who has registered.
pub(crate) async fn shown(persister: &Persister) -> anyhow::Result<Value> {
    let reading = async {
        let mut borrowed = Borrowed::from(&persister.db.control, "control").await?;
        let seen = look(borrowed.get()?).await?;
        borrowed.give_back();
        Ok(seen)
    };
    let seen = db::within(persister.config.mysql_timeout(), "budget", reading).await?;
    let registered: Vec<_> = seen
        .rows
        .iter()
        .map(|(name, connections)| json!({ "name": name, "connections": connections }))
        .collect();
    Ok(json!({ "max_connections": seen.max, "registered": registered }))
}
