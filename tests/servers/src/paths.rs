//! Where things stand: the build folder, the tools, a run's own folder, short folders for sockets.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

/// The kernel's limit for a unix socket path is 107 bytes and a closing zero.
pub const SOCKET_PATH_MAX: usize = 107;
const LEFTOVERS_AFTER: Duration = Duration::from_secs(6 * 3600);
const LOCK: &str = "run.lock";

pub fn uid() -> u32 {
    std::fs::metadata("/proc/self").map(|m| m.uid()).unwrap_or(u32::MAX)
}

/// The build folder (`target`), also when cargo was told to put it elsewhere.
pub fn target_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("CARGO_TARGET_DIR") {
        return PathBuf::from(dir);
    }
    let exe = std::env::current_exe().unwrap_or_default();
    exe.ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file())
        .map(Path::to_path_buf)
        .unwrap_or_else(|| workspace_dir().join("target"))
}

/// The checkout this crate was built from.
pub fn workspace_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new(".")).to_path_buf()
}

/// Downloaded tools and prepared data folders, kept between runs.
pub fn tools_dir() -> PathBuf {
    target_dir().join("tools")
}

/// The folder of the services' binaries: `LAPWING_BIN_DIR`, or the profile folder of the running executable.
pub fn bin_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("LAPWING_BIN_DIR") {
        return PathBuf::from(dir);
    }
    let exe = std::env::current_exe().unwrap_or_default();
    let folder = exe.parent().unwrap_or(Path::new("."));
    if folder.ends_with("deps") {
        folder.parent().unwrap_or(folder).to_path_buf()
    } else {
        folder.to_path_buf()
    }
}

/// A folder for one run. It goes when the run ends well; after a panic it stays, for its logs.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    keep: bool,
    /// Held while the run lasts, so that no other run sweeps it away.
    _lock: Option<File>,
}

impl RunDir {
    pub fn temporary() -> Result<Self> {
        Self::temporary_in(&target_dir().join("run"))
    }

    pub fn temporary_in(parent: &Path) -> Result<Self> {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        sweep(parent, LEFTOVERS_AFTER);
        let dir =
            tempfile::Builder::new().prefix("r").tempdir_in(parent).context("cannot make a run folder")?;
        let lock = File::create(dir.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self { path: dir.keep(), keep: false, _lock: Some(lock) })
    }

    /// A folder of the caller's that stays.
    pub fn at(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        Ok(Self { path: path.to_path_buf(), keep: true, _lock: None })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the servers' data and logs stay in {}", self.path.display());
        } else if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes folders of runs that failed or were killed; for this long they were there to be looked at.
fn sweep(parent: &Path, after: Duration) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
        let ended = File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if ended && age.is_some_and(|age| age >= after) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// `folder/name`, or the same name in a short folder of the temp directory when the path is too long for a socket.
pub fn socket_path(folder: &Path, name: &str) -> Result<PathBuf> {
    let plain = folder.join(name);
    if plain.as_os_str().len() < SOCKET_PATH_MAX {
        return Ok(plain);
    }
    // One folder for each long path, the same at the next start.
    let short = std::env::temp_dir().join(format!("lw-{:016x}", fnv(plain.as_os_str().as_encoded_bytes())));
    std::fs::create_dir_all(&short).with_context(|| format!("cannot make {}", short.display()))?;
    std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o700))?;
    Ok(short.join(name))
}

/// Copies a folder with all that is in it.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ended_runs_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let running = RunDir::temporary_in(parent.path()).unwrap();
        let mut ended = RunDir::temporary_in(parent.path()).unwrap();
        ended.keep();
        let left = ended.path().to_path_buf();
        drop(ended);
        sweep(parent.path(), Duration::from_secs(3600));
        assert!(left.exists(), "too young to be swept");
        sweep(parent.path(), Duration::ZERO);
        assert!(!left.exists() && running.path().exists());
    }

    #[test]
    fn a_socket_path_stays_below_the_kernels_limit() {
        let long = std::env::temp_dir().join("d".repeat(60)).join("e".repeat(60));
        let socket = socket_path(&long, "mariadb.sock").unwrap();
        assert!(socket.as_os_str().len() < SOCKET_PATH_MAX);
        assert_eq!(socket, socket_path(&long, "mariadb.sock").unwrap());
        std::fs::remove_dir(socket.parent().unwrap()).unwrap();
        assert_eq!(socket_path(Path::new("/a"), "s").unwrap(), Path::new("/a/s"));
    }
}
