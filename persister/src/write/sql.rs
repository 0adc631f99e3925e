//! The statements of a write transaction: multi-row, sorted by key, in chunks of few sizes.

use lapwing_model::{PartitionId, Position};
use lapwing_persister_core::{
    Plan, Row, Unreadable,
    plan::{Conversation, Cursor, Membership},
    shard,
};
use lapwing_proto::record::AuditRecord;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, mysql::MySqlArguments, query::Query};

type Prepared<'q> = Query<'q, MySql, MySqlArguments>;

/// `INSERT INTO into (columns) VALUES (?, …), … tail`, once per chunk of rows.
pub(crate) async fn insert<'q, T>(
    connection: &mut MySqlConnection,
    into: &str,
    columns: &[&str],
    tail: &str,
    rows: &'q [T],
    bind: impl Fn(Prepared<'q>, &'q T) -> Prepared<'q>,
) -> Result<(), sqlx::Error> {
    let one = format!("({})", vec!["?"; columns.len()].join(","));
    let mut rest = rows;
    for size in shard::chunks(rows.len(), columns.len()) {
        let (chunk, after) = rest.split_at(size);
        rest = after;
        let values = vec![one.as_str(); size].join(",");
        let statement = format!("INSERT INTO {into} ({}) VALUES {values} {tail}", columns.join(","));
        let query = chunk.iter().fold(sqlx::query(AssertSqlSafe(statement)), &bind);
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

const MESSAGE: [&str; 10] = [
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

async fn messages(
    connection: &mut MySqlConnection,
    table: &str,
    rows: &[&Row],
    again: bool,
) -> Result<(), sqlx::Error> {
    let tail = if again { "ON DUPLICATE KEY UPDATE seq = VALUES(seq)" } else { "" };
    insert(connection, table, &MESSAGE, tail, rows, |query, row| {
        let record = &row.record;
        query
            .bind(record.tenant.as_bytes())
            .bind(record.conversation.as_bytes())
            .bind(record.seq)
            .bind(record.n)
            .bind(record.sender.as_bytes())
            .bind(record.device.as_bytes())
            .bind(record.client_mid.as_bytes())
            .bind(&record.content_hash[..])
            .bind(record.sent_at_ms)
            .bind(&row.raw[..])
    })
    .await
}

/// Everything of a plan but its messages.
pub(crate) async fn state(connection: &mut MySqlConnection, plan: &Plan<'_>) -> Result<(), sqlx::Error> {
    conversations(connection, &plan.conversations).await?;
    members(connection, &plan.members).await?;
    cursors(connection, &plan.cursors).await?;
    audits(connection, &plan.audits).await
}

pub(crate) async fn plan(connection: &mut MySqlConnection, plan: &Plan<'_>) -> Result<(), sqlx::Error> {
    for (table, rows) in &plan.messages {
        messages(connection, table, rows, plan.again).await?;
    }
    state(connection, plan).await
}

type Conversations = [(lapwing_model::ConversationKey, Conversation)];

/// Columns that a batch says nothing of stay as they are, so there is one statement for each set of columns.
async fn conversations(connection: &mut MySqlConnection, all: &Conversations) -> Result<(), sqlx::Error> {
    const HEAD: &str = "head = GREATEST(head, VALUES(head)), n = GREATEST(n, VALUES(n))";
    const COUNT: &str = ", member_count = VALUES(member_count)";
    const HISTORY: &str = ", history_for_new_members = VALUES(history_for_new_members)";
    const CREATED: &str = ", created_at_ms = GREATEST(created_at_ms, VALUES(created_at_ms))";
    const COLUMNS: [&str; 9] = [
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
    for (count, history) in [(false, false), (true, true), (true, false), (false, true)] {
        let rows: Vec<_> = all
            .iter()
            .filter(|(_, c)| {
                (c.member_count.is_some(), c.history_for_new_members.is_some()) == (count, history)
            })
            .collect();
        let tail = format!(
            "ON DUPLICATE KEY UPDATE {HEAD}{}{}{CREATED}",
            if count { COUNT } else { "" },
            if history { HISTORY } else { "" }
        );
        insert(connection, "conversations", &COLUMNS, &tail, &rows, |query, (key, conversation)| {
            query
                .bind(key.tenant.as_bytes())
                .bind(key.conversation.as_bytes())
                .bind(conversation.kind)
                .bind(conversation.head)
                .bind(conversation.n)
                .bind(conversation.member_count.unwrap_or(0))
                .bind(conversation.history_for_new_members.unwrap_or(false))
                .bind(conversation.created_at_ms.unwrap_or(0))
                .bind(lapwing_model::bucket::bucket_of(key).unwrap_or_default())
        })
        .await?;
    }
    Ok(())
}

async fn members(connection: &mut MySqlConnection, all: &[Membership]) -> Result<(), sqlx::Error> {
    const COLUMNS: [&str; 5] = ["tenant", "conversation", "user", "from_seq", "to_seq"];
    const JOIN: &str = "ON DUPLICATE KEY UPDATE from_seq = VALUES(from_seq), to_seq = VALUES(to_seq)";
    const LEAVE: &str = "ON DUPLICATE KEY UPDATE to_seq = VALUES(to_seq)";
    for (tail, joins) in [(JOIN, true), (LEAVE, false)] {
        let rows: Vec<_> = all.iter().filter(|member| member.from_seq.is_some() == joins).collect();
        insert(connection, "members", &COLUMNS, tail, &rows, |query, member| {
            // An end without a beginning (its join was dead-lettered) shows nothing.
            let from_seq = member.from_seq.unwrap_or(member.to_seq.saturating_add(1));
            query
                .bind(member.key.tenant.as_bytes())
                .bind(member.key.conversation.as_bytes())
                .bind(member.user.as_bytes())
                .bind(from_seq)
                .bind(member.to_seq)
        })
        .await?;
    }
    Ok(())
}

async fn cursors(connection: &mut MySqlConnection, all: &[Cursor]) -> Result<(), sqlx::Error> {
    const COLUMNS: [&str; 6] = ["tenant", "user", "conversation", "read_seq", "read_n", "delivered_seq"];
    const MAXIMA: &str = "ON DUPLICATE KEY UPDATE read_seq = GREATEST(read_seq, VALUES(read_seq)), \
         read_n = GREATEST(read_n, VALUES(read_n)), delivered_seq = GREATEST(delivered_seq, VALUES(delivered_seq))";
    insert(connection, "cursors", &COLUMNS, MAXIMA, all, |query, cursor| {
        query
            .bind(cursor.tenant.as_bytes())
            .bind(cursor.user.as_bytes())
            .bind(cursor.conversation.as_bytes())
            .bind(cursor.read_seq)
            .bind(cursor.read_n)
            .bind(cursor.delivered_seq)
    })
    .await
}

async fn audits(connection: &mut MySqlConnection, all: &[AuditRecord]) -> Result<(), sqlx::Error> {
    const COLUMNS: [&str; 9] = [
        "session",
        "tenant",
        "user",
        "device",
        "node",
        "remote",
        "opened_at_ms",
        "closed_at_ms",
        "close_code",
    ];
    // The code first: it looks at the stored closed_at_ms, which the next assignment changes.
    const CLOSED: &str = "ON DUPLICATE KEY UPDATE \
         close_code = IF(VALUES(closed_at_ms) > closed_at_ms, VALUES(close_code), close_code), \
         closed_at_ms = GREATEST(closed_at_ms, VALUES(closed_at_ms))";
    insert(connection, "session_audit", &COLUMNS, CLOSED, all, |query, audit| {
        query
            .bind(audit.session.as_bytes())
            .bind(audit.tenant.as_bytes())
            .bind(audit.user.as_bytes())
            .bind(audit.device.as_bytes())
            .bind(audit.node.as_bytes())
            .bind(audit.remote.as_bytes())
            .bind(audit.opened_at_ms)
            .bind(audit.closed_at_ms)
            .bind(audit.close_code)
    })
    .await
}

/// Why something is a dead letter.
#[derive(Debug, Clone)]
pub(crate) struct Dead {
    pub(crate) code: u16,
    pub(crate) error: String,
}

pub(crate) async fn dead_letter(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
    row: Option<&Row>,
    unreadable: &Unreadable,
    dead: &Dead,
) -> Result<(), sqlx::Error> {
    let cut = |text: &str, at: usize| text.as_bytes()[..text.len().min(at)].to_vec();
    let (tenant, conversation, seq, state_event) = row.map_or_else(Default::default, |row| {
        let record = &row.record;
        let state = !record.countable;
        (cut(&record.tenant, 255), cut(&record.conversation, 255), record.seq.to_string(), state)
    });
    sqlx::query(
        "INSERT INTO dead_letters (topic, `partition`, record_offset, tenant, conversation, seq_text, error_code, error, \
         state_event, payload, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NOW(3)) \
         ON DUPLICATE KEY UPDATE error_code = VALUES(error_code), error = VALUES(error)",
    )
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(unreadable.offset)
    .bind(tenant)
    .bind(conversation)
    .bind(seq)
    .bind(dead.code)
    .bind(cut(&dead.error, 1024))
    .bind(state_event)
    .bind(&unreadable.raw[..])
    .execute(connection)
    .await
    .map(|_| ())
}

/// Stands in the conversation where the dead letter should be, and moves its head.
pub(crate) async fn tombstone(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
    row: &Row,
) -> Result<(), sqlx::Error> {
    let record = &row.record;
    sqlx::query(
        "INSERT INTO tombstones (tenant, conversation, seq, topic, `partition`, record_offset, record) \
         VALUES (?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE record_offset = VALUES(record_offset)",
    )
    .bind(record.tenant.as_bytes())
    .bind(record.conversation.as_bytes())
    .bind(record.seq)
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(row.offset)
    .bind(&row.raw[..])
    .execute(&mut *connection)
    .await?;
    let head = Conversation {
        kind: lapwing_persister_core::plan::kind_number(&record.conversation),
        head: record.seq,
        n: record.n,
        ..Conversation::default()
    };
    conversations(connection, &[(lapwing_model::record::key_of(record), head)]).await
}

/// The fence: false when this process no longer holds the lease, or somebody moved the position.
pub(crate) async fn advance(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
    lease_epoch: i64,
    from: Position,
    to: Position,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query(
        "UPDATE partition_offsets SET next_offset = ?, claim_epoch = ?, last_index = ? \
         WHERE topic = ? AND `partition` = ? AND lease_epoch = ? AND next_offset = ?",
    )
    .bind(to.offset)
    .bind(to.epoch)
    .bind(to.index)
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(lease_epoch)
    .bind(from.offset)
    .execute(connection)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Kept for rebuilds: where the position stood at what time, a day of it and the newest before that. Without the latter a partition
/// that was idle for a day would have no position that is older than the dedupe window.
pub(crate) async fn time_mark(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
    at: Position,
    now_ms: u64,
) -> Result<(), sqlx::Error> {
    const DAY_MS: u64 = 24 * 3600 * 1000;
    sqlx::query(
        "INSERT INTO partition_times (topic, `partition`, at_ms, next_offset, claim_epoch, last_index) \
         VALUES (?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE at_ms = at_ms",
    )
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(now_ms)
    .bind(at.offset)
    .bind(at.epoch)
    .bind(at.index)
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "DELETE FROM partition_times WHERE topic = ? AND `partition` = ? AND at_ms < (SELECT newest FROM \
         (SELECT MAX(at_ms) AS newest FROM partition_times WHERE topic = ? AND `partition` = ? AND at_ms < ?) AS older)",
    )
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .bind(now_ms.saturating_sub(DAY_MS))
    .execute(connection)
    .await
    .map(|_| ())
}

/// The stored position and the lease epoch under which it stands.
pub(crate) async fn position(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
) -> Result<(Position, i64), sqlx::Error> {
    stored(connection, partition).await?.ok_or(sqlx::Error::RowNotFound)
}

/// None: nothing of this partition has come to this instance.
pub(crate) async fn stored(
    connection: &mut MySqlConnection,
    partition: &PartitionId,
) -> Result<Option<(Position, i64)>, sqlx::Error> {
    let found: Option<(i64, i64, i64, i64)> = sqlx::query_as(
        "SELECT next_offset, claim_epoch, last_index, lease_epoch FROM partition_offsets WHERE topic = ? AND `partition` = ?",
    )
    .bind(partition.topic.as_bytes())
    .bind(partition.partition)
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|(offset, epoch, index, lease)| {
        (Position { offset: offset.max(0) as u64, epoch, index: index.max(0) as u64 }, lease)
    }))
}
