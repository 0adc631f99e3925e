//! Generated passwords and keys, in files that only their owner reads.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rand::Rng;

/// 160 random bits as 32 characters that need no escaping in a URL, a config file or SQL.
pub fn generate() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut rng = rand::rng();
    (0..32).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect()
}

/// The secret in `folder/name`, made at the first call, the same ever after.
pub fn kept(folder: &Path, name: &str) -> Result<(PathBuf, String)> {
    let path = folder.join(name);
    if let Ok(found) = std::fs::read_to_string(&path)
        && !found.trim().is_empty()
    {
        return Ok((path, found.trim().to_owned()));
    }
    let secret = generate();
    write_private(&path, &secret)?;
    Ok((path, secret))
}

/// Writes a file with mode 600, replacing it in one step.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    let _ = std::fs::remove_file(&fresh);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .with_context(|| format!("cannot write {}", fresh.display()))?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&fresh, path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_is_private_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (path, secret) = kept(dir.path(), "key").unwrap();
        assert_eq!(secret.len(), 32);
        assert_eq!(kept(dir.path(), "key").unwrap().1, secret);
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_ne!(generate(), generate());
    }
}
