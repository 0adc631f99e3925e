//! The scenarios and the fail points, against each other and against the code.
#![allow(clippy::unwrap_used, reason = "a test's own failures are its verdict")]

use std::{collections::BTreeSet, path::Path};

use lapwing_chaos::all;
use lapwing_runtime::fail_point;
use lapwing_servers::paths;

/// Names in `fail_point("…")` and `during("…"` of a folder's sources.
fn in_code(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            in_code(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for call in ["fail_point(\"", "during(\""] {
                let names = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(names.map(str::to_owned));
            }
        }
    }
}

#[test]
fn each_fail_point_stands_in_its_service_once() {
    for service in ["gateway", "router", "persister"] {
        let mut found = Vec::new();
        in_code(&paths::workspace_dir().join(service).join("src"), &mut found);
        found.sort();
        let listed = fail_point::PLACES.iter().filter(|place| place.service == service);
        let mut listed: Vec<String> = listed.map(|place| place.name.to_owned()).collect();
        listed.sort();
        assert_eq!(found, listed, "{service}");
    }
}

#[test]
fn scenarios_have_names_of_their_own_and_say_in_a_sentence_what_they_show() {
    let names: BTreeSet<&str> = all().iter().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), all().len());
    for scenario in all() {
        assert!(scenario.shows.len() > 40 && !scenario.shows.ends_with('.'), "{}", scenario.name);
    }
}
