//! A disk of its own for one server's data, small enough to be filled: a tmpfs, which needs root.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::paths;

#[derive(Debug)]
pub struct SmallDisk {
    at: PathBuf,
}

const BALLAST: &str = "ballast";

impl SmallDisk {
    /// Takes the place of a folder; what is in it is there afterwards, too. Before its server starts.
    pub fn under(folder: &Path, mebibytes: u32) -> Result<Self> {
        let aside = folder.with_extension("aside");
        std::fs::rename(folder, &aside).with_context(|| format!("no folder {}", folder.display()))?;
        std::fs::create_dir_all(folder)?;
        let size = format!("size={mebibytes}m,mode=700");
        run("mount", &["-t", "tmpfs", "-o", &size, "lapwing-test", &folder.to_string_lossy()])?;
        let disk = Self { at: folder.to_path_buf() };
        paths::copy_tree(&aside, folder)?;
        std::fs::remove_dir_all(&aside)?;
        Ok(disk)
    }

    /// Until not one byte more can be written; returns how many mebibytes that took.
    pub fn fill(&self) -> Result<u64> {
        let mut ballast = OpenOptions::new().create(true).append(true).open(self.ballast())?;
        let mut written = 0;
        for size in [1 << 20, 4096, 1] {
            while let Some(more) = put(&mut ballast, &vec![0; size])? {
                written += more;
            }
        }
        Ok(written >> 20)
    }

    pub fn give_back(&self) -> Result<()> {
        std::fs::remove_file(self.ballast()).context("it was not filled")
    }

    fn ballast(&self) -> PathBuf {
        self.at.join(BALLAST)
    }
}

/// None: no space left.
fn put(file: &mut File, bytes: &[u8]) -> Result<Option<u64>> {
    match file.write(bytes) {
        Ok(count) => Ok(Some(count as u64)),
        Err(error) if error.kind() == ErrorKind::StorageFull => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn run(program: &str, words: &[&str]) -> Result<()> {
    let output = Command::new(program).args(words).output().with_context(|| format!("no {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(output.status.success(), "{program} failed; a small disk needs root: {said}");
    Ok(())
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that is killed only after this still has files open.
        let _left = run("umount", &["--lazy", &self.at.to_string_lossy()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_nothing_and_then_everything_again() {
        if paths::uid() != 0 {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("kept"), "as it was").unwrap();
        let disk = SmallDisk::under(&data, 2).unwrap();
        assert_eq!(std::fs::read_to_string(data.join("kept")).unwrap(), "as it was");
        assert_eq!(disk.fill().unwrap(), 1, "two, less the pages of what is there");
        let error = std::fs::write(data.join("more"), "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        disk.give_back().unwrap();
        std::fs::write(data.join("more"), "x").unwrap();
        drop(disk);
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "unmounted");
    }
}
