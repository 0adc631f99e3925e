//! Debian packages, without the services that they would start.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{find, run};
use crate::paths;

const POLICY: &str = "/usr/sbin/policy-rc.d";
/// By this line a file that a killed installation left is known as ours.
const MARK: &str = "# written by lapwing's installer: packages start no service";

pub(super) fn usable() -> bool {
    paths::uid() == 0 && find("apt-get").is_some()
}

/// Installs packages while `policy-rc.d` forbids them to start their services; then looks that none runs.
pub fn apt_install(packages: &[&str]) -> Result<()> {
    if !usable() {
        bail!("{} is missing; as root: `apt-get install {}`", packages.join(", "), packages.join(" "));
    }
    let running_before = distribution_services();
    let policy = Policy::forbid(Path::new(POLICY))?;
    run("apt-get update", apt(&["update"]).arg("-q"))?;
    let what = format!("apt-get install {}", packages.join(" "));
    run(&what, apt(&["install", "-y", "-q", "--no-install-recommends"]).args(packages))?;
    disable_units(packages);
    drop(policy);
    let started: Vec<_> =
        distribution_services().into_iter().filter(|service| !running_before.contains(service)).collect();
    if !started.is_empty() {
        bail!("the installation started services of the distribution: {}; stop them", started.join(", "));
    }
    Ok(())
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    command
}

/// At the next boot systemd would start what `policy-rc.d` held back now.
fn disable_units(packages: &[&str]) {
    if !Path::new("/run/systemd/system").exists() {
        return;
    }
    for package in packages {
        let unit = if *package == "mariadb-server" { "mariadb" } else { package };
        let _ = Command::new("systemctl")
            .args(["disable", "--now", unit])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// A `policy-rc.d` of ours for as long as the value lives; the one that was there comes back.
struct Policy {
    path: PathBuf,
    ours: bool,
}

impl Policy {
    fn forbid(path: &Path) -> Result<Self> {
        let path = path.to_path_buf();
        // Container images bring one that forbids already; it stays.
        if std::fs::read_to_string(&path).is_ok_and(|text| text.contains("exit 101")) {
            return Ok(Self { path, ours: false });
        }
        if path.exists() {
            std::fs::rename(&path, saved(&path)).context("cannot set policy-rc.d aside")?;
        }
        std::fs::write(&path, format!("#!/bin/sh\n{MARK}\nexit 101\n"))
            .context("cannot write policy-rc.d")?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(Self { path, ours: true })
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.ours {
            let _ = restore(&self.path);
        }
    }
}

fn saved(path: &Path) -> PathBuf {
    path.with_extension("d.before-lapwing")
}

fn restore(path: &Path) -> Result<()> {
    std::fs::remove_file(path)?;
    if saved(path).exists() {
        std::fs::rename(saved(path), path)?;
    }
    Ok(())
}

/// Whether an installation that was killed left its `policy-rc.d` in place.
pub fn policy_left_behind() -> bool {
    std::fs::read_to_string(POLICY).is_ok_and(|text| text.contains(MARK))
}

/// Takes away the `policy-rc.d` of an installation that was interrupted.
pub fn clear_leftovers() -> Result<()> {
    if policy_left_behind() && paths::uid() == 0 {
        restore(Path::new(POLICY))
            .context("cannot remove the policy-rc.d that an earlier installation left")?;
    }
    Ok(())
}

/// Servers that run as the distribution starts them: from its data folders, or as another user.
pub fn distribution_services() -> Vec<String> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    processes.flatten().filter_map(|entry| distribution_service(&entry.path())).collect()
}

fn distribution_service(process: &Path) -> Option<String> {
    let pid: u32 = process.file_name()?.to_str()?.parse().ok()?;
    let name = std::fs::read_to_string(process.join("comm")).ok()?.trim().to_owned();
    if !["nats-server", "redis-server", "mariadbd", "mysqld", "mysqld_safe", "mariadbd-safe"]
        .contains(&name.as_str())
    {
        return None;
    }
    // A process that is just ending has no folder any more.
    crate::process::Identity::of(pid)?;
    let owner = std::fs::metadata(process).ok()?.uid();
    let folder = std::fs::read_link(process.join("cwd")).ok();
    let theirs = match &folder {
        Some(folder) => owner != paths::uid() || folder == Path::new("/") || folder.starts_with("/var/lib"),
        None => owner != paths::uid(),
    };
    let folder = folder.unwrap_or_else(|| PathBuf::from("?"));
    theirs.then(|| format!("{name} (process {pid}, in {})", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_written_and_what_was_there_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy-rc.d");
        let policy = Policy::forbid(&path).unwrap();
        assert_eq!(Command::new("sh").arg(&path).status().unwrap().code(), Some(101));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        drop(policy);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

        std::fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        let policy = Policy::forbid(&path).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("exit 101"));
        drop(policy);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "#!/bin/sh\nexit 0\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

        // One that forbids already is not ours to remove.
        std::fs::write(&path, "#!/bin/sh\nexit 101\n").unwrap();
        drop(Policy::forbid(&path).unwrap());
        assert!(path.exists());
    }
}
