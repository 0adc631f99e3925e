//! History: the hot window (Redis), the owner's memory above it or instead of it, MySQL (a persister) below it; one
//! contiguous page, visible as the snapshot says that gave the rows (R-PST-9).

use std::time::{Duration, Instant};

use bytes::Bytes;
use lapwing_gateway_core::page::{self, Deep, Hot, PAGE_BYTES, Page, Query};
use lapwing_links::nats::{RequestError, TRACEPARENT};
use lapwing_model::{Code, ConversationKey, Member, Refusal};
use lapwing_proto::{
    Message as _,
    bus::{Fetch, HistoryRows, PersisterHistory, router_reply, router_request},
    client::{Event, Gap, GapReason, HistoryPage, HistoryRequest},
};
use lapwing_views::{HotPage, PageAsk};

use crate::gateway::Gateway;

/// A view below what the asker has seen gets this long to catch up.
const VIEW_LAG: Duration = Duration::from_millis(200);
const VIEW_STEP: Duration = Duration::from_millis(20);
const OWNER_TIMEOUT: Duration = Duration::from_secs(2);
const PERSISTER_TIMEOUT: Duration = Duration::from_secs(3);
const SUBJECT: &str = "lw.p.history";

#[derive(Clone, Copy)]
pub struct Ask<'a> {
    pub key: &'a ConversationKey,
    /// None: without anybody's visibility (server API, or for all sessions of a room).
    pub user: Option<&'a str>,
    pub query: Query,
    /// The highest seq that the asker has seen.
    pub seen: u64,
    pub traceparent: &'a str,
}

pub struct Read {
    pub hot: Hot,
    pub page: Page,
    pub outside: Option<Gap>,
}

/// A client's request as a query.
pub fn query(request: &HistoryRequest, max: u32) -> Result<Query, Refusal> {
    if request.limit > max {
        return Err(Refusal::new(Code::Invalid, format!("limit {} is over {max}", request.limit)));
    }
    let limit = request.limit;
    match (request.after, request.before) {
        (Some(_), Some(_)) => Err(Refusal::new(Code::Invalid, "give after or before, not both")),
        (Some(after), None) => {
            Ok(Query { from: after.saturating_add(1), to: u64::MAX, limit, newest: false })
        }
        (None, before) => {
            let to = before.map_or(u64::MAX, |before| before.saturating_sub(1));
            Ok(Query { from: 1, to, limit, newest: true })
        }
    }
}

/// The answer to a client or the server API.
pub async fn page(
    gateway: &Gateway,
    key: &ConversationKey,
    user: Option<&str>,
    request: &HistoryRequest,
    traceparent: &str,
) -> Result<HistoryPage, Refusal> {
    let query = query(request, gateway.limits.max_history_page)?;
    let seen = request.seen.max(gateway.hub.known(key));
    let Read { hot, mut page, outside } = read(gateway, Ask { key, user, query, seen, traceparent }).await?;
    if request.reverse {
        page.events.reverse();
    }
    let retention = |(from, to)| page::gap(&key.conversation, from, to, GapReason::Retention);
    let gaps = outside.into_iter().chain(page.holes.iter().copied().map(retention)).collect();
    let member = hot.member.unwrap_or_default();
    Ok(HistoryPage {
        conversation: key.conversation.to_string(),
        events: page.events,
        head: if member.active() { hot.head } else { hot.head.min(member.to_seq) },
        n: hot.n,
        persisted_seq: hot.persisted_seq,
        more: page.more,
        gaps,
        from_seq: member.from_seq,
    })
}

pub async fn read(gateway: &Gateway, ask: Ask<'_>) -> Result<Read, Refusal> {
    let first = read_once(gateway, ask).await?;
    if first.page.holes.is_empty() {
        return Ok(first);
    }
    // The window moved on between the two reads, or MySQL is behind by a moment.
    tokio::time::sleep(VIEW_STEP).await;
    read_once(gateway, ask).await
}

async fn read_once(gateway: &Gateway, ask: Ask<'_>) -> Result<Read, Refusal> {
    let hot = recent(gateway, ask).await?;
    if hot.head == 0 {
        return Err(Refusal::new(
            Code::NotFound,
            format!("there is no conversation {}", ask.key.conversation),
        ));
    }
    if ask.user.is_some() && hot.member.is_none() {
        let what = format!("not a member of {}", ask.key.conversation);
        return Err(Refusal::new(Code::Forbidden, what));
    }
    let outside = page::outside(&ask.key.conversation, &ask.query, &hot);
    let nothing = Page { events: Vec::new(), holes: Vec::new(), more: false };
    let Some(span) = ask.query.visible(&hot).filter(|_| ask.query.limit > 0) else {
        return Ok(Read { hot, page: nothing, outside });
    };
    let deep = match ask.query.deep(span, &hot) {
        Some(query) => archived(gateway, ask, query).await?,
        None => Deep::default(),
    };
    let page = ask.query.merge(span, deep, &hot);
    Ok(Read { hot, page, outside })
}

/// The recent part: the view, unless it is away, not ready, or below what the asker has seen.
async fn recent(gateway: &Gateway, ask: Ask<'_>) -> Result<Hot, Refusal> {
    let deadline = Instant::now() + VIEW_LAG;
    let mut view = None;
    loop {
        match of_view(gateway, ask).await {
            Ok(hot) if hot.head >= ask.seen && hot.head > 0 => return Ok(hot),
            Ok(hot) => view = Some(hot),
            Err(error) => {
                tracing::debug!(conversation = %ask.key, "the view is not usable, asking the owner: {error}");
                break;
            }
        }
        // A conversation that was just made is not in the view either: then the owner knows.
        if Instant::now() >= deadline || ask.seen == 0 {
            break;
        }
        tokio::time::sleep(VIEW_STEP).await;
    }
    match of_owner(gateway, ask).await {
        Ok(owner) => Ok(match view {
            Some(view) if view.head > 0 && owner.head > 0 => above(view, owner),
            _ => owner,
        }),
        // The owner is away; what the view holds is right as far as it goes, if nobody has seen more.
        Err(_) if view.as_ref().is_some_and(|view| view.head >= ask.seen && view.head > 0) => {
            Ok(view.unwrap_or_default())
        }
        Err(refusal) => Err(refusal),
    }
}

/// The owner's newer state over the view's older one.
fn above(view: Hot, mut owner: Hot) -> Hot {
    if owner.lowest > view.head + 1 {
        return owner;
    }
    let mut events = view.events;
    events.retain(|event| event.seq < owner.lowest);
    events.append(&mut owner.events);
    Hot { lowest: view.lowest.min(owner.lowest), events, ..owner }
}

async fn of_view(gateway: &Gateway, ask: Ask<'_>) -> Result<Hot, lapwing_views::ViewError> {
    let Query { from, to, limit, newest } = ask.query;
    let page =
        gateway.views.hot_page(PageAsk { key: ask.key, user: ask.user, from, to, limit, newest }).await?;
    let HotPage { header, persisted_seq, member, lowest, events } = page;
    let lowest = if lowest == 0 { header.head + 1 } else { lowest };
    let events = events.into_iter().filter_map(|event| Event::decode(event).ok()).collect();
    Ok(Hot { head: header.head, n: header.n, persisted_seq, member, lowest, events, cut: false })
}

async fn of_owner(gateway: &Gateway, ask: Ask<'_>) -> Result<Hot, Refusal> {
    let Query { from, to, limit, newest } = ask.query;
    if !newest {
        let mut hot = fetch(gateway, ask, from.saturating_sub(1), limit).await?;
        let last = hot.events.last().map_or(u64::MAX, |event| event.seq);
        hot.cut = last < to.min(hot.head) && hot.events.len() < limit as usize;
        return Ok(hot);
    }
    let position = fetch(gateway, ask, u64::MAX, 0).await?;
    let last = to.min(position.head);
    let mut count = u64::from(limit);
    loop {
        let mut hot =
            fetch(gateway, ask, last.saturating_sub(count).max(from.saturating_sub(1)), count as u32).await?;
        // An answer over the owner's limit of bytes lacks the newest ones: then fewer are asked for.
        let whole = hot.events.last().is_none_or(|event| event.seq >= last);
        if whole || count <= 1 {
            hot.cut = count < u64::from(limit);
            return Ok(hot);
        }
        count /= 2;
    }
}

async fn fetch(gateway: &Gateway, ask: Ask<'_>, after: u64, limit: u32) -> Result<Hot, Refusal> {
    let partition = gateway.partition(ask.key)?;
    let body = router_request::Body::Fetch(Fetch {
        tenant: ask.key.tenant.to_string(),
        conversation: ask.key.conversation.to_string(),
        after,
        limit,
        user: ask.user.unwrap_or_default().to_owned(),
    });
    let reply = gateway.routers.ask_owner(&partition, body, ask.traceparent, OWNER_TIMEOUT).await;
    let reply = match reply {
        Ok(router_reply::Body::Fetch(reply)) => reply,
        Ok(_) => return Err(not_ready(ask.key, "its owner answered with something else")),
        Err(refusal) => return Err(not_ready(ask.key, &refusal.message)),
    };
    if !reply.found {
        return Ok(Hot::default());
    }
    let member = reply.member.then_some(Member { from_seq: reply.from_seq, to_seq: reply.to_seq });
    Ok(Hot {
        head: reply.head,
        n: reply.n,
        persisted_seq: reply.persisted_seq,
        member: ask.user.and(member),
        lowest: reply.events.first().map_or(reply.head + 1, |event| event.seq),
        events: reply.events,
        cut: false,
    })
}

fn not_ready(key: &ConversationKey, why: &str) -> Refusal {
    Refusal::new(Code::NotReady, format!("history of {} cannot be read now: {why}", key.conversation))
        .retry_after(200)
}

/// Rows of MySQL, by any persister: asked on while its answers are cut short for their bytes, up to a page's.
async fn archived(gateway: &Gateway, ask: Ask<'_>, mut query: Query) -> Result<Deep, Refusal> {
    let slot = tokio::time::timeout(Duration::from_secs(1), gateway.deep.acquire()).await;
    let Ok(Ok(_slot)) = slot else {
        return Err(Refusal::new(Code::Busy, "too many old pages are being read").retry_after(500));
    };
    let mut deep = Deep::default();
    let mut bytes = 0;
    loop {
        let rows = rows(gateway, ask, query).await?;
        let (Some(first), Some(last)) = (rows.first().map(|row| row.seq), rows.last().map(|row| row.seq))
        else {
            break;
        };
        bytes += rows.iter().map(|row| row.encoded_len()).sum::<usize>();
        query.limit = query.limit.saturating_sub(rows.len() as u32);
        let at_end = if query.newest { first <= query.from } else { last >= query.to };
        if query.newest {
            query.to = first - 1;
            deep.events.splice(0..0, rows);
        } else {
            query.from = last + 1;
            deep.events.extend(rows);
        }
        if at_end || query.limit == 0 {
            break;
        }
        if bytes >= PAGE_BYTES {
            deep.cut = true;
            break;
        }
    }
    Ok(deep)
}

async fn rows(gateway: &Gateway, ask: Ask<'_>, query: Query) -> Result<Vec<Event>, Refusal> {
    let request = PersisterHistory {
        tenant: ask.key.tenant.to_string(),
        conversation: ask.key.conversation.to_string(),
        user: ask.user.unwrap_or_default().to_owned(),
        from: query.from,
        to: query.to,
        limit: query.limit,
        newest: query.newest,
    };
    let headers = [(TRACEPARENT, ask.traceparent)];
    let payload = Bytes::from(request.encode_to_vec());
    let answer = gateway.nats.request(SUBJECT, &headers, payload, PERSISTER_TIMEOUT).await;
    let rows = match answer {
        Ok(answer) => HistoryRows::decode(answer).map_err(|error| not_ready(ask.key, &error.to_string()))?,
        Err(RequestError::NoResponders(_)) => return Err(not_ready(ask.key, "no persister is there")),
        Err(error) => return Err(not_ready(ask.key, &error.to_string())),
    };
    match rows.error {
        Some(error) => Err(Refusal::from_wire(&error)),
        None => Ok(rows.events),
    }
}
