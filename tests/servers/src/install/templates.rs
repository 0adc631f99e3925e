//! Empty data folders, made once and copied for each server: both take seconds to make.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{Tools, kafka_command, run};
use crate::{kafka, paths};

pub(super) fn kafka(tools: &Tools, template: &Path) -> Result<PathBuf> {
    make_once(template, |folder| {
        let config = folder.with_extension("properties");
        std::fs::write(&config, kafka::settings(folder, 1, 9092, 9093, &[9093]))?;
        let id = kafka::cluster_id();
        let arguments = kafka_command(
            tools,
            "kafka.tools.StorageTool",
            &["format", "-t", &id, "-c", &config.to_string_lossy()],
        );
        let result = run("formatting Kafka's data folder", Command::new(&tools.java).args(arguments));
        let _ = std::fs::remove_file(config);
        result
    })
}

pub(super) fn mariadb(tools: &Tools, template: &Path) -> Result<PathBuf> {
    make_once(template, |folder| {
        let mut command = Command::new(&tools.mariadb_install_db);
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", folder.display()))
            // Root comes in by the socket as the same system user only; there is no root password to guess.
            .args(["--auth-root-authentication-method=socket", "--skip-test-db", "--skip-name-resolve"])
            .args(["--innodb-log-file-size=96M"]);
        if paths::uid() == 0 {
            command.arg("--user=root");
        }
        run("making MariaDB's system tables", &mut command)
    })
}

/// Filled under another name and renamed, so that a killed run leaves no half template.
fn make_once(template: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if !template.is_dir() {
        let fresh = template.with_extension("new");
        let _ = std::fs::remove_dir_all(&fresh);
        fill(&fresh)?;
        std::fs::rename(&fresh, template).with_context(|| format!("{} was not made", template.display()))?;
    }
    Ok(template.to_path_buf())
}
