//! The indexes beside the primary keys (R-PST-6): without one, a question reads a whole table.

use crate::contract::Mismatch;

/// An index as `information_schema.statistics` tells it, its columns in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    pub table: String,
    pub name: String,
    pub unique: bool,
    pub columns: Vec<String>,
}

const WANTED: &[(&str, &str, bool, &[&str])] = &[
    ("conversations", "by_bucket", false, &["kind", "bucket"]),
    ("members", "by_user", false, &["tenant", "user"]),
    ("dead_letters", "place", true, &["topic", "partition", "record_offset"]),
    ("dead_letters", "by_conversation", false, &["tenant", "conversation"]),
    ("session_audit", "by_user", false, &["tenant", "user", "opened_at_ms"]),
];

fn words(unique: bool, columns: &[String]) -> String {
    format!("{}({})", if unique { "UNIQUE " } else { "" }, columns.join(", "))
}

/// Further indexes do no harm, except unique ones on a table of messages: each costs most of the insert rate.
pub fn compare(found: &[Index]) -> Vec<Mismatch> {
    let of = |table: &str, name: &str, found: String, expected: String| Mismatch {
        table: table.to_owned(),
        column: format!("KEY {name}"),
        found,
        expected,
    };
    let mut wrong = Vec::new();
    for (table, name, unique, columns) in WANTED {
        let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        let here = found.iter().find(|index| index.table == *table && index.name == *name);
        if here.is_some_and(|index| index.unique == *unique && index.columns == columns) {
            continue;
        }
        let seen = here.map_or_else(|| "nothing".to_owned(), |index| words(index.unique, &index.columns));
        wrong.push(of(table, name, seen, words(*unique, &columns)));
    }
    let second =
        |index: &&Index| index.unique && index.name != "PRIMARY" && index.table.starts_with("messages_");
    for index in found.iter().filter(second) {
        let seen = words(index.unique, &index.columns);
        wrong.push(of(&index.table, &index.name, seen, "no second unique key".to_owned()));
    }
    wrong
}

/// The rows of `information_schema.statistics` in the order of table, index and place: one entry an index.
pub fn gather(rows: impl IntoIterator<Item = (String, String, bool, String)>) -> Vec<Index> {
    let mut all: Vec<Index> = Vec::new();
    for (table, name, unique, column) in rows {
        match all.last_mut().filter(|last| last.table == table && last.name == name) {
            Some(last) => last.columns.push(column),
            None => all.push(Index { table, name, unique, columns: vec![column] }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn perfect() -> Vec<Index> {
        let rows = WANTED.iter().flat_map(|(table, name, unique, columns)| {
            columns
                .iter()
                .map(|column| ((*table).to_owned(), (*name).to_owned(), *unique, (*column).to_owned()))
        });
        gather(rows)
    }

    // R-PST-6
    #[test]
    fn an_index_that_is_missing_or_another_is_named() {
        let mut found = perfect();
        assert_eq!((found.len(), compare(&found)), (WANTED.len(), vec![]));
        found.retain(|index| index.name != "by_bucket");
        found[1].unique = false;
        let wrong: Vec<_> = compare(&found).iter().map(ToString::to_string).collect();
        assert_eq!(
            wrong,
            [
                "table conversations, column KEY by_bucket: found nothing, expected (kind, bucket)",
                "table dead_letters, column KEY place: found (topic, partition, record_offset), expected UNIQUE (topic, \
                 partition, record_offset)",
            ]
        );
    }

    // R-PST-6
    #[test]
    fn a_second_unique_key_on_messages_is_a_mismatch_a_plain_one_is_not() {
        let mut found = perfect();
        let index = |unique| Index {
            table: "messages_03".to_owned(),
            name: "mid".to_owned(),
            unique,
            columns: vec!["client_mid".to_owned()],
        };
        found.push(index(false));
        assert_eq!(compare(&found), []);
        found.push(index(true));
        assert_eq!(compare(&found).len(), 1);
    }
}
