//! What the schema must be (R-PST-6), compared with what was found.

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
const NAME: (&str, &str) = ("name", "varbinary(64)");

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

const TOPIC: (&str, &str) = ("topic", "varbinary(64)");
const PARTITION: (&str, &str) = ("partition", "int");
const TINY: &str = "tinyint unsigned";
const INT: &str = "int unsigned";
const TIME: &str = "datetime(3)";

/// Table, primary key, columns. A kind that ends in ` null` may be NULL, all others may not.
const OTHERS: &[(&str, Columns, Columns)] = &[
    (
        "conversations",
        &[TENANT, CONVERSATION],
        &[
            TENANT,
            CONVERSATION,
            ("kind", TINY),
            ("head", BIGINT),
            ("n", BIGINT),
            ("member_count", INT),
            ("history_for_new_members", TINY),
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
        &[TOPIC, PARTITION],
        &[
            TOPIC,
            PARTITION,
            ("next_offset", BIGINT),
            ("claim_epoch", BIGINT),
            ("last_index", BIGINT),
            ("lease_owner", "varbinary(64)"),
            ("lease_epoch", BIGINT),
            ("lease_until", TIME),
        ],
    ),
    (
        "partition_times",
        &[TOPIC, PARTITION, ("at_ms", BIGINT)],
        &[
            TOPIC,
            PARTITION,
            ("at_ms", BIGINT),
            ("next_offset", BIGINT),
            ("claim_epoch", BIGINT),
            ("last_index", BIGINT),
        ],
    ),
    ("persisters", &[NAME], &[NAME, ("seen_at", TIME)]),
    ("pool_registry", &[NAME], &[NAME, ("connections", INT), ("seen_at", TIME)]),
    (
        "tombstones",
        &[TENANT, CONVERSATION, ("seq", BIGINT)],
        &[
            TENANT,
            CONVERSATION,
            ("seq", BIGINT),
            TOPIC,
            PARTITION,
            ("record_offset", BIGINT),
            ("record", "mediumblob"),
        ],
    ),
    (
        "dead_letters",
        &[("id", BIGINT)],
        &[
            ("id", BIGINT),
            TOPIC,
            PARTITION,
            ("record_offset", BIGINT),
            ("tenant", "varbinary(255)"),
            ("conversation", "varbinary(255)"),
            ("seq_text", "varbinary(20)"),
            ("error_code", INT),
            ("error", "varbinary(1024)"),
            ("state_event", TINY),
            ("payload", "longblob"),
            ("created_at", TIME),
            ("replayed_at", "datetime(3) null"),
        ],
    ),
    (
        "session_audit",
        &[("session", "varbinary(64)")],
        &[
            ("session", "varbinary(64)"),
            TENANT,
            USER,
            ("device", "varbinary(64)"),
            ("node", "varbinary(64)"),
            ("remote", "varbinary(128)"),
            ("opened_at_ms", BIGINT),
            ("closed_at_ms", BIGINT),
            ("close_code", INT),
        ],
    ),
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

/// Compares every table of the contract with what was found; `keys` are the primary keys, (table, columns in order).
pub fn compare(found: &[Column], keys: &[(String, Vec<String>)], shards: u32) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    let messages_key: Columns = &[TENANT, CONVERSATION, ("seq", BIGINT)];
    let tables = (0..shards).map(|shard| (crate::shard::table(shard), messages_key, MESSAGES));
    let others = OTHERS.iter().map(|(table, key, columns)| ((*table).to_owned(), *key, *columns));
    for (table, key, columns) in tables.chain(others) {
        for (column, kind) in columns {
            let (kind, nullable) = kind.strip_suffix(" null").map_or((*kind, false), |kind| (kind, true));
            let word = |nullable| if nullable { "NULL" } else { "NOT NULL" };
            let expected = format!("{} {}", kind.to_uppercase(), word(nullable));
            let here = found.iter().find(|c| c.table == table && c.column == *column);
            let found = match here {
                None => "nothing".to_owned(),
                Some(c) if base(&c.kind) == kind && c.nullable == nullable => continue,
                Some(c) => format!("{} {}", c.kind.to_uppercase(), word(c.nullable)),
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
                    kind: kind.trim_end_matches(" null").to_owned(),
                    nullable: kind.ends_with(" null"),
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
        assert_eq!(compare(&columns, &keys, 2), []);
        let seq = columns.iter_mut().find(|c| c.table == "messages_01" && c.column == "seq").unwrap();
        seq.kind = "int(11)".to_owned();
        let wrong = compare(&columns, &keys, 2);
        assert_eq!(wrong.len(), 1);
        assert_eq!(
            wrong[0].to_string(),
            "table messages_01, column seq: found INT(11) NOT NULL, expected BIGINT NOT NULL"
        );
        columns.retain(|c| !(c.table == "members" && c.column == "to_seq"));
        assert_eq!(compare(&columns, &keys, 2).len(), 2);
    }

    #[test]
    fn unsigned_nullable_and_another_key_are_mismatches() {
        let (mut columns, mut keys) = perfect();
        columns.iter_mut().find(|c| c.column == "n").unwrap().kind = "bigint(20) unsigned".to_owned();
        columns.iter_mut().find(|c| c.column == "head").unwrap().nullable = true;
        keys.iter_mut().find(|(table, _)| table == "messages_00").unwrap().1.pop();
        let wrong: Vec<_> = compare(&columns, &keys, 2).into_iter().map(|w| w.column).collect();
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong.contains(&"PRIMARY KEY".to_owned()));
    }

    // R-PST-6
    #[test]
    fn every_table_and_column_is_part_of_it() {
        let (mut columns, keys) = perfect();
        for (table, column) in
            [("dead_letters", "replayed_at"), ("session_audit", "close_code"), ("pool_registry", "seen_at")]
        {
            columns.retain(|c| !(c.table == table && c.column == column));
        }
        let wrong: Vec<_> = compare(&columns, &keys, 2).iter().map(ToString::to_string).collect();
        assert_eq!(
            wrong,
            [
                "table pool_registry, column seen_at: found nothing, expected DATETIME(3) NOT NULL",
                "table dead_letters, column replayed_at: found nothing, expected DATETIME(3) NULL",
                "table session_audit, column close_code: found nothing, expected INT UNSIGNED NOT NULL",
            ]
        );
    }

    #[test]
    fn a_lax_session_is_refused() {
        assert!(check_sql_mode("NO_ZERO_DATE,STRICT_TRANS_TABLES").is_none());
        assert!(check_sql_mode("").is_some_and(|m| m.to_string().contains("sql_mode")));
    }
}
