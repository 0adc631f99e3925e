//! What the schema must be (R-PST-6) and what the connections may be (R-PST-7), compared with what was found.

use std::fmt;

/// A column as `information_schema.columns` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub table: String,
    pub column: String,
    /// `bigint`, `varbinary(72)`, in lower case.
    pub kind: String,
    pub nullable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    pub table: String,
    pub column: String,
    pub found: String,
    pub expected: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, column, found, expected } = self;
        write!(f, "table {table}, column {column}: found {found}, expected {expected}")
    }
}

const BIGINT: &str = "bigint";
const TENANT: (&str, &str) = ("tenant", "varbinary(64)");
const CONVERSATION: (&str, &str) = ("conversation", "varbinary(72)");
const USER: (&str, &str) = ("user", "varbinary(64)");

type Columns = &'static [(&'static str, &'static str)];

const MESSAGES: Columns = &[
    TENANT,
    CONVERSATION,
    ("seq", BIGINT),
    ("n", BIGINT),
    ("sender", "varbinary(64)"),
    ("device", "varbinary(64)"),
    ("client_mid", "varbinary(64)"),
    ("content_hash", "binary(16)"),
    ("sent_at_ms", BIGINT),
    ("record", "mediumblob"),
];

const OTHERS: &[(&str, Columns, Columns)] = &[
    (
        "conversations",
        &[TENANT, CONVERSATION],
        &[
            TENANT,
            CONVERSATION,
            ("head", BIGINT),
            ("n", BIGINT),
            ("created_at_ms", BIGINT),
            ("bucket", "smallint unsigned"),
        ],
    ),
    (
        "members",
        &[TENANT, CONVERSATION, USER],
        &[TENANT, CONVERSATION, USER, ("from_seq", BIGINT), ("to_seq", BIGINT)],
    ),
    (
        "cursors",
        &[TENANT, USER, CONVERSATION],
        &[TENANT, USER, CONVERSATION, ("read_seq", BIGINT), ("read_n", BIGINT), ("delivered_seq", BIGINT)],
    ),
    (
        "partition_offsets",
        &[("topic", "varbinary(64)"), ("partition", "int")],
        &[("next_offset", BIGINT), ("claim_epoch", BIGINT), ("last_index", BIGINT), ("lease_epoch", BIGINT)],
    ),
    (
        "partition_times",
        &[("topic", "varbinary(64)"), ("partition", "int"), ("at_ms", BIGINT)],
        &[("next_offset", BIGINT), ("claim_epoch", BIGINT), ("last_index", BIGINT)],
    ),
    (
        "tombstones",
        &[TENANT, CONVERSATION, ("seq", BIGINT)],
        &[TENANT, CONVERSATION, ("seq", BIGINT), ("record", "mediumblob")],
    ),
    ("dead_letters", &[], &[("record_offset", BIGINT), ("payload", "longblob")]),
];

fn base(kind: &str) -> String {
    // MySQL below 8.0.19 and MariaDB say a display width; it means nothing.
    let kind = kind.to_lowercase();
    match kind.split_once('(') {
        Some((name, rest)) if name.ends_with("int") => {
            format!("{name}{}", rest.split_once(')').map_or("", |(_, after)| after))
        }
        _ => kind,
    }
}

/// Compares every table of the contract with what was found; `keys` are the primary keys, (table, columns in order), `own` the
/// tables of tenants that have one.
pub fn compare(
    found: &[Column],
    keys: &[(String, Vec<String>)],
    shards: u32,
    own: &[String],
) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    let messages_key: Columns = &[TENANT, CONVERSATION, ("seq", BIGINT)];
    let shards = (0..shards).map(crate::shard::table);
    let tables = shards.chain(own.iter().cloned()).map(|table| (table, messages_key, MESSAGES));
    let others = OTHERS.iter().map(|(table, key, columns)| ((*table).to_owned(), *key, *columns));
    for (table, key, columns) in tables.chain(others) {
        for (column, kind) in columns {
            let expected = format!("{} NOT NULL", kind.to_uppercase());
            let here = found.iter().find(|c| c.table == table && c.column == *column);
            let found = match here {
                None => "nothing".to_owned(),
                Some(c) if base(&c.kind) == *kind && !c.nullable => continue,
                Some(c) => {
                    format!("{} {}", c.kind.to_uppercase(), if c.nullable { "NULL" } else { "NOT NULL" })
                }
            };
            wrong.push(Mismatch { table: table.clone(), column: (*column).to_owned(), found, expected });
        }
        wrong.extend(key_mismatch(&table, key, keys));
    }
    wrong
}

fn key_mismatch(table: &str, key: Columns, keys: &[(String, Vec<String>)]) -> Option<Mismatch> {
    if key.is_empty() {
        return None;
    }
    let expected = key.iter().map(|(column, _)| *column).collect::<Vec<_>>().join(", ");
    let found = keys.iter().find(|(name, _)| name == table).map(|(_, columns)| columns.join(", "));
    if found.as_deref() == Some(&expected) {
        return None;
    }
    Some(Mismatch {
        table: table.to_owned(),
        column: "PRIMARY KEY".to_owned(),
        found: found.unwrap_or_else(|| "none".to_owned()),
        expected,
    })
}

/// Whether values that do not fit are refused rather than changed.
pub fn check_sql_mode(mode: &str) -> Option<Mismatch> {
    let strict = mode.split(',').any(|part| matches!(part, "STRICT_TRANS_TABLES" | "STRICT_ALL_TABLES"));
    (!strict).then(|| Mismatch {
        table: "(session)".to_owned(),
        column: "sql_mode".to_owned(),
        found: if mode.is_empty() { "(empty)".to_owned() } else { mode.to_owned() },
        expected: "STRICT_TRANS_TABLES or STRICT_ALL_TABLES".to_owned(),
    })
}

/// Connections that may be used in all: 80 % of the server's.
pub fn allowed(max_connections: u64) -> u64 {
    max_connections * 8 / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn perfect() -> (Vec<Column>, Vec<(String, Vec<String>)>) {
        let (mut columns, mut keys) = (Vec::new(), Vec::new());
        let messages_key: Columns = &[TENANT, CONVERSATION, ("seq", BIGINT)];
        let tables = OTHERS
            .iter()
            .map(|(t, k, c)| ((*t).to_owned(), *k, *c))
            .chain((0..2).map(|shard| (crate::shard::table(shard), messages_key, MESSAGES)));
        for (table, key, list) in tables {
            for (column, kind) in list {
                let kind = if *kind == BIGINT { "bigint(20)" } else { kind };
                columns.push(Column {
                    table: table.clone(),
                    column: (*column).to_owned(),
                    kind: kind.to_owned(),
                    nullable: false,
                });
            }
            keys.push((table, key.iter().map(|(column, _)| (*column).to_owned()).collect()));
        }
        (columns, keys)
    }

    // R-PST-6: the Snowflake id in an INT column.
    #[test]
    fn a_mismatch_names_table_column_found_and_expected() {
        let (mut columns, keys) = perfect();
        assert_eq!(compare(&columns, &keys, 2, &[]), []);
        let seq = columns.iter_mut().find(|c| c.table == "messages_01" && c.column == "seq").unwrap();
        seq.kind = "int(11)".to_owned();
        let wrong = compare(&columns, &keys, 2, &[]);
        assert_eq!(wrong.len(), 1);
        assert_eq!(
            wrong[0].to_string(),
            "table messages_01, column seq: found INT(11) NOT NULL, expected BIGINT NOT NULL"
        );
        columns.retain(|c| !(c.table == "members" && c.column == "to_seq"));
        assert_eq!(compare(&columns, &keys, 2, &[]).len(), 2);
        let own = ["messages_x_big".to_owned()];
        let wrong = compare(&columns, &keys, 2, &own);
        assert!(wrong.iter().any(|w| w.table == own[0] && w.found == "nothing"), "{wrong:?}");
    }

    #[test]
    fn unsigned_nullable_and_another_key_are_mismatches() {
        let (mut columns, mut keys) = perfect();
        columns.iter_mut().find(|c| c.column == "n").unwrap().kind = "bigint(20) unsigned".to_owned();
        columns.iter_mut().find(|c| c.column == "head").unwrap().nullable = true;
        keys.iter_mut().find(|(table, _)| table == "messages_00").unwrap().1.pop();
        let wrong: Vec<_> = compare(&columns, &keys, 2, &[]).into_iter().map(|w| w.column).collect();
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong.contains(&"PRIMARY KEY".to_owned()));
    }

    #[test]
    fn a_lax_session_is_refused() {
        assert!(check_sql_mode("NO_ZERO_DATE,STRICT_TRANS_TABLES").is_none());
        assert!(check_sql_mode("").is_some_and(|m| m.to_string().contains("sql_mode")));
    }

    // R-PST-7
    #[test]
    fn a_fifth_of_the_connections_stays_free() {
        assert_eq!(allowed(170), 136);
    }
}
