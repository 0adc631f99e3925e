//! The operators' side (R-PST-5): `lapwing dead-letters` calls it. Nothing here touches a position in the log.

use std::{sync::Arc, time::Instant};

use lapwing_persister_core::side;
use lapwing_proto::{
    Message,
    record::{AuditRecord, CursorRecord, Record},
};
use lapwing_runtime::admin::{Admin, AdminError, AdminRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{
    replay,
    table::{self, Filter, Letter, MOST},
};
use crate::{
    db::{self, Borrowed},
    persister::Persister,
};

/// One replay or purge at a time: it takes a connection of the writers. Looks have two of the readers'.
struct Desk {
    persister: Arc<Persister>,
    changes: Semaphore,
    looks: Semaphore,
}

const PATH: &str = "/admin/dead-letters";
const SHOW: &str = "/admin/dead-letters/show";
const REPLAY: &str = "/admin/dead-letters/replay";
const PURGE: &str = "/admin/dead-letters/purge";
/// Below the time that an admin call may take.
const PURGE_SECONDS: u64 = 20;

pub(crate) fn routes(persister: &Arc<Persister>) {
    let desk =
        Arc::new(Desk { persister: persister.clone(), changes: Semaphore::new(1), looks: Semaphore::new(2) });
    let admin = &persister.context.admin;
    route(admin, &desk, "GET", PATH, |desk, request| async move { desk.list(&request).await });
    route(admin, &desk, "GET", SHOW, |desk, request| async move { desk.show(&request).await });
    route(admin, &desk, "POST", REPLAY, |desk, request| async move { desk.replay(&request).await });
    route(admin, &desk, "POST", PURGE, |desk, request| async move { desk.purge(&request).await });
}

fn route<F>(
    admin: &Admin,
    desk: &Arc<Desk>,
    method: &str,
    path: &str,
    handler: impl Fn(Arc<Desk>, AdminRequest) -> F + Send + Sync + 'static,
) where
    F: Future<Output = Result<Value, AdminError>> + Send + 'static,
{
    let desk = desk.clone();
    admin.route(method, path, move |request| handler(desk.clone(), request));
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Replay {
    filter: Filter,
    dry_run: bool,
}

impl Desk {
    async fn list(&self, request: &AdminRequest) -> Result<Value, AdminError> {
        let filter = Filter::of_query(&request.query)?;
        let _one = permit(&self.looks)?;
        let reading = async {
            let mut borrowed = Borrowed::from(&self.persister.db.read, "read").await?;
            let letters = table::list(borrowed.get()?, &filter).await?;
            borrowed.give_back();
            Ok(letters)
        };
        let letters = self.within("list dead letters", reading).await?;
        let next = letters.last().filter(|_| letters.len() == filter.limit()).map(|letter| letter.id);
        Ok(json!({ "dead_letters": letters.iter().map(shown).collect::<Vec<_>>(), "next": next }))
    }

    async fn show(&self, request: &AdminRequest) -> Result<Value, AdminError> {
        let id = request
            .wanted("id")?
            .parse()
            .map_err(|_| AdminError::invalid("parameter `id` is not a number"))?;
        let _one = permit(&self.looks)?;
        let reading = async {
            let mut borrowed = Borrowed::from(&self.persister.db.read, "read").await?;
            let found = table::whole(borrowed.get()?, id, false).await?;
            borrowed.give_back();
            Ok(found)
        };
        let found = self.within("show a dead letter", reading).await?;
        let (letter, payload) =
            found.ok_or_else(|| AdminError::not_found(format!("there is no dead letter {id}")))?;
        let mut value = shown(&letter);
        match decoded(&letter, &payload) {
            Some(record) => value["record"] = record,
            None => value["payload_base64"] = data_encoding::BASE64.encode(&payload).into(),
        }
        Ok(value)
    }

    async fn replay(&self, request: &AdminRequest) -> Result<Value, AdminError> {
        let Replay { mut filter, dry_run } = request.json()?;
        if filter.ids.len() > MOST as usize {
            return Err(AdminError::invalid(format!("{} ids, at most {MOST} at a time", filter.ids.len())));
        }
        // A page of what is still dead; ids that were named are answered one by one.
        if filter.ids.is_empty() {
            filter.replayed = Some(false);
        } else {
            filter.limit = Some(MOST);
        }
        let _one = permit(&self.changes)?;
        replay::batch(&self.persister, &filter, dry_run).await.map_err(|error| unavailable(&error))
    }

    async fn purge(&self, request: &AdminRequest) -> Result<Value, AdminError> {
        let kept = self.persister.config.dead_retention_ms;
        let older_than = match request.query("older_than_ms") {
            None => kept,
            Some(text) => {
                text.parse().map_err(|_| AdminError::invalid("parameter `older_than_ms` is not a number"))?
            }
        };
        if older_than < kept {
            return Err(AdminError::invalid(format!(
                "replayed dead letters are kept for {kept} ms (LAPWING_DEAD_RETENTION_MS), {older_than} ms is less"
            )));
        }
        let _one = permit(&self.changes)?;
        let (begin, mut purged) = (Instant::now(), 0);
        loop {
            let part = async {
                let mut borrowed = Borrowed::from(&self.persister.db.write, "write").await?;
                let part = table::purge(borrowed.get()?, older_than).await?;
                borrowed.give_back();
                Ok(part)
            };
            let part = self.within("purge dead letters", part).await?;
            purged += part;
            let more = part == u64::from(MOST);
            if !more || begin.elapsed().as_secs() >= PURGE_SECONDS {
                return Ok(json!({ "purged": purged, "older_than_ms": older_than, "more": more }));
            }
        }
    }

    async fn within<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, AdminError> {
        let limit = self.persister.config.mysql_timeout();
        db::within(limit, what, work).await.map_err(|error| unavailable(&error))
    }
}

fn permit(of: &Semaphore) -> Result<tokio::sync::SemaphorePermit<'_>, AdminError> {
    let busy =
        |_| AdminError::new(503, "busy", "others are at the dead letters of this persister; ask again");
    of.try_acquire().map_err(busy)
}

fn unavailable(error: &sqlx::Error) -> AdminError {
    AdminError::new(503, "not_ready", format!("MySQL: {error}"))
}

fn shown(letter: &Letter) -> Value {
    json!({
        "id": letter.id,
        "topic": &*letter.partition.topic,
        "partition": letter.partition.partition,
        "offset": letter.offset,
        "tenant": letter.tenant,
        "conversation": letter.conversation,
        "seq": letter.seq,
        "code": letter.code,
        "error": letter.error,
        "state_event": letter.state_event,
        "payload_bytes": letter.payload_bytes,
        "created_at": letter.created_at,
        "replayed_at": letter.replayed_at,
    })
}

/// The record, where its topic says what it is and it can be read.
fn decoded(letter: &Letter, payload: &[u8]) -> Option<Value> {
    fn read<M: Message + Default + serde::Serialize>(payload: &[u8]) -> Option<Value> {
        serde_json::to_value(M::decode(payload).ok()?).ok()
    }
    match &*letter.partition.topic {
        _ if payload.is_empty() => None,
        side::CURSOR_TOPIC => read::<CursorRecord>(payload),
        side::AUDIT_TOPIC => read::<AuditRecord>(payload),
        _ => read::<Record>(payload),
    }
}
