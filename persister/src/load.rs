//! What MySQL has of single conversations: cold loads of an owner whose view's Redis is away (R-ACK-5). One snapshot an answer,
//! each conversation with its partition's position; the asker judges whether that is far enough.

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use lapwing_links::nats::{Message, Nats, SubscriptionOptions};
use lapwing_model::{Code, ConversationKey, PartitionId, Position, Refusal, trace};
use lapwing_persister_core::{Placement, placement::AUTHORITY, shard};
use lapwing_proto::{
    Message as _,
    bus::{LoadAsk, LoadAskItem, LoadReply, LoadReplyItem, RebuildMember, RebuildRow},
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

const SUBJECT: &str = "lw.p.load";
/// Publishes wait for it, so it may take half of the connections for reads.
const AT_ONCE: usize = 4;
/// Below the time that an owner waits.
const TIMEOUT: Duration = Duration::from_millis(1500);

pub(crate) async fn run(persister: Arc<Persister>, nats: Nats) -> anyhow::Result<()> {
    let options = SubscriptionOptions::named("load").items(256).bytes(8 << 20);
    let mut requests = nats.queue_subscribe(SUBJECT, GROUP, options).await?;
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(request) = requests.next().await {
        let Ok(permit) = permits.clone().acquire_owned().await else { return Ok(()) };
        let reading = persister.clone();
        persister.context.tasks.spawn("load", OnError::Log, async move {
            answer(&reading, &request).await;
            drop(permit);
        });
    }
    Ok(())
}

async fn answer(persister: &Persister, request: &Message) {
    let timer = rpc("load");
    let refused = |code, why: &str| {
        let error = Refusal::new(code, why).to_wire(trace::trace_id_of(request.traceparent()));
        LoadReply { error: Some(error), ..LoadReply::default() }
    };
    let (result, reply) = match LoadAsk::decode(request.payload.clone()) {
        Err(_) => ("invalid", refused(Code::Invalid, "no LoadAsk")),
        Ok(asked) => match db::within(TIMEOUT, "load", read(persister, &asked)).await {
            Ok(items) => ("ok", LoadReply { items, error: None }),
            Err(error) => ("error", refused(Code::NotReady, &format!("MySQL: {error}"))),
        },
    };
    timer.done(result);
    if let Err(error) = request.respond(Bytes::from(reply.encode_to_vec())).await {
        tracing::debug!("load answer not sent: {error}");
    }
}

async fn read(persister: &Persister, asked: &LoadAsk) -> Result<Vec<LoadReplyItem>, sqlx::Error> {
    let placement = persister.places.current();
    if let Some(items) = spread(persister, &placement, &asked.items, true).await? {
        return Ok(items);
    }
    let placement = persister.look_up_places().await?;
    Ok(spread(persister, &placement, &asked.items, false).await?.unwrap_or_default())
}

/// Each item from the instance that has it. None: some have been moved away from there.
async fn spread(
    persister: &Persister,
    placement: &Placement,
    asked: &[LoadAskItem],
    careful: bool,
) -> Result<Option<Vec<LoadReplyItem>>, sqlx::Error> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, item) in asked.iter().enumerate() {
        let key = ConversationKey::new(item.tenant.as_str(), item.conversation.as_str());
        let instance = placement.of(&key).map_or(AUTHORITY, |place| place.instance);
        groups.entry(instance).or_default().push(index);
    }
    let mut answers = vec![LoadReplyItem::default(); asked.len()];
    for (instance, indexes) in groups {
        let here: Vec<LoadAskItem> = indexes.iter().map(|index| asked[*index].clone()).collect();
        let mut borrowed = Borrowed::from(&persister.dbs[instance].read, "read").await?;
        let connection = borrowed.get()?;
        connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await?;
        let moved = careful && any_moved(connection, placement, &here, instance).await?;
        let found = if moved { Vec::new() } else { items(connection, &here).await? };
        connection.execute("COMMIT").await?;
        borrowed.give_back();
        if moved {
            return Ok(None);
        }
        for (index, answer) in indexes.into_iter().zip(found) {
            answers[index] = answer;
        }
    }
    Ok(Some(answers))
}

async fn any_moved(
    connection: &mut MySqlConnection,
    placement: &Placement,
    asked: &[LoadAskItem],
    instance: usize,
) -> Result<bool, sqlx::Error> {
    let partitions = asked.iter().filter_map(|item| item.partition.as_ref()).map(PartitionId::from);
    let home: HashSet<PartitionId> =
        partitions.filter(|partition| placement.is_home(partition, instance)).collect();
    for partition in home {
        if moved_away(connection, &partition).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

type Place = (Vec<u8>, Vec<u8>);

fn place(item: &LoadAskItem) -> Place {
    (item.tenant.as_bytes().to_vec(), item.conversation.as_bytes().to_vec())
}

async fn items(
    connection: &mut MySqlConnection,
    asked: &[LoadAskItem],
) -> Result<Vec<LoadReplyItem>, sqlx::Error> {
    let positions = positions(connection, asked).await?;
    let mut places: Vec<Place> = asked.iter().map(place).collect();
    places.sort_unstable();
    places.dedup();
    let headers = headers(connection, &places).await?;
    let unsure = unsure(connection, &places).await?;
    let members = members(connection, asked).await?;
    let answer = |item: &LoadAskItem| {
        let place = place(item);
        let id = item.partition.as_ref().map(PartitionId::from)?;
        let at = positions.get(&id).filter(|_| !unsure.contains(&place))?;
        let row = headers.get(&place).map(|header| {
            let user = |user: &String| {
                members.get(&(place.0.clone(), place.1.clone(), user.as_bytes().to_vec())).cloned()
            };
            RebuildRow { members: item.users.iter().filter_map(user).collect(), ..header.clone() }
        });
        Some(LoadReplyItem { at: Some((*at).into()), row })
    };
    Ok(asked.iter().map(|item| answer(item).unwrap_or_default()).collect())
}

async fn positions(
    connection: &mut MySqlConnection,
    asked: &[LoadAskItem],
) -> Result<HashMap<PartitionId, Position>, sqlx::Error> {
    let mut found = HashMap::new();
    for id in asked.iter().filter_map(|item| item.partition.as_ref()).map(PartitionId::from) {
        if let Entry::Vacant(place) = found.entry(id) {
            let (at, _) = write::position(connection, place.key()).await?;
            place.insert(at);
        }
    }
    Ok(found)
}

/// `head … IN ((?,?),…)` for each chunk of places.
fn in_chunks<T>(all: &[T], columns: usize) -> impl Iterator<Item = (String, &[T])> {
    let mut rest = all;
    shard::chunks(all.len(), columns).into_iter().map(move |size| {
        let (chunk, after) = rest.split_at(size);
        rest = after;
        let one = format!("({})", vec!["?"; columns].join(","));
        (vec![one; size].join(","), chunk)
    })
}

type HeaderRow = (Vec<u8>, Vec<u8>, i64, i64, u32, u8);

async fn headers(
    connection: &mut MySqlConnection,
    places: &[Place],
) -> Result<HashMap<Place, RebuildRow>, sqlx::Error> {
    let mut found = HashMap::new();
    for (list, chunk) in in_chunks(places, 2) {
        let statement = format!(
            "SELECT tenant, conversation, head, n, member_count, history_for_new_members FROM conversations \
             WHERE (tenant, conversation) IN ({list})"
        );
        let mut query = sqlx::query_as(AssertSqlSafe(statement));
        for (tenant, conversation) in chunk {
            query = query.bind(&tenant[..]).bind(&conversation[..]);
        }
        let rows: Vec<HeaderRow> = query.fetch_all(&mut *connection).await?;
        found.extend(rows.into_iter().map(|(tenant, conversation, head, n, member_count, history)| {
            let row = RebuildRow {
                head: head.max(0) as u64,
                n: n.max(0) as u64,
                member_count,
                history_for_new_members: history != 0,
                ..RebuildRow::default()
            };
            ((tenant, conversation), row)
        }));
    }
    Ok(found)
}

/// Those whose rows lack an event that the log has: a state event, or one that did not even move the head.
async fn unsure(connection: &mut MySqlConnection, places: &[Place]) -> Result<HashSet<Place>, sqlx::Error> {
    let mut found = HashSet::new();
    for (list, chunk) in in_chunks(places, 2) {
        let statement = format!(
            "SELECT d.tenant, d.conversation FROM dead_letters d WHERE (d.tenant, d.conversation) IN ({list}) \
             AND d.replayed_at IS NULL AND (d.state_event <> 0 OR NOT EXISTS (SELECT 1 FROM tombstones t \
             WHERE t.tenant = d.tenant AND t.conversation = d.conversation AND t.record_offset = d.record_offset))"
        );
        let mut query = sqlx::query_as(AssertSqlSafe(statement));
        for (tenant, conversation) in chunk {
            query = query.bind(&tenant[..]).bind(&conversation[..]);
        }
        found.extend::<Vec<Place>>(query.fetch_all(&mut *connection).await?);
    }
    Ok(found)
}

type MemberPlace = (Vec<u8>, Vec<u8>, Vec<u8>);
type MemberRow = (Vec<u8>, Vec<u8>, Vec<u8>, i64, i64);

async fn members(
    connection: &mut MySqlConnection,
    asked: &[LoadAskItem],
) -> Result<HashMap<MemberPlace, RebuildMember>, sqlx::Error> {
    let places: Vec<(&LoadAskItem, &String)> =
        asked.iter().flat_map(|item| item.users.iter().map(move |user| (item, user))).collect();
    let mut found = HashMap::new();
    for (list, chunk) in in_chunks(&places, 3) {
        let statement = format!(
            "SELECT tenant, conversation, user, from_seq, to_seq FROM members \
             WHERE (tenant, conversation, user) IN ({list})"
        );
        let mut query = sqlx::query_as(AssertSqlSafe(statement));
        for (item, user) in chunk {
            query =
                query.bind(item.tenant.as_bytes()).bind(item.conversation.as_bytes()).bind(user.as_bytes());
        }
        let rows: Vec<MemberRow> = query.fetch_all(&mut *connection).await?;
        found.extend(rows.into_iter().map(|(tenant, conversation, user, from, to)| {
            let member = RebuildMember {
                user: String::from_utf8_lossy(&user).into_owned(),
                from_seq: from.max(0) as u64,
                to_seq: to.max(0) as u64,
                ..RebuildMember::default()
            };
            ((tenant, conversation, user), member)
        }));
    }
    Ok(found)
}
