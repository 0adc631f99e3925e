//! The environment keys that services know: from the sources of their configuration, and as the services print them.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use lapwing_servers::services;

use crate::read;

pub const SERVICES: [&str; 3] = ["gateway", "router", "persister"];

/// Every `env = "KEY"` of a source text.
pub fn declared(text: &str) -> BTreeSet<String> {
    let after = text.split("env = \"").skip(1);
    after.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

/// What a service reads, by its sources.
pub fn of_service(service: &str) -> Result<BTreeSet<String>> {
    let common = read("shared/runtime/src/config.rs")?;
    // The tests of that file declare keys of their own.
    let common = common.split("#[cfg(test)]").next().unwrap_or_default();
    let mut keys = declared(common);
    keys.extend(declared(&read(&format!("{service}/src/config.rs"))?));
    if service != "persister" {
        keys.extend(declared(&read("shared/views/src/places.rs")?));
    }
    if service == "gateway" {
        keys.extend(declared(&read("gateway/src/limits.rs")?));
    }
    ensure!(keys.len() > 10, "only {} keys were found for the {service}", keys.len());
    Ok(keys)
}

/// A key that the service knows, or the name of a file with its value.
pub fn knows(keys: &BTreeSet<String>, name: &str) -> bool {
    keys.contains(name) || name.strip_suffix("_FILE").is_some_and(|key| keys.contains(key))
}

/// One line of `--print-config`.
pub struct Printed {
    pub key: String,
    /// Empty: there is no default.
    pub value: String,
    pub meaning: String,
}

/// What `--print-config` of a service prints with an empty environment.
pub fn printed(service: &str) -> Result<Vec<Printed>> {
    let program = services::binary_path(&format!("lapwing-{service}"))?;
    let mut command = Command::new(&program);
    // Those without a default must be given before anything is printed.
    command.env_clear().args(["--print-config", "--node", "x"]);
    match service {
        "gateway" => drop(command.args(["--jwt-secret", ""])),
        "persister" => drop(command.args(["--mysql-url", ""])),
        _ => {}
    }
    let output = command.output().with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        bail!("{} --print-config: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(line).collect()
}

fn line(text: &str) -> Result<Printed> {
    let (key, rest) = text.split_once('=').with_context(|| format!("no key in `{text}`"))?;
    let (value, comment) = rest.rsplit_once("  # ").with_context(|| format!("no source in `{text}`"))?;
    let (source, meaning) = comment.split_once(": ").unwrap_or((comment, ""));
    let value = if source == "default" { value } else { "" };
    Ok(Printed { key: key.to_owned(), value: value.to_owned(), meaning: meaning.to_owned() })
}
