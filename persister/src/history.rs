//! Deep history: pages of a conversation from MySQL, with their own pool and bounded concurrency (R-PST-8). Who may see which
//! rows is decided in the snapshot that gives the rows (R-PST-9).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use lapwing_links::nats::{Message, Nats, SubscriptionOptions};
use lapwing_model::{Code, ConversationKey, Member, PartitionId, Refusal, event, trace};
use lapwing_persister_core::window;
use lapwing_proto::{
    Message as _,
    bus::{HistoryRows, PersisterHistory},
    record::Record,
};
use lapwing_runtime::{OnError, metrics::rpc, telemetry};
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};
use tokio::sync::Semaphore;
use tracing::{Instrument as _, debug_span};

use crate::{
    db::{self, Borrowed, Db},
    persister::Persister,
    places::moved_away,
};

pub(crate) const SUBJECT: &str = "lw.p.history";
pub(crate) const GROUP: &str = "persisters";
const MAX_LIMIT: u32 = 500;

struct Reads {
    persister: Arc<Persister>,
    permits: Arc<Semaphore>,
    accepted: AtomicUsize,
}

pub(crate) async fn run(persister: Arc<Persister>, nats: Nats) -> anyhow::Result<()> {
    let options = SubscriptionOptions::named("history").items(4096).bytes(8 << 20);
    let mut requests = nats.queue_subscribe(SUBJECT, GROUP, options).await?;
    let permits = Arc::new(Semaphore::new(persister.config.read_pool as usize));
    let most = persister.config.read_pool as usize + persister.config.history_waiting;
    let reads = Arc::new(Reads { permits, accepted: AtomicUsize::new(0), persister });
    while let Some(request) = requests.next().await {
        if reads.accepted.load(Ordering::Relaxed) >= most {
            rpc("history").done("busy");
            refuse(&request, Code::Busy, "too many history requests wait for MySQL").await;
            continue;
        }
        reads.accepted.fetch_add(1, Ordering::Relaxed);
        let reading = reads.clone();
        reads.persister.context.tasks.spawn("history", OnError::Log, async move {
            reading.answer(&request).await;
            reading.accepted.fetch_sub(1, Ordering::Relaxed);
        });
    }
    Ok(())
}

async fn refuse(request: &Message, code: Code, why: &str) {
    let error = Refusal::new(code, why).to_wire(trace::trace_id_of(request.traceparent()));
    respond(request, &HistoryRows { error: Some(error), ..HistoryRows::default() }).await;
}

async fn respond(request: &Message, rows: &HistoryRows) {
    if let Err(error) = request.respond(Bytes::from(rows.encode_to_vec())).await {
        tracing::debug!("history answer not sent: {error}");
    }
}

impl Reads {
    async fn answer(&self, request: &Message) {
        let timer = rpc("history");
        let asked = match PersisterHistory::decode(request.payload.clone()) {
            Ok(asked) => asked,
            Err(error) => {
                timer.done("invalid");
                return refuse(request, Code::Invalid, &format!("no PersisterHistory: {error}")).await;
            }
        };
        let span = debug_span!("history", tenant = asked.tenant, conversation = asked.conversation);
        let span = telemetry::span_from(request.traceparent(), span);
        let limit = Duration::from_millis(self.persister.config.history_timeout_ms);
        let reading = async {
            let _permit = self.permits.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
            read(&self.persister, &asked).await
        };
        match db::within(limit, "history", reading).instrument(span).await {
            Ok(rows) => {
                timer.done("ok");
                respond(request, &rows).await;
            }
            Err(sqlx::Error::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => {
                timer.done("timeout");
                refuse(request, Code::Busy, &error.to_string()).await;
            }
            Err(error) => {
                timer.done("error");
                refuse(request, Code::NotReady, &format!("MySQL: {error}")).await;
            }
        }
    }
}

/// From where the conversation is; if it has been moved meanwhile, from there.
async fn read(persister: &Persister, asked: &PersisterHistory) -> Result<HistoryRows, sqlx::Error> {
    let key = ConversationKey::new(asked.tenant.as_str(), asked.conversation.as_str());
    let mut placement = persister.places.current();
    let Some(partition) = PartitionId::of(&key, placement.partitions) else {
        return Ok(HistoryRows::default());
    };
    let mut known = Some(partition).filter(|_| placement.own(&key.tenant).is_none());
    loop {
        let Some(place) = placement.of(&key) else { return Ok(HistoryRows::default()) };
        let db = &persister.dbs[place.instance];
        if let Some(rows) = snapshot(db, asked, &place.table, known.as_ref()).await? {
            return Ok(rows);
        }
        placement = persister.look_up_places().await?;
        known = None;
    }
}

/// None: the rows of the partition have been moved away from here.
async fn snapshot(
    db: &Db,
    asked: &PersisterHistory,
    table: &str,
    partition: Option<&PartitionId>,
) -> Result<Option<HistoryRows>, sqlx::Error> {
    let mut borrowed = Borrowed::from(&db.read, "read").await?;
    let connection = borrowed.get()?;
    connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await?;
    let moved = match partition {
        Some(partition) => moved_away(connection, partition).await?,
        None => false,
    };
    let rows = if moved { None } else { Some(page(connection, asked, table).await?) };
    connection.execute("COMMIT").await?;
    borrowed.give_back();
    Ok(rows)
}

async fn page(
    connection: &mut MySqlConnection,
    asked: &PersisterHistory,
    table: &str,
) -> Result<HistoryRows, sqlx::Error> {
    let Some(position) = position(connection, asked).await? else { return Ok(HistoryRows::default()) };
    let (head, n, member) = position;
    let mut rows = HistoryRows {
        found: true,
        member: member.is_some() || asked.user.is_empty(),
        head,
        n,
        persisted_seq: head,
        from_seq: member.map_or(0, |member| member.from_seq),
        to_seq: member.map_or(0, |member| member.to_seq),
        ..HistoryRows::default()
    };
    if asked.limit == 0 || !rows.member {
        return Ok(rows);
    }
    let Some((first, last)) = window::visible(asked.from, asked.to, head, member.as_ref()) else {
        return Ok(rows);
    };
    let tables = [table.to_owned(), "tombstones".to_owned()];
    let mut sizes: Vec<(u64, usize)> = Vec::new();
    let mut tombstones: Vec<u64> = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        let found = sizes_in(connection, table, asked, first, last).await?;
        if index == 1 {
            // A replayed one has its row again, which counts.
            tombstones = found.iter().map(|f| f.0).filter(|seq| !sizes.iter().any(|s| s.0 == *seq)).collect();
        }
        sizes.extend(found.into_iter().filter(|(seq, _)| index == 0 || tombstones.contains(seq)));
    }
    sizes.sort_unstable_by_key(|(seq, _)| *seq);
    if asked.newest {
        sizes.reverse();
    }
    let fits = window::fitting(sizes.iter().map(|(_, size)| *size), asked.limit.min(MAX_LIMIT) as usize);
    sizes.truncate(fits);
    let seqs = || sizes.iter().map(|(seq, _)| *seq);
    let (Some(first), Some(last)) = (seqs().min(), seqs().max()) else { return Ok(rows) };
    tombstones.retain(|seq| (first..=last).contains(seq));
    let mut records = records_in(connection, &tables[0], asked, first, last).await?;
    if !tombstones.is_empty() {
        let buried = records_in(connection, &tables[1], asked, first, last).await?;
        records.extend(buried.into_iter().filter(|record| tombstones.contains(&record.seq)));
        records.sort_unstable_by_key(|record| record.seq);
    }
    rows.events = records.iter().filter_map(event::of_record).collect();
    tombstones.sort_unstable();
    rows.dead_lettered = tombstones;
    Ok(rows)
}

/// Head, n and the asking user's membership; None: no such conversation.
async fn position(
    connection: &mut MySqlConnection,
    asked: &PersisterHistory,
) -> Result<Option<(u64, u64, Option<Member>)>, sqlx::Error> {
    let found: Option<(i64, i64, Option<i64>, Option<i64>)> = sqlx::query_as(
        "SELECT c.head, c.n, m.from_seq, m.to_seq FROM conversations c LEFT JOIN members m \
         ON m.tenant = c.tenant AND m.conversation = c.conversation AND m.user = ? \
         WHERE c.tenant = ? AND c.conversation = ?",
    )
    .bind(asked.user.as_bytes())
    .bind(asked.tenant.as_bytes())
    .bind(asked.conversation.as_bytes())
    .fetch_optional(connection)
    .await?;
    let number = |value: i64| value.max(0) as u64;
    Ok(found.map(|(head, n, from_seq, to_seq)| {
        let member = from_seq
            .zip(to_seq)
            .filter(|_| !asked.user.is_empty())
            .map(|(from_seq, to_seq)| Member { from_seq: number(from_seq), to_seq: number(to_seq) });
        (number(head), number(n), member)
    }))
}

/// Seqs and sizes first: 500 bodies of 512 KiB fit neither into memory nor into an answer.
async fn sizes_in(
    connection: &mut MySqlConnection,
    table: &str,
    asked: &PersisterHistory,
    first: u64,
    last: u64,
) -> Result<Vec<(u64, usize)>, sqlx::Error> {
    let order = if asked.newest { "DESC" } else { "ASC" };
    let statement = format!(
        "SELECT seq, CAST(LENGTH(record) AS SIGNED) FROM {table} WHERE tenant = ? AND conversation = ? \
         AND seq BETWEEN ? AND ? ORDER BY seq {order} LIMIT ?"
    );
    let rows: Vec<(i64, i64)> = sqlx::query_as(AssertSqlSafe(statement))
        .bind(asked.tenant.as_bytes())
        .bind(asked.conversation.as_bytes())
        .bind(first)
        .bind(last)
        .bind(asked.limit.min(MAX_LIMIT))
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|(seq, size)| (seq.max(0) as u64, size.max(0) as usize)).collect())
}

async fn records_in(
    connection: &mut MySqlConnection,
    table: &str,
    asked: &PersisterHistory,
    first: u64,
    last: u64,
) -> Result<Vec<Record>, sqlx::Error> {
    let statement = format!(
        "SELECT record FROM {table} WHERE tenant = ? AND conversation = ? AND seq BETWEEN ? AND ? ORDER BY seq"
    );
    let rows: Vec<Vec<u8>> = sqlx::query_scalar(AssertSqlSafe(statement))
        .bind(asked.tenant.as_bytes())
        .bind(asked.conversation.as_bytes())
        .bind(first)
        .bind(last)
        .fetch_all(connection)
        .await?;
    rows.into_iter()
        .map(|raw| Record::decode(&raw[..]).map_err(|error| sqlx::Error::Decode(Box::new(error))))
        .collect()
}
