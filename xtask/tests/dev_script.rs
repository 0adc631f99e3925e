//! The script `dev` with a stand-in for cargo: where it builds, and what it says when a tool is missing.
#![allow(clippy::unwrap_used)] // the lint's exception covers test functions, not their helpers

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Place {
    folder: tempfile::TempDir,
    checkout: PathBuf,
    bin: PathBuf,
}

/// A checkout that holds only the script, and a PATH of its own with basic tools and a `cargo` that builds an `xtask`
/// which prints its arguments.
fn place(name: &str, tools: &[&str]) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let checkout = folder.path().join(name);
    let bin = folder.path().join("bin");
    std::fs::create_dir_all(&checkout).unwrap();
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../dev"), checkout.join("dev")).unwrap();
    for tool in ["bash", "env", "dirname", "cksum", "cut", "mkdir", "ln", "cat", "chmod"] {
        let real = ["/usr/bin", "/bin"]
            .iter()
            .map(|at| Path::new(at).join(tool))
            .find(|path| path.exists())
            .unwrap();
        symlink(real, bin.join(tool)).unwrap();
    }
    for tool in tools {
        script(&bin.join(tool), "exit 0");
    }
    if tools.contains(&"cargo") {
        script(
            &bin.join("cargo"),
            r#"folder=$CARGO_TARGET_DIR/debug; case "$*" in *--release*) folder=$CARGO_TARGET_DIR/release ;; esac
mkdir -p "$folder"; printf '#!/bin/sh\necho "xtask got: $*"\n' >"$folder/xtask"; chmod 755 "$folder/xtask"
echo "cargo got: $* in $CARGO_TARGET_DIR""#,
        );
    }
    Place { folder, checkout, bin }
}

fn script(path: &Path, body: &str) {
    std::fs::write(path, format!("#!/bin/bash\n{body}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

impl Place {
    fn dev(&self, arguments: &[&str]) -> (bool, String) {
        let output: Output = Command::new(self.bin.join("bash"))
            .arg(self.checkout.join("dev"))
            .args(arguments)
            .env_clear()
            .env("PATH", &self.bin)
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        let text =
            [output.stdout, output.stderr].map(|raw| String::from_utf8_lossy(&raw).into_owned()).concat();
        (output.status.success(), text)
    }
}

const ALL: [&str; 5] = ["cargo", "cc", "make", "java", "mvn"];

#[test]
fn a_path_with_a_space_builds_in_a_folder_without_one() {
    let place = place("a checkout", &ALL);
    let (good, text) = place.dev(&["up", "--profile", "bench"]);
    assert!(good, "{text}");
    assert!(text.contains("xtask got: up --profile bench"), "{text}");
    let cache = place.folder.path().join(".cache/lapwing");
    let used = text.lines().find_map(|line| line.strip_prefix("cargo got: ")).unwrap();
    let (arguments, target) = used.split_once(" in ").unwrap();
    assert!(arguments.contains("build --workspace --release --bins"), "{arguments}");
    assert!(target.starts_with(cache.to_str().unwrap()) && !target.contains(' '), "{target}");
    assert_eq!(std::fs::read_link(place.checkout.join("target")).unwrap(), Path::new(target));
    // A command that only stops finds the same folder again.
    let (good, text) = place.dev(&["down"]);
    assert!(good && text.contains("xtask got: down"), "{text}");
}

#[test]
fn a_plain_path_builds_in_target() {
    let place = place("checkout", &ALL);
    let (good, text) = place.dev(&["test"]);
    assert!(good && text.contains("xtask got: test"), "{text}");
    assert!(place.checkout.join("target/debug/xtask").exists());
}

#[test]
fn a_missing_tool_is_named_with_how_to_get_it() {
    for (index, missing) in ALL.iter().enumerate() {
        let mut tools = ALL.to_vec();
        tools.remove(index);
        let (good, text) = place("checkout", &tools).dev(&["up"]);
        assert!(
            !good && text.contains(&format!("error: {missing} is missing: install")),
            "{missing}: {text}"
        );
    }
}

#[test]
fn an_unknown_command_and_a_too_early_one_are_told() {
    let place = place("checkout", &ALL);
    let (good, text) = place.dev(&["upp"]);
    assert!(!good && text.contains("no such command: upp"), "{text}");
    let (good, text) = place.dev(&["down"]);
    assert!(!good && text.contains("nothing was built yet"), "{text}");
    let (good, text) = place.dev(&[]);
    assert!(good && text.contains("./dev up") && text.contains("./dev test"), "{text}");
}
