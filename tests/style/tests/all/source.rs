use lapwing_runtime::metrics::STAGES;
use lapwing_style::{File, files, none, read, source};

fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}

#[test]
fn no_source_is_longer_than_five_hundred_lines() {
    let long = file("gateway/src/a.rs", &"x\n".repeat(501));
    assert!(source::is_source(&long) && source::too_long(&long).is_some());
    assert!(source::too_long(&file("a.rs", &"x\n".repeat(500))).is_none());
    let all = files().unwrap();
    let sources: Vec<_> = all.iter().filter(|file| source::is_source(file)).collect();
    assert!(sources.len() > 200, "only {} sources were found", sources.len());
    none(&sources.iter().filter_map(|file| source::too_long(file)).collect::<Vec<_>>());
}

#[test]
fn nothing_was_put_off() {
    let word = concat!("TO", "DO");
    assert_eq!(
        source::unfinished(&file("a.lua", &format!("-- ok\n-- {word}: later"))),
        [format!("a.lua:2: {word}")]
    );
    assert_eq!(
        source::unfinished(&file("a.rs", &format!("{}(\"x\")", concat!("unimple", "mented!")))).len(),
        1
    );
    assert!(source::unfinished(&file("a.rs", &format!("AU{word}S"))).is_empty());
    let all = files().unwrap();
    none(&all.iter().filter(|file| source::is_code(file)).flat_map(source::unfinished).collect::<Vec<_>>());
}

#[test]
fn every_requirement_that_is_named_exists() {
    let bad = file("a.rs", concat!("// R-", "ACK-2, R-", "ACK-7, R-", "XYZ-1 and R-", "ACK-1"));
    assert_eq!(source::unknown_requirements(&bad).len(), 2);
    let all = files().unwrap();
    let named = all.iter().filter(|file| source::is_code(file) || file.path.ends_with(".md"));
    none(&named.flat_map(source::unknown_requirements).collect::<Vec<_>>());
    let count = all.iter().map(|file| source::requirements(&file.text).len()).sum::<usize>();
    assert!(count > 100, "only {count} requirements are named");
}

// A core has no tokio in its manifest: the compiler guards the boundary.
#[test]
fn pure_crates_name_nothing_that_does_io() {
    let bad = file(
        "x/core/Cargo.toml",
        "[dependencies]\nbytes = \"1\"\n[dev-dependencies]\ntokio.workspace = true",
    );
    assert_eq!(source::impure(&bad).len(), 1);
    for path in ["gateway/core", "router/core", "persister/core", "shared/model", "proto"] {
        let path = format!("{path}/Cargo.toml");
        none(&source::impure(&file(&path, &read(&path).unwrap())));
    }
}

// Stage = file = metric label.
#[test]
fn every_stage_is_a_file() {
    assert_eq!(source::stages_without_file(&["admit", "total"], &["router/src/other.rs"]).len(), 1);
    let all = files().unwrap();
    let paths: Vec<&str> = all.iter().map(|file| file.path.as_str()).collect();
    none(&source::stages_without_file(&STAGES, &paths));
}

#[test]
fn ci_runs_what_people_run() {
    let last = |text: &str| text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    assert_ne!(last("exec ./dev test\nexit 0\n").as_deref(), Some("exec ./dev test"));
    assert_eq!(last(&read(".ci/run").unwrap()).as_deref(), Some("exec ./dev test"));
}
