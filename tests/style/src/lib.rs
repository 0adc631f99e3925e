//! Checks of the tree itself: sources, documents, deployment files. Each check is a function from text to findings, so that a
//! test can show that it fails on bad text before it is turned on the tree.

pub mod deploy;
pub mod docs;
pub mod keys;
pub mod source;
pub mod sql;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What git does not track, and the folder of the checkout's own history.
const NOT_OURS: [&str; 4] = ["target", "node_modules", "dist", ".git"];

/// The folder of the checkout.
pub fn root() -> PathBuf {
    lapwing_servers::paths::workspace_dir()
}

/// A file of the checkout by its path from the root, with `/` between.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    pub fn ends_with(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.path.ends_with(ending))
    }
}

/// All text files of the checkout, sorted by path.
pub fn files() -> Result<Vec<File>> {
    let root = root();
    let mut files = Vec::new();
    collect(&root, &root, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The text files under one folder, `docs` for instance.
pub fn files_under(folder: &str) -> Result<Vec<File>> {
    let prefix = format!("{folder}/");
    Ok(files()?.into_iter().filter(|file| file.path.starts_with(&prefix)).collect())
}

pub fn read(path: &str) -> Result<String> {
    let full = root().join(path);
    std::fs::read_to_string(&full).with_context(|| format!("cannot read {path}"))
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<File>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let kind = entry.file_type()?;
        if kind.is_dir() && !NOT_OURS.iter().any(|other| name == *other) {
            collect(root, &entry.path(), files)?;
        } else if kind.is_file()
            && let Ok(text) = std::fs::read_to_string(entry.path())
        {
            let path = entry.path().strip_prefix(root)?.to_string_lossy().into_owned();
            files.push(File { path, text });
        }
    }
    Ok(())
}

/// Fails with all findings, one a line.
#[track_caller]
pub fn none(findings: &[String]) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}
