//! `lapwing dead-letters …`: what MySQL has refused for good, and its way back.
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use anyhow::{Context, bail, ensure};
use hyper::Method;
use lapwing_client::http::Api;
use serde_json::{Map, Value, json};

use crate::{config::Config, partitions::cell, probe, table::table};

#[derive(clap::Subcommand)]
pub(crate) enum Action {
    /// One line each, oldest first.
    List {
        #[command(flatten)]
        filter: Filter,
        /// Only replayed ones (yes) or only those that are not (no)
        #[arg(long, value_parser = ["yes", "no"])]
        replayed: Option<String>,
        /// At most so many, in all
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Only ids above this one
        #[arg(long, default_value_t = 0)]
        after: u64,
    },
    /// All fields of one, with its record.
    Show { id: u64 },
    /// Writes them into their tables. Asking again changes nothing more; what cannot be written stays a dead letter.
    Replay {
        /// These; or all that the filter finds
        ids: Vec<u64>,
        #[command(flatten)]
        filter: Filter,
        /// All of them
        #[arg(long)]
        all: bool,
        /// First the probe, then all of it without the commit; only if both pass is anything replayed
        #[arg(long)]
        after_probe: bool,
        /// All of it without the commit
        #[arg(long)]
        dry_run: bool,
    },
    /// Deletes those that were replayed and are older than the persisters keep them (LAPWING_DEAD_RETENTION_MS).
    Purge {
        /// Older than so much, e.g. 90d; not less than the persisters keep them
        #[arg(long, value_parser = span)]
        older_than: Option<Duration>,
    },
}

#[derive(clap::Args)]
pub(crate) struct Filter {
    #[arg(long)]
    tenant: Option<String>,
    #[arg(long)]
    conversation: Option<String>,
    /// e.g. lapwing.group
    #[arg(long)]
    topic: Option<String>,
    /// MySQL's error number; 0: nobody could read the record
    #[arg(long)]
    code: Option<u32>,
    /// Died so long ago or later, e.g. 90s, 15m, 2h, 30d; or milliseconds since 1970
    #[arg(long, value_parser = moment)]
    from: Option<u64>,
    /// Died so long ago or earlier
    #[arg(long, value_parser = moment)]
    to: Option<u64>,
}

/// `90s`, `15m`, `2h`, `30d`.
fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time such as 90s, 15m, 2h or 30d");
    let unit = match text.chars().last().ok_or_else(wrong)? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(wrong)
}

/// So long ago, or a moment itself, in milliseconds since 1970.
fn moment(text: &str) -> Result<u64, String> {
    if let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(|error| error.to_string())?;
    Ok(now.saturating_sub(span(text)?).as_millis() as u64)
}

impl Filter {
    fn fields(&self) -> Map<String, Value> {
        let texts = [
            ("tenant", self.tenant.clone().map(Value::from)),
            ("conversation", self.conversation.clone().map(Value::from)),
            ("topic", self.topic.clone().map(Value::from)),
            ("code", self.code.map(Value::from)),
            ("from_ms", self.from.map(Value::from)),
            ("to_ms", self.to.map(Value::from)),
        ];
        texts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// False: something is left as it was.
pub(crate) async fn run(config: &Config, action: Action) -> anyhow::Result<bool> {
    let persister = Persister::find(config).await?;
    match action {
        Action::List { filter, replayed, limit, after } => {
            let mut fields = filter.fields();
            fields.extend(replayed.map(|replayed| ("replayed".to_owned(), Value::from(replayed))));
            list(&persister, fields, limit, after).await.map(|()| true)
        }
        Action::Show { id } => {
            let path = format!("/admin/dead-letters/show?id={id}");
            let letter = persister.api.call(Method::GET, &path, None).await?;
            println!("{}", serde_json::to_string_pretty(&letter)?);
            Ok(true)
        }
        Action::Replay { ids, filter, all, after_probe, dry_run } => {
            let mut fields = filter.fields();
            ensure!(all || !ids.is_empty() || !fields.is_empty(), "which ones? give ids, a filter, or --all");
            if !ids.is_empty() {
                fields.insert("ids".to_owned(), json!(ids));
            }
            if after_probe {
                if !probe::run(config).await? {
                    println!("the probe did not pass: nothing was replayed");
                    return Ok(false);
                }
                let tried = replay(&persister, &fields, true).await?;
                if tried.keys().any(|result| matches!(result.as_str(), "refused" | "later")) {
                    println!("MySQL would still refuse some: nothing was replayed");
                    return Ok(false);
                }
            }
            let done = replay(&persister, &fields, dry_run).await?;
            Ok(done.keys().all(|result| GOOD.contains(&result.as_str())))
        }
        Action::Purge { older_than } => purge(&persister, older_than).await.map(|()| true),
    }
}

/// Results after which the row stands.
const GOOD: [&str; 3] = ["replayed", "stored_already", "replayed_before"];

/// Any persister does: all have the same database.
struct Persister {
    api: Api,
}

impl Persister {
    async fn find(config: &Config) -> anyhow::Result<Self> {
        let mut silent = Vec::new();
        for api in config.persisters()? {
            match api.send(Method::GET, "/livez", None).await {
                Ok((200, _)) => return Ok(Self { api }),
                Ok((status, _)) => silent.push(format!("{}: {status}", api.base())),
                Err(error) => silent.push(error.to_string()),
            }
        }
        bail!("no persister answers: {}", silent.join("; "))
    }
}

const COLUMNS: [&str; 12] = [
    "id",
    "topic",
    "partition",
    "offset",
    "tenant",
    "conversation",
    "seq",
    "code",
    "state_event",
    "created_at",
    "replayed_at",
    "error",
];

async fn list(
    persister: &Persister,
    fields: Map<String, Value>,
    limit: usize,
    mut after: u64,
) -> anyhow::Result<()> {
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    let mut more = false;
    while lines.len() <= limit {
        let page = (limit + 1 - lines.len()).min(500);
        let path = format!("/admin/dead-letters?after={after}&limit={page}{}", query(&fields));
        let answer = persister.api.call(Method::GET, &path, None).await?;
        let rows = answer["dead_letters"].as_array().context("the answer has no dead letters")?;
        lines.extend(rows.iter().map(|row| COLUMNS.map(|column| plain(&cell(row, column))).to_vec()));
        let Some(next) = answer["next"].as_u64() else {
            more = false;
            break;
        };
        (after, more) = (next, true);
    }
    println!("{}", table(&lines));
    let further = if more { format!(", there may be more: --after {after}") } else { String::new() };
    println!("{} dead letters{further}", lines.len() - 1);
    Ok(())
}

/// `&name=value…`; each byte that is not plain is written as a number.
fn query(fields: &Map<String, Value>) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    let encoded = |value: &Value| text(value).bytes().map(byte).collect::<String>();
    fields.iter().map(|(name, value)| format!("&{name}={}", encoded(value))).collect()
}

/// What a record brings may hold anything; a terminal gets text.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// How many came to which result.
async fn replay(
    persister: &Persister,
    fields: &Map<String, Value>,
    dry_run: bool,
) -> anyhow::Result<BTreeMap<String, usize>> {
    let (mut filter, mut counts) = (fields.clone(), BTreeMap::new());
    loop {
        let body = json!({ "filter": filter, "dry_run": dry_run });
        let answer = persister.api.call(Method::POST, "/admin/dead-letters/replay", Some(&body)).await?;
        let results = answer["results"].as_array().context("the answer has no results")?;
        for row in results {
            let result = cell(row, "result");
            if !GOOD.contains(&result.as_str()) {
                println!("! {} {result}: {}", cell(row, "id"), plain(&cell(row, "error")));
            }
            *counts.entry(result).or_default() += 1;
        }
        match answer["next"].as_u64() {
            // What is in the way now is in the way of the next ones, too.
            Some(next) if !counts.contains_key("later") => filter.insert("after".to_owned(), next.into()),
            _ => break,
        };
    }
    let all: Vec<String> = counts.iter().map(|(result, count)| format!("{count} {result}")).collect();
    let what = if dry_run { "dry run, nothing was written" } else { "replay" };
    println!("{what}: {}", if all.is_empty() { "no dead letters".to_owned() } else { all.join(", ") });
    Ok(counts)
}

async fn purge(persister: &Persister, older_than: Option<Duration>) -> anyhow::Result<()> {
    let query = older_than.map_or_else(String::new, |span| format!("?older_than_ms={}", span.as_millis()));
    let mut purged = 0;
    loop {
        let path = format!("/admin/dead-letters/purge{query}");
        let answer = persister.api.call(Method::POST, &path, None).await?;
        purged += answer["purged"].as_u64().unwrap_or(0);
        if answer["more"] != true {
            println!("{purged} purged");
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(span("15m"), Ok(Duration::from_secs(900)));
        assert_eq!(span("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for wrong in ["", "d", "3 d", "5w", "-1h", "99999999999999999999d"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        assert_eq!(moment("1700000000000"), Ok(1_700_000_000_000));
        let (hour, now) = (moment("1h").unwrap(), moment("0s").unwrap());
        assert!((3_599_000..3_602_000).contains(&(now - hour)), "{hour} {now}");
    }

    #[test]
    fn nothing_given_gets_out_of_its_parameter() {
        let fields = json!({ "tenant": "a&limit=1 \r\nä", "code": 1264 });
        assert_eq!(query(fields.as_object().unwrap()), "&code=1264&tenant=a%26limit%3D1%20%0D%0A%C3%A4");
        assert_eq!(plain("a\u{1b}[31m\nb"), "a\u{fffd}[31m\u{fffd}b");
    }
}
