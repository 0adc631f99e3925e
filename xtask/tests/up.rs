//! `./dev up` and `./dev down` with the real servers and services (built before: `cargo build --workspace --bins`).
#![allow(clippy::unwrap_used)] // the lint's exception covers test functions, not their helpers

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use lapwing_servers::process::{Identity, Signal};
use lapwing_servers::{State, http};

/// A folder of its own for `up`; whatever happens, what was started there is stopped at the end.
struct Up {
    folder: tempfile::TempDir,
}

impl Up {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(arguments).env("LAPWING_UP_DIR", self.folder.path()).env_remove("LAPWING_STATE");
        command
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.command(arguments).output().unwrap();
        let text =
            [output.stdout, output.stderr].map(|raw| String::from_utf8_lossy(&raw).into_owned()).concat();
        (output.status.code().unwrap_or(-1), text)
    }

    fn state(&self) -> Option<State> {
        State::load(&self.folder.path().join("state.json")).unwrap()
    }

    /// Processes that work in this folder.
    fn alive(&self) -> Vec<u32> {
        let here = |pid: u32| {
            std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at.starts_with(self.folder.path()))
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| here(*pid)).collect()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
        for pid in self.alive() {
            if let Some(left) = Identity::of(pid) {
                let _ = left.signal(Signal::Kill);
            }
        }
    }
}

// R-DEV-1
#[tokio::test(flavor = "multi_thread")]
async fn up_twice_heals_and_down_stops_all_of_it() {
    let up = Up::new();
    let _taken = TcpListener::bind("127.0.0.1:7100");
    let (code, text) = up.run(&["up"]);
    assert_eq!(code, 0, "{text}");
    let state = up.state().unwrap();
    assert_ne!(state.endpoints.gateways[0].client_address, "127.0.0.1:7100", "the port was taken");
    for words in
        ["demo page", "server API, g2", "metrics, p2", "./dev down", "first messages", "alice: Hello Bob"]
    {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    let mode = std::fs::metadata(up.folder.path().join("state.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let names: Vec<&str> = state.running().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["g1", "g2", "r1", "r2", "p1", "p2", "kafka", "nats", "redis", "mariadb"]);
    for gateway in &state.endpoints.gateways {
        assert_eq!(http::get(&gateway.admin_address, "/readyz").await.unwrap().status, 200);
    }
    let identities: Vec<Identity> = state.processes.iter().map(|record| record.identity.unwrap()).collect();

    let (code, text) = up.run(&["up"]);
    assert!(code == 0 && text.contains("already running") && text.contains("demo page"), "{text}");
    let (code, text) = up.run(&["process", "kill", "r1"]);
    assert_eq!(code, 0, "{text}");
    assert!(!identities[2].is_running(), "r1 survived");
    let (code, text) = up.run(&["status"]);
    assert!(code == 1 && text.contains("not running"), "{text}");
    let (code, text) = up.run(&["up"]);
    assert!(code == 0 && text.contains("r1 had ended: starting it again"), "{text}");
    let (code, text) = up.run(&["status"]);
    assert_eq!(code, 0, "{text}");

    let (code, text) = up.run(&["down"]);
    assert!(code == 0 && text.contains("mariadb: stopped"), "{text}");
    assert!(!text.contains("killed"), "not graceful:\n{text}");
    assert!(identities.iter().all(|identity| !identity.is_running()));
    assert_eq!(up.alive(), Vec::<u32>::new());
    let (code, text) = up.run(&["down"]);
    assert!(code == 0 && text.contains("nothing is running"), "{text}");

    // The data is still there: the tenant's key works, so no second one is made.
    let key = std::fs::read_to_string(up.folder.path().join("secrets/demo_key")).unwrap();
    let (code, text) = up.run(&["up"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(std::fs::read_to_string(up.folder.path().join("secrets/demo_key")).unwrap(), key);
}

#[test]
fn ctrl_c_in_the_middle_stops_what_was_started() {
    let up = Up::new();
    let mut child = up.command(&["up"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let started =
        lines.by_ref().find(|line| line.as_ref().unwrap().starts_with("✓ NATS, Redis")).unwrap().unwrap();
    assert!(!up.alive().is_empty(), "{started}");
    let interrupted =
        Command::new("sh").args(["-c", &format!("kill -s INT {}", child.id())]).status().unwrap();
    assert!(interrupted.success());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(
        rest.iter().any(|line| line.contains("everything that this run had started is stopped")),
        "{rest:?}"
    );
    let left = up.alive().into_iter().filter(|pid| Identity::of(*pid).is_some()).count();
    assert_eq!(left, 0, "processes are left over");
    assert!(!Path::new(&up.folder.path().join("state.json")).exists());
}
