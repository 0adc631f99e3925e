//! Is this instance safe to keep a view in? (R-SEQ-8)

use std::collections::HashMap;
use std::time::Duration;

use redis::{Value, from_redis_value};

use super::{Redis, RedisError};

const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn run(redis: &Redis) -> Result<(), String> {
    let at = format!("{} at {}", redis.inner.instance, redis.inner.shown);
    let fetch = async {
        let mut settings =
            parse_info(&text(redis.command("redis_probe", &["INFO", "everything"], TIMEOUT).await?));
        for name in ["appendfsync", "maxmemory-policy"] {
            let pair = redis.command("redis_probe", &["CONFIG", "GET", name], TIMEOUT).await?;
            let pair: Vec<String> = from_redis_value(pair).unwrap_or_default();
            if let [name, value] = pair.as_slice() {
                settings.insert(name.clone(), value.clone());
            }
        }
        Ok::<_, RedisError>(settings)
    };
    let settings = fetch.await.map_err(|error| format!("{at}: {error}"))?;
    let wrong = wrong_settings(&settings);
    if wrong.is_empty() { Ok(()) } else { Err(format!("{at}: {}", wrong.join("; "))) }
}

pub(super) fn text(value: Value) -> String {
    from_redis_value(value).unwrap_or_default()
}

pub(super) fn parse_info(info: &str) -> HashMap<String, String> {
    info.lines()
        .filter_map(|line| line.trim_end().split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn wrong_settings(settings: &HashMap<String, String>) -> Vec<String> {
    let get = |name: &str| settings.get(name).map_or("unknown", String::as_str);
    let mut wrong = Vec::new();
    let version = get("redis_version");
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if major < 7 {
        wrong.push(format!("redis_version is {version}, must be 7.0 or later"));
    }
    let mut must = |name: &str, allowed: &[&str], so: &str| {
        let found = get(name);
        if !allowed.contains(&found) {
            wrong.push(format!("{name} is {found}, must be {so}"));
        }
    };
    must("cluster_enabled", &["0"], "0 (cluster mode off)");
    must("aof_enabled", &["1"], "1 (appendonly yes)");
    must("appendfsync", &["everysec", "always"], "everysec or always");
    must("maxmemory-policy", &["noeviction"], "noeviction");
    must("role", &["master"], "master");
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safe() -> HashMap<String, String> {
        let mut settings = parse_info(
            "# Server\r\nredis_version:7.0.15\r\n\r\n# Cluster\r\ncluster_enabled:0\r\naof_enabled:1\r\nrole:master\r\n",
        );
        settings.insert("appendfsync".to_owned(), "everysec".to_owned());
        settings.insert("maxmemory-policy".to_owned(), "noeviction".to_owned());
        settings
    }

    // R-SEQ-8
    #[test]
    fn each_unsafe_setting_is_named() {
        assert!(wrong_settings(&safe()).is_empty());
        for (name, value) in [
            ("redis_version", "6.2.14"),
            ("cluster_enabled", "1"),
            ("aof_enabled", "0"),
            ("appendfsync", "no"),
            ("maxmemory-policy", "allkeys-lru"),
            ("role", "slave"),
        ] {
            let mut settings = safe();
            settings.insert(name.to_owned(), value.to_owned());
            let wrong = wrong_settings(&settings);
            assert!(wrong.len() == 1 && wrong[0].starts_with(&format!("{name} is {value}")), "{wrong:?}");
            settings.remove(name);
            assert!(
                wrong_settings(&settings)[0].contains("unknown"),
                "an unreadable setting is not safe: {name}"
            );
        }
    }
}
