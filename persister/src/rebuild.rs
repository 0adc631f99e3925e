//! What MySQL has of a partition, page by page, for a Redis view that has nothing stored (R-SEQ-6, R-SEQ-9). Each page is one
//! snapshot and says its position; the asker replays the log from there, so pages need not be of one moment.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lapwing_links::nats::{Message, Nats, SubscriptionOptions};
use lapwing_model::{Code, ConversationKey, Kind, PartitionId, Position, Refusal, trace};
use lapwing_persister_core::{Placement, shard, side::CURSOR_TOPIC};
use lapwing_proto::{
    Message as _,
    bus::{RebuildAsk, RebuildMember, RebuildPage, RebuildPlace, RebuildRow},
};
use lapwing_runtime::{OnError, metrics::rpc};
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};
use tokio::sync::Semaphore;

use crate::{
    db::{self, Borrowed},
    history::GROUP,
    persister::Persister,
    places::moved_away,
    write,
};

mod merge;

pub(crate) const SUBJECT: &str = "lw.p.rebuild";
/// Beside history, which users wait for, a rebuild gets few connections.
const AT_ONCE: usize = 2;
const TIMEOUT: Duration = Duration::from_secs(10);
/// Conversations and members of a page, about.
const CONVERSATIONS: usize = 200;
const MEMBERS: usize = 2000;
/// Members that left have rows, too, but are not counted.
const MEMBERS_READ: usize = 6000;

pub(crate) async fn run(persister: Arc<Persister>, nats: Nats) -> anyhow::Result<()> {
    let options = SubscriptionOptions::named("rebuild").items(256).bytes(1 << 20);
    let mut requests = nats.queue_subscribe(SUBJECT, GROUP, options).await?;
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(request) = requests.next().await {
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            rpc("rebuild").done("busy");
            refuse(&request, Code::Busy, "other rebuilds are being read; ask again").await;
            continue;
        };
        let reading = persister.clone();
        persister.context.tasks.spawn("rebuild", OnError::Log, async move {
            answer(&reading, &request).await;
            drop(permit);
        });
    }
    Ok(())
}

async fn refuse(request: &Message, code: Code, why: &str) {
    let error = Refusal::new(code, why).to_wire(trace::trace_id_of(request.traceparent()));
    respond(request, &RebuildPage { error: Some(error), ..RebuildPage::default() }).await;
}

async fn respond(request: &Message, page: &RebuildPage) {
    if let Err(error) = request.respond(Bytes::from(page.encode_to_vec())).await {
        tracing::debug!("rebuild answer not sent: {error}");
    }
}

async fn answer(persister: &Persister, request: &Message) {
    let timer = rpc("rebuild");
    let Ok(asked) = RebuildAsk::decode(request.payload.clone()) else {
        timer.done("invalid");
        return refuse(request, Code::Invalid, "no RebuildAsk").await;
    };
    match db::within(TIMEOUT, "rebuild", read(persister, &asked)).await {
        Ok(page) => {
            timer.done("ok");
            respond(request, &page).await;
        }
        Err(error) => {
            timer.done("error");
            refuse(request, Code::NotReady, &format!("MySQL: {error}")).await;
        }
    }
}

async fn read(persister: &Persister, asked: &RebuildAsk) -> Result<RebuildPage, sqlx::Error> {
    let placement = persister.places.current();
    if let Some(page) = spread(persister, &placement, asked, true).await? {
        return Ok(page);
    }
    let placement = persister.look_up_places().await?;
    spread(persister, &placement, asked, false).await?.ok_or(sqlx::Error::RowNotFound)
}

/// A page of all instances that have rows of the partition. None: it has been moved away from where it was thought to be.
async fn spread(
    persister: &Persister,
    placement: &Placement,
    asked: &RebuildAsk,
    careful: bool,
) -> Result<Option<RebuildPage>, sqlx::Error> {
    let id: PartitionId = asked.partition.as_ref().map(Into::into).ok_or(sqlx::Error::RowNotFound)?;
    let middle = asked.after.as_ref().filter(|place| !place.user.is_empty());
    let only = middle.and_then(|place| {
        placement.of(&ConversationKey::new(place.tenant.as_str(), place.conversation.as_str()))
    });
    let mut pages = Vec::new();
    for instance in placement.read_from(&id) {
        let mut borrowed = Borrowed::from(&persister.dbs[instance].read, "read").await?;
        let connection = borrowed.get()?;
        connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await?;
        let moved = careful && placement.is_home(&id, instance) && moved_away(connection, &id).await?;
        let position_only =
            asked.position_only || only.as_ref().is_some_and(|place| place.instance != instance);
        let here = RebuildAsk { position_only, ..asked.clone() };
        let page = if moved { RebuildPage::default() } else { page(connection, &here).await? };
        connection.execute("COMMIT").await?;
        borrowed.give_back();
        if moved {
            return Ok(None);
        }
        pages.push((instance, page));
    }
    Ok(merge::pages(placement, pages))
}

async fn page(connection: &mut MySqlConnection, asked: &RebuildAsk) -> Result<RebuildPage, sqlx::Error> {
    let id: PartitionId = asked.partition.as_ref().map(Into::into).ok_or(sqlx::Error::RowNotFound)?;
    let (persisted, _) = write::position(connection, &id).await?;
    let cursors = PartitionId::new(CURSOR_TOPIC, id.partition);
    let (cursor_at, _) = write::position(connection, &cursors).await?;
    let mut page = RebuildPage {
        persisted: Some(persisted.into()),
        window: window(connection, &id, asked.window_from_ms).await?.map(Into::into),
        cursor_offset: cursor_at.offset,
        ..RebuildPage::default()
    };
    if asked.position_only {
        return Ok(page);
    }
    if let Some(place) = asked.after.as_ref().filter(|place| !place.user.is_empty()) {
        let mut row = row_at(place);
        row.further = true;
        row.members = members_of(connection, place, asked.users).await?;
        page.next = Some(behind(&row));
        page.rows = vec![row];
        return Ok(page);
    }
    let (mut rows, next) = conversations(connection, &id, asked).await?;
    page.next = next;
    if !members(connection, &mut rows, asked.users).await? {
        // So many have left that they do not fit: the first conversation alone, in parts.
        rows.truncate(1);
        if let Some(row) = rows.first_mut() {
            row.members = members_of(connection, &place_of(row), asked.users).await?;
            page.next = Some(behind(row));
        }
    }
    page.rows = rows;
    Ok(page)
}

async fn window(
    connection: &mut MySqlConnection,
    id: &PartitionId,
    from_ms: u64,
) -> Result<Option<Position>, sqlx::Error> {
    let found: Option<(i64, i64, i64)> = sqlx::query_as(
        "SELECT next_offset, claim_epoch, last_index FROM partition_times \
         WHERE topic = ? AND `partition` = ? AND at_ms <= ? ORDER BY at_ms DESC LIMIT 1",
    )
    .bind(id.topic.as_bytes())
    .bind(id.partition)
    .bind(from_ms)
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|(offset, epoch, index)| Position {
        offset: offset.max(0) as u64,
        epoch,
        index: index.max(0) as u64,
    }))
}

fn place_of(row: &RebuildRow) -> RebuildPlace {
    RebuildPlace {
        bucket: row.bucket,
        tenant: row.tenant.clone(),
        conversation: row.conversation.clone(),
        user: String::new(),
    }
}

fn row_at(place: &RebuildPlace) -> RebuildRow {
    RebuildRow {
        bucket: place.bucket,
        tenant: place.tenant.clone(),
        conversation: place.conversation.clone(),
        ..RebuildRow::default()
    }
}

/// Where the next page begins: in the middle of the members while there may be more.
fn behind(row: &RebuildRow) -> RebuildPlace {
    let last = row.members.last().filter(|_| row.members.len() >= MEMBERS);
    RebuildPlace { user: last.map_or(String::new(), |member| member.user.clone()), ..place_of(row) }
}

type Header = (Vec<u8>, Vec<u8>, i64, i64, u32, u8);

/// The next conversations in order of bucket, tenant and name, and from where the page after them goes on.
async fn conversations(
    connection: &mut MySqlConnection,
    id: &PartitionId,
    asked: &RebuildAsk,
) -> Result<(Vec<RebuildRow>, Option<RebuildPlace>), sqlx::Error> {
    let kind = match Kind::of_topic(&id.topic) {
        Some(Kind::P2p) => 1,
        Some(Kind::Group) => 2,
        Some(Kind::System) => 3,
        None => return Ok((Vec::new(), None)),
    };
    let first = asked.after.as_ref().map_or(asked.first_bucket, |place| place.bucket);
    let (mut rows, mut weight) = (Vec::new(), 0);
    for bucket in first..=asked.last_bucket {
        let after = asked.after.as_ref().filter(|place| place.bucket == bucket);
        for (bucket, header) in in_bucket(connection, kind, bucket, after).await? {
            let row = row_of(bucket, header);
            weight += 1 + row.member_count as usize;
            if !rows.is_empty() && (rows.len() >= CONVERSATIONS || weight > MEMBERS) {
                return Ok((rows.clone(), rows.last().map(place_of)));
            }
            rows.push(row);
        }
        // A full answer of one bucket is not its end.
        if rows.len() >= CONVERSATIONS {
            let next = rows.last().map(place_of);
            return Ok((rows, next));
        }
    }
    Ok((rows, None))
}

fn row_of(bucket: u32, (tenant, conversation, head, n, member_count, history): Header) -> RebuildRow {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    RebuildRow {
        tenant: text(tenant),
        conversation: text(conversation),
        bucket,
        head: head.max(0) as u64,
        n: n.max(0) as u64,
        member_count,
        history_for_new_members: history != 0,
        ..RebuildRow::default()
    }
}

/// Two ranges of the index, since one comparison of both columns would read the whole bucket.
async fn in_bucket(
    connection: &mut MySqlConnection,
    kind: u8,
    bucket: u32,
    after: Option<&RebuildPlace>,
) -> Result<Vec<(u32, Header)>, sqlx::Error> {
    const COLUMNS: &str = "SELECT tenant, conversation, head, n, member_count, history_for_new_members \
         FROM conversations WHERE kind = ? AND bucket = ?";
    let (tenant, conversation) =
        after.map_or(("", ""), |place| (place.tenant.as_str(), place.conversation.as_str()));
    let mut found: Vec<Header> = Vec::new();
    if after.is_some() {
        let statement =
            format!("{COLUMNS} AND tenant = ? AND conversation > ? ORDER BY tenant, conversation LIMIT ?");
        let rest: Vec<Header> = sqlx::query_as(AssertSqlSafe(statement))
            .bind(kind)
            .bind(bucket)
            .bind(tenant.as_bytes())
            .bind(conversation.as_bytes())
            .bind(CONVERSATIONS as u64)
            .fetch_all(&mut *connection)
            .await?;
        found.extend(rest);
    }
    if found.len() < CONVERSATIONS {
        let statement = format!("{COLUMNS} AND tenant > ? ORDER BY tenant, conversation LIMIT ?");
        let others: Vec<Header> = sqlx::query_as(AssertSqlSafe(statement))
            .bind(kind)
            .bind(bucket)
            .bind(tenant.as_bytes())
            .bind((CONVERSATIONS - found.len()) as u64)
            .fetch_all(connection)
            .await?;
        found.extend(others);
    }
    Ok(found.into_iter().map(|header| (bucket, header)).collect())
}

type Member = (Vec<u8>, Vec<u8>, Vec<u8>, i64, i64, Option<i64>, Option<i64>, Option<i64>);

fn member_columns(users: bool) -> &'static str {
    if users {
        "SELECT m.tenant, m.conversation, m.user, m.from_seq, m.to_seq, c.read_seq, c.read_n, c.delivered_seq FROM members m \
         LEFT JOIN cursors c ON c.tenant = m.tenant AND c.user = m.user AND c.conversation = m.conversation"
    } else {
        "SELECT m.tenant, m.conversation, m.user, m.from_seq, m.to_seq, NULL, NULL, NULL FROM members m"
    }
}

fn member_of((_, _, user, from, to, read_seq, read_n, delivered): Member) -> RebuildMember {
    let number = |value: i64| value.max(0) as u64;
    let maybe = |value: Option<i64>| value.map_or(0, number);
    RebuildMember {
        user: String::from_utf8_lossy(&user).into_owned(),
        from_seq: number(from),
        to_seq: number(to),
        read_seq: maybe(read_seq),
        read_n: maybe(read_n),
        delivered_seq: maybe(delivered),
    }
}

/// One conversation's members behind a user, in parts.
async fn members_of(
    connection: &mut MySqlConnection,
    place: &RebuildPlace,
    users: bool,
) -> Result<Vec<RebuildMember>, sqlx::Error> {
    let statement = format!(
        "{} WHERE m.tenant = ? AND m.conversation = ? AND m.user > ? ORDER BY m.user LIMIT ?",
        member_columns(users)
    );
    let found: Vec<Member> = sqlx::query_as(AssertSqlSafe(statement))
        .bind(place.tenant.as_bytes())
        .bind(place.conversation.as_bytes())
        .bind(place.user.as_bytes())
        .bind(MEMBERS as u64)
        .fetch_all(connection)
        .await?;
    Ok(found.into_iter().map(member_of).collect())
}

/// Everybody of all rows; false: they are too many.
async fn members(
    connection: &mut MySqlConnection,
    rows: &mut [RebuildRow],
    users: bool,
) -> Result<bool, sqlx::Error> {
    let mut rest = 0..rows.len();
    let mut read = 0;
    for size in shard::chunks(rows.len(), 2) {
        let chunk = rest.start..rest.start + size;
        rest.start = chunk.end;
        let places = vec!["(?,?)"; size].join(",");
        let statement = format!(
            "{} WHERE (m.tenant, m.conversation) IN ({places}) ORDER BY m.tenant, m.conversation, m.user LIMIT ?",
            member_columns(users)
        );
        let mut query = sqlx::query_as(AssertSqlSafe(statement));
        for row in &rows[chunk.clone()] {
            query = query.bind(row.tenant.as_bytes()).bind(row.conversation.as_bytes());
        }
        let found: Vec<Member> = query.bind((MEMBERS_READ - read) as u64).fetch_all(&mut *connection).await?;
        read += found.len();
        if read >= MEMBERS_READ {
            return Ok(false);
        }
        for member in found {
            let same = |row: &&mut RebuildRow| {
                row.tenant.as_bytes() == member.0 && row.conversation.as_bytes() == member.1
            };
            if let Some(row) = rows[chunk.clone()].iter_mut().find(same) {
                row.members.push(member_of(member));
            }
        }
    }
    Ok(true)
}
