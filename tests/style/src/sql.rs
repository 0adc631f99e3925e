//! SQL that both MySQL 8 and MariaDB 10.11 understand (R-PST-6).

use crate::File;

/// What only one of them has. Case counts: keywords of ours are in capitals.
const ONE_ONLY: [(&str, &str); 21] = [
    (") AS new", "MySQL"),
    ("FOR SHARE", "MySQL"),
    ("LATERAL", "MySQL"),
    ("MEMBER OF", "MySQL"),
    ("JSON_STORAGE_SIZE", "MySQL"),
    ("UUID_TO_BIN", "MySQL"),
    ("BIN_TO_UUID", "MySQL"),
    ("ANY_VALUE", "MySQL"),
    ("utf8mb4_0900_", "MySQL"),
    ("->>", "MySQL"),
    (" RETURNING", "MariaDB"),
    ("NEXTVAL", "MariaDB"),
    ("NEXT VALUE FOR", "MariaDB"),
    ("CREATE OR REPLACE TABLE", "MariaDB"),
    ("ADD COLUMN IF NOT EXISTS", "MariaDB"),
    ("DROP COLUMN IF EXISTS", "MariaDB"),
    ("INDEX IF NOT EXISTS", "MariaDB"),
    ("SET STATEMENT", "MariaDB"),
    ("SYSTEM VERSIONING", "MariaDB"),
    ("VALUE(", "MariaDB"),
    ("information_schema.global_", "MariaDB"),
];

/// Whether the text has it as a word of its own: `VALUE(` is not in `ANY_VALUE(`.
fn has(line: &str, what: &str) -> bool {
    let part_of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(what).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + what.len()..]);
        let begins = !what.starts_with(char::is_alphanumeric) || !part_of_word(before.chars().next_back());
        begins && (!what.ends_with(char::is_alphanumeric) || !part_of_word(after.chars().next()))
    })
}

pub fn of_one_server_only(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        for (what, server) in ONE_ONLY.iter().filter(|(what, _)| has(line, what)) {
            findings.push(format!("{}:{}: `{}` is {server}'s only", file.path, number + 1, what.trim()));
        }
    }
    findings
}

/// A migration takes nothing away that a persister of before still uses, and each statement may run twice.
pub fn not_only_adding(file: &File) -> Vec<String> {
    let taking = ["DROP ", "RENAME ", "MODIFY ", "CHANGE ", "TRUNCATE "];
    let code = file.text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("--"));
    code.filter(|(_, line)| taking.iter().any(|word| has(line, word)))
        .map(|(number, line)| format!("{}:{}: takes away: {}", file.path, number + 1, line.trim()))
        .collect()
}
