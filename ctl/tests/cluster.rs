//! `lapwing` as a program against a real cluster.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
use std::{path::Path, process::Command};

use lapwing_servers::{Cluster, Options};

fn lapwing(state: &Path, words: &[&str]) -> (i32, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_lapwing")).args(words).env("LAPWING_STATE", state).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("lapwing {words:?}\n{text}");
    (output.status.code().unwrap_or(-1), text)
}

// R-PST-5 (the probe's path), R-SEQ-6
#[tokio::test(flavor = "multi_thread")]
async fn probe_partitions_and_tenants() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let state = cluster.infra().folder().join("state.json");
    cluster.state().save(&state).unwrap();

    let (code, text) = lapwing(&state, &["probe"]);
    assert_eq!(code, 0, "{text}");
    for name in ["accepted", "dispatched", "delivered", "row", "history"] {
        assert!(text.contains(name), "{name}");
    }
    assert!(text.contains("5 of 5 states"), "{text}");
    assert!(text.contains("2 of 2 nodes"), "the sender is on one, the receiver on the other: {text}");

    let (code, text) = lapwing(&state, &["partitions"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("lapwing.p2p") && text.contains("24 partitions, 0 findings"), "{text}");
    let head: Vec<_> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    for (line, column) in [("lapwing.p2p", "head/s"), ("lapwing.group", "persisted/s")] {
        let at = head.iter().position(|name| *name == column).unwrap();
        let rates = text.lines().filter(|text| text.trim_start().starts_with(line));
        assert!(
            rates.filter_map(|row| row.split_whitespace().nth(at)).any(|rate| rate.parse::<u64>().is_ok())
        );
    }

    assert_eq!(lapwing(&state, &["tenants", "create", "acme"]).0, 0);
    let (code, text) = lapwing(&state, &["tenants", "list"]);
    assert!(code == 0 && text.contains("acme") && text.contains("probe"), "{text}");
    let (code, key) = lapwing(&state, &["tenants", "key", "acme", "first"]);
    assert!(code == 0 && key.starts_with("lwk.acme."), "{key}");
    assert_eq!(lapwing(&state, &["tenants", "suspend", "acme"]).0, 0);
    assert_eq!(lapwing(&state, &["tenants", "suspend", "acme", "--off"]).0, 0);

    dead_letters(&state);

    // A persister that is gone leaves the row out: the probe says which state was not reached.
    cluster.persister(0).kill9().await;
    cluster.persister(1).kill9().await;
    let (code, text) = lapwing(&state, &["probe"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("row") && text.contains("NOT REACHED") && text.contains("of 5 states"), "{text}");
    let (code, text) = lapwing(&state, &["dead-letters", "list"]);
    assert!(code == 2 && text.contains("no persister answers"), "{text}");
}

/// Where there are none; what becomes of some is a scenario of `./dev chaos`.
fn dead_letters(state: &Path) {
    for (words, wanted, text_of_it) in [
        (&["list", "--replayed", "no", "--from", "2h"][..], 0, "0 dead letters"),
        (&["replay"], 2, "which ones?"),
        (&["replay", "--all", "--after-probe"], 0, "replay: no dead letters"),
        (&["replay", "17"], 1, "! 17 gone: there is no such dead letter"),
        (&["show", "17"], 2, "there is no dead letter 17"),
        (&["purge"], 0, "0 purged"),
        (&["purge", "--older-than", "1d"], 2, "LAPWING_DEAD_RETENTION_MS"),
    ] {
        let (code, text) = lapwing(state, &[&["dead-letters"], words].concat());
        assert!(code == wanted && text.contains(text_of_it), "{words:?}: {code} {text}");
    }
}

// R-PST-7
#[test]
fn the_budget_that_ships_fits_and_one_that_does_not_says_why() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../k8s/persister/budget.toml");
    let file = file.to_str().unwrap();
    let nowhere = Path::new("/nowhere");
    let (code, text) = lapwing(nowhere, &["budget", "--file", file]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("54 in all · max_connections 151 · 20 % stay free · 120 allowed · 66 left"),
        "{text}"
    );
    let (code, text) = lapwing(nowhere, &["budget", "--file", file, "--max-connections", "60"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("! connection budget: 3 × persister with 18 = 54"), "{text}");
}
