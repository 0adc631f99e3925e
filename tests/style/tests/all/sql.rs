use lapwing_style::{File, files_under, none, sql};

fn file(text: &str) -> File {
    File { path: "a.rs".into(), text: text.into() }
}

// R-PST-6
#[test]
fn statements_are_what_mysql_and_mariadb_both_have() {
    let bad =
        "INSERT INTO x VALUES (?) AS new ON DUPLICATE KEY UPDATE a = new.a\nDELETE FROM x RETURNING a\nfine";
    assert_eq!(sql::of_one_server_only(&file(bad)).len(), 2);
    let good = "UPDATE a = VALUES(a), b = MY_VALUE(b)\n(SELECT 1) AS newest";
    assert_eq!(sql::of_one_server_only(&file(good)), Vec::<String>::new());
    let mut all = files_under("persister").unwrap();
    all.extend(files_under("loadtest/src").unwrap());
    all.retain(|file| file.path.ends_with(".rs") || file.path.ends_with(".sql"));
    assert!(all.iter().any(|file| file.path.ends_with("0001_schema.sql")) && all.len() > 20);
    none(&all.iter().flat_map(sql::of_one_server_only).collect::<Vec<_>>());
}

// R-PST-6: during a rolling upgrade persisters of before work with the newer schema.
#[test]
fn migrations_only_add() {
    assert_eq!(sql::not_only_adding(&file("-- DROP is a word\nALTER TABLE x DROP COLUMN y;")).len(), 1);
    let mut all = files_under("persister/migrations").unwrap();
    all.retain(|file| file.path.ends_with(".sql"));
    assert!(!all.is_empty());
    none(&all.iter().flat_map(sql::not_only_adding).collect::<Vec<_>>());
}
