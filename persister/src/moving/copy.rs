//! Copies a partition's conversations from one instance to another, and compares what stands on both. Everything may be copied
//! twice; each transaction looks whether the lease is still this process's, so that a paused one changes nothing later.

use lapwing_model::{
    bucket::BUCKETS,
    kind::{KINDS, Kind},
};
use lapwing_persister_core::{shard, window};
use sqlx::{
    AssertSqlSafe, Executor as _, MySql, MySqlConnection, Row as _,
    mysql::{MySqlArguments, MySqlRow},
    query::Query,
};

use super::{LIMIT, Mover, Trouble};
use crate::{
    db::{self, Borrowed, Db},
    write::insert,
};

#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) conversations: u64,
    pub(super) rows: u64,
    pub(super) members: u64,
}

pub(super) type Id = (Vec<u8>, Vec<u8>);

/// Rows that are read at once; how many of them go into one statement is decided by their bytes.
const PAGE: usize = 100;
const MESSAGE: &[&str] = &[
    "tenant",
    "conversation",
    "seq",
    "n",
    "sender",
    "device",
    "client_mid",
    "content_hash",
    "sent_at_ms",
    "record",
];
const CONVERSATION: &[&str] = &[
    "tenant",
    "conversation",
    "kind",
    "head",
    "n",
    "member_count",
    "history_for_new_members",
    "created_at_ms",
    "bucket",
];
const MEMBER: &[&str] = &["tenant", "conversation", "user", "from_seq", "to_seq"];
const CURSOR: &[&str] = &["tenant", "user", "conversation", "read_seq", "read_n", "delivered_seq"];
const TOMBSTONE: &[&str] =
    &["tenant", "conversation", "seq", "topic", "`partition`", "record_offset", "record"];
const TIME: &[&str] = &["topic", "`partition`", "at_ms", "next_offset", "claim_epoch", "last_index"];
const DEAD: &[&str] = &[
    "topic",
    "`partition`",
    "record_offset",
    "tenant",
    "conversation",
    "seq_text",
    "error_code",
    "error",
    "state_event",
    "payload",
    "created_at",
    "replayed_at",
];

/// A column's value on its way.
#[derive(Debug, Clone)]
enum Value {
    Number(Option<i64>),
    /// Ids, bodies, times.
    Bytes(Option<Vec<u8>>),
}

impl Value {
    fn weight(&self) -> usize {
        match self {
            Self::Bytes(Some(bytes)) => bytes.len() + 16,
            _ => 16,
        }
    }
}

type Values = Vec<Value>;
type Asked<'q> = Query<'q, MySql, MySqlArguments>;

fn bind<'q>(query: Asked<'q>, value: &'q Value) -> Asked<'q> {
    match value {
        Value::Number(number) => query.bind(*number),
        Value::Bytes(bytes) => query.bind(bytes.as_deref()),
    }
}

/// Rows of one table, read in order of one column.
struct Source<'a> {
    table: &'a str,
    columns: &'a [&'a str],
    place: &'a str,
    key: Values,
    by: &'a str,
    tail: String,
}

pub(super) async fn run(mover: &Mover, old: usize, new: usize) -> Result<Sums, Trouble> {
    let (from, to) = (mover.db(old), mover.db(new));
    let mut sums = Sums::default();
    for bucket in buckets(mover) {
        let mut after = None;
        while let Some(page) = conversations(mover, from, bucket, after.as_ref()).await? {
            for id in &page {
                mover.check_stop()?;
                // A tenant with a place of its own stays there.
                if mover.persister.places.current().own(&String::from_utf8_lossy(&id.0)).is_none() {
                    conversation(mover, from, to, bucket, id, &mut sums).await?;
                }
            }
            after = page.last().cloned();
        }
        progress(mover, bucket, sums.rows).await?;
    }
    let key = vec![
        Value::Bytes(Some(mover.partition.topic.as_bytes().to_vec())),
        Value::Number(Some(mover.partition.partition.into())),
    ];
    let whole = "topic = ? AND `partition` = ?";
    for (table, columns, by) in [("partition_times", TIME, "at_ms"), ("dead_letters", DEAD, "record_offset")]
    {
        let source =
            Source { table, columns, place: whole, key: key.clone(), by, tail: overwriting(columns) };
        source.copy(mover, from, to, Value::Number(Some(-1))).await?;
    }
    Ok(sums)
}

impl Source<'_> {
    /// How many, and the last one's place.
    async fn copy(
        &self,
        mover: &Mover,
        from: &Db,
        to: &Db,
        mut after: Value,
    ) -> Result<(u64, Value), Trouble> {
        let list: Vec<String> = self.columns.iter().map(|column| read_as(column)).collect();
        let statement = format!(
            "SELECT {} FROM {} WHERE {} AND {} > ? ORDER BY {} LIMIT {PAGE}",
            list.join(","),
            self.table,
            self.place,
            self.by,
            self.by
        );
        let by = self.columns.iter().position(|column| *column == self.by).unwrap_or_default();
        let mut count = 0;
        loop {
            mover.check_stop()?;
            let binds: Values = self.key.iter().cloned().chain([after.clone()]).collect();
            let rows = read(from, &statement, self.columns, &binds).await?;
            let Some(last) = rows.last() else { return Ok((count, after)) };
            after = last[by].clone();
            count += rows.len() as u64;
            put(mover, to, self, &rows).await?;
        }
    }
}

pub(super) fn buckets(mover: &Mover) -> std::ops::Range<u32> {
    let size = BUCKETS / mover.persister.places.current().partitions;
    mover.partition.partition * size..(mover.partition.partition + 1) * size
}

/// The next conversations of a bucket, in order; None: there are no more.
pub(super) async fn conversations(
    mover: &Mover,
    db: &Db,
    bucket: u32,
    after: Option<&Id>,
) -> Result<Option<Vec<Id>>, sqlx::Error> {
    let of_topic = |kind: &Kind| kind.topic() == &*mover.partition.topic;
    let kind = KINDS.iter().position(of_topic).map_or(0, |index| index as u8 + 1);
    let (tenant, name) = after.cloned().unwrap_or_default();
    // Two ranges of the index, since one comparison of both columns would read the whole bucket.
    let mut found: Vec<Id> = Vec::new();
    for same in [true, false] {
        let range = if same { "tenant = ? AND conversation > ?" } else { "tenant > ? AND conversation >= ?" };
        let statement = format!(
            "SELECT tenant, conversation FROM conversations WHERE kind = ? AND bucket = ? AND {range} \
             ORDER BY tenant, conversation LIMIT ?"
        );
        let mut borrowed = Borrowed::from(&db.read, "read").await?;
        let reading = sqlx::query_as(AssertSqlSafe(statement))
            .bind(kind)
            .bind(bucket)
            .bind(tenant.clone())
            .bind(if same { name.clone() } else { Vec::new() })
            .bind((PAGE - found.len()) as u64)
            .fetch_all(borrowed.get()?);
        let rows: Vec<Id> = db::within(LIMIT, "read conversations", reading).await?;
        borrowed.give_back();
        found.extend(rows);
        if found.len() == PAGE {
            break;
        }
    }
    Ok(Some(found).filter(|found| !found.is_empty()))
}

async fn conversation(
    mover: &Mover,
    from: &Db,
    to: &Db,
    bucket: u32,
    id: &Id,
    sums: &mut Sums,
) -> Result<(), Trouble> {
    let table = shard::table(shard::of_bucket(bucket));
    let key = vec![Value::Bytes(Some(id.0.clone())), Value::Bytes(Some(id.1.clone()))];
    let place = "tenant = ? AND conversation = ?";
    // What an attempt before this one has brought need not be brought again, if it is the same.
    let mut head = standing(to, &table, id, i64::MAX).await?.2;
    if standing(from, &table, id, head).await? != standing(to, &table, id, head).await? {
        head = 0;
    }
    let again = "ON DUPLICATE KEY UPDATE seq = VALUES(seq)".to_owned();
    let source = Source { table: &table, columns: MESSAGE, place, key: key.clone(), by: "seq", tail: again };
    let (rows, last) = source.copy(mover, from, to, Value::Number(Some(head))).await?;
    if let Value::Number(Some(last)) = last {
        head = last;
    }
    sums.rows += rows;
    let nobody = Value::Bytes(Some(Vec::new()));
    for (table, columns, by, first) in [
        ("members", MEMBER, "user", nobody.clone()),
        ("tombstones", TOMBSTONE, "seq", Value::Number(Some(-1))),
        ("conversations", CONVERSATION, "conversation", nobody),
    ] {
        let source = Source { table, columns, place, key: key.clone(), by, tail: overwriting(columns) };
        let (count, _) = source.copy(mover, from, to, first).await?;
        if table == "members" {
            sums.members += count;
            cursors(mover, from, to, &key).await?;
        }
    }
    sums.conversations += 1;
    let (here, there) = (standing(from, &table, id, head).await?, standing(to, &table, id, head).await?);
    if here != there {
        let name = (String::from_utf8_lossy(&id.0), String::from_utf8_lossy(&id.1));
        return Err(Trouble::Different(format!(
            "{} {} up to seq {head}: (rows, first, last) are {here:?} on {} and {there:?} on {}",
            name.0, name.1, from.name, to.name
        )));
    }
    Ok(())
}

/// (rows, first, last) of a conversation up to a seq.
async fn standing(db: &Db, table: &str, id: &Id, up_to: i64) -> Result<(i64, i64, i64), sqlx::Error> {
    let statement = format!(
        "SELECT COUNT(*), CAST(COALESCE(MIN(seq), 0) AS SIGNED), CAST(COALESCE(MAX(seq), 0) AS SIGNED) FROM {table} \
         WHERE tenant = ? AND conversation = ? AND seq <= ?"
    );
    let mut borrowed = Borrowed::from(&db.read, "read").await?;
    let counting = sqlx::query_as(AssertSqlSafe(statement))
        .bind(&id.0[..])
        .bind(&id.1[..])
        .bind(up_to)
        .fetch_one(borrowed.get()?);
    let found = db::within(LIMIT * 6, "count rows", counting).await?;
    borrowed.give_back();
    Ok(found)
}

/// Of all members, by the index that cursors have.
async fn cursors(mover: &Mover, from: &Db, to: &Db, key: &Values) -> Result<(), Trouble> {
    const MAXIMA: &str = "ON DUPLICATE KEY UPDATE read_seq = GREATEST(read_seq, VALUES(read_seq)), \
         read_n = GREATEST(read_n, VALUES(read_n)), delivered_seq = GREATEST(delivered_seq, VALUES(delivered_seq))";
    let list: Vec<String> = CURSOR.iter().map(|column| format!("c.{column}")).collect();
    let statement = format!(
        "SELECT {} FROM members m JOIN cursors c ON c.tenant = m.tenant AND c.user = m.user AND c.conversation = m.conversation \
         WHERE m.tenant = ? AND m.conversation = ? AND m.user > ? ORDER BY m.user LIMIT {PAGE}",
        list.join(",")
    );
    let source = Source {
        table: "cursors",
        columns: CURSOR,
        place: "",
        key: Vec::new(),
        by: "user",
        tail: MAXIMA.to_owned(),
    };
    let mut after = Value::Bytes(Some(Vec::new()));
    loop {
        mover.check_stop()?;
        let binds: Values = key.iter().cloned().chain([after]).collect();
        let rows = read(from, &statement, CURSOR, &binds).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last[1].clone();
        put(mover, to, &source, &rows).await?;
    }
}

async fn read(
    db: &Db,
    statement: &str,
    columns: &[&str],
    binds: &Values,
) -> Result<Vec<Values>, sqlx::Error> {
    let mut borrowed = Borrowed::from(&db.read, "read").await?;
    let query = binds.iter().fold(sqlx::query(AssertSqlSafe(statement.to_owned())), bind);
    let rows = db::within(LIMIT, "read rows", query.fetch_all(borrowed.get()?)).await?;
    borrowed.give_back();
    let values = |row: &MySqlRow| {
        let value = |(index, column): (usize, &&str)| {
            Ok(if is_bytes(column) {
                Value::Bytes(row.try_get_unchecked(index)?)
            } else {
                Value::Number(row.try_get_unchecked(index)?)
            })
        };
        columns.iter().enumerate().map(value).collect()
    };
    rows.iter().map(values).collect()
}

fn overwriting(columns: &[&str]) -> String {
    let set: Vec<_> = columns.iter().map(|column| format!("{column} = VALUES({column})")).collect();
    format!("ON DUPLICATE KEY UPDATE {}", set.join(","))
}

fn is_bytes(column: &str) -> bool {
    const BYTES: [&str; 14] = [
        "tenant",
        "conversation",
        "sender",
        "device",
        "client_mid",
        "content_hash",
        "record",
        "user",
        "topic",
        "seq_text",
        "error",
        "payload",
        "created_at",
        "replayed_at",
    ];
    BYTES.contains(&column)
}

/// Numbers come as one type, times as their text.
fn read_as(column: &str) -> String {
    match column {
        "created_at" | "replayed_at" => format!("CAST({column} AS CHAR)"),
        _ if is_bytes(column) => column.to_owned(),
        _ => format!("CAST({column} AS SIGNED)"),
    }
}

async fn put(mover: &Mover, to: &Db, source: &Source<'_>, mut rows: &[Values]) -> Result<(), Trouble> {
    while !rows.is_empty() {
        let sizes = rows.iter().map(|row| row.iter().map(Value::weight).sum());
        let (now, rest) = rows.split_at(window::fitting(sizes, rows.len()));
        rows = rest;
        let writing = async |connection: &mut MySqlConnection| {
            insert(connection, source.table, source.columns, &source.tail, now, |query, row| {
                row.iter().fold(query, bind)
            })
            .await
        };
        under_lease(mover, to, writing).await?;
    }
    Ok(())
}

/// A transaction that happens only while the lease is this process's.
pub(super) async fn under_lease(
    mover: &Mover,
    db: &Db,
    work: impl AsyncFnOnce(&mut MySqlConnection) -> Result<(), sqlx::Error>,
) -> Result<(), Trouble> {
    let mut borrowed = Borrowed::from(&db.write, "write").await?;
    let connection = borrowed.get()?;
    let transaction = async {
        connection.execute("START TRANSACTION").await?;
        let epoch: Option<i64> = sqlx::query_scalar(
            "SELECT lease_epoch FROM partition_offsets WHERE topic = ? AND `partition` = ? LOCK IN SHARE MODE",
        )
        .bind(mover.partition.topic.as_bytes())
        .bind(mover.partition.partition)
        .fetch_optional(&mut *connection)
        .await?;
        if epoch != Some(mover.lease_epoch) {
            connection.execute("ROLLBACK").await?;
            return Ok(false);
        }
        work(&mut *connection).await?;
        connection.execute("COMMIT").await?;
        Ok(true)
    };
    // An error leaves the connection closed, and with it the transaction.
    let ours = db::within(LIMIT, "move rows", transaction).await?;
    borrowed.give_back();
    if ours { Ok(()) } else { Err(Trouble::Fenced) }
}

/// For people.
async fn progress(mover: &Mover, bucket: u32, rows: u64) -> Result<(), sqlx::Error> {
    let mut borrowed = Borrowed::from(&mover.persister.db.control, "control").await?;
    let telling = sqlx::query(
        "UPDATE placements SET rows_moved = ?, moved_up_to = ? WHERE topic = ? AND `partition` = ?",
    )
    .bind(rows)
    .bind(bucket)
    .bind(mover.partition.topic.as_bytes())
    .bind(mover.partition.partition)
    .execute(borrowed.get()?);
    db::within(LIMIT, "tell the progress", telling).await?;
    borrowed.give_back();
    Ok(())
}
