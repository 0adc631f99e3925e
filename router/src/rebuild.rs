//! A view that has nothing stored is filled from MySQL, by way of the persister, and then from the log (R-SEQ-6, R-SEQ-9).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lapwing_links::kafka::PartitionReader;
use lapwing_model::{
    Family, Kind, Op, PartitionId, Position,
    bucket::{BUCKETS, partition_of},
};
use lapwing_proto::{
    Message as _,
    bus::{RebuildAsk, RebuildPage, RebuildPlace},
    record::CursorRecord,
};
use lapwing_runtime::{metrics, throttle::Throttle, time::now_ms};
use lapwing_views::{Applied, Expect, Piece, Section, ops_of_row};

use crate::{produce, replay, router::Router};

const SUBJECT: &str = "lw.p.rebuild";
const ASK_TIMEOUT: Duration = Duration::from_secs(12);
const PAUSE: Duration = Duration::from_millis(100);
/// Clocks of routers and persisters may differ, and a send time is taken before the record stands.
const WINDOW_MARGIN_MS: u64 = 600_000;
const CURSORS: &str = "lapwing.cursor";

/// Why it ended early.
enum Halt {
    Stopping,
    /// The view has a position now, or another rebuild.
    Elsewhere(Option<Position>),
    /// It is tried again from the beginning.
    Trouble(String),
}

/// Until the view stands at `to`, or the partition is gone.
pub(crate) async fn run(router: Arc<Router>, id: PartitionId, piece: Piece, to: Position) {
    let family = piece.family;
    let Ok(_one) = router.rebuilds.acquire().await else { return };
    let quiet = Throttle::every_ms(5000);
    loop {
        match rebuilt(&router, &id, piece, to).await {
            Ok(plan) => return replay::run(router.clone(), id, piece, plan, to).await,
            Err(Halt::Stopping) => return,
            Err(Halt::Elsewhere(stored)) => return router.apply.replayed(id, piece, Err(stored)),
            Err(Halt::Trouble(why)) => {
                if let Some(more) = quiet.pass() {
                    tracing::error!(partition = %id, view = family.name(), more,
                        "the view is empty and cannot be rebuilt yet: {why}; it is tried again");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// What MySQL has of a partition by now; None: no persister says so.
pub(crate) async fn persisted(router: &Router, id: &PartitionId) -> Option<Position> {
    let ask = RebuildAsk { position_only: true, ..ask_of(router, id, Family::Commit) };
    let page = ask_page(router, ask).await.ok()?;
    page.persisted.map(Into::into)
}

/// Where MySQL stood so long ago; None: no persister says so.
pub(crate) async fn stood(router: &Router, id: &PartitionId, ago: Duration) -> Option<Position> {
    let window_from_ms = now_ms().saturating_sub(ago.as_millis() as u64);
    let ask = RebuildAsk { position_only: true, window_from_ms, ..ask_of(router, id, Family::Commit) };
    let page = ask_page(router, ask).await.ok()?;
    // All that it knows is younger.
    Some(page.window.map(Into::into).unwrap_or_default())
}

fn ask_of(router: &Router, id: &PartitionId, family: Family) -> RebuildAsk {
    let own = |bucket: &u32| partition_of(*bucket, router.config.partitions) == id.partition;
    let first = (0..BUCKETS).find(own).unwrap_or_default();
    let window = router.config.dedupe_window_ms + WINDOW_MARGIN_MS;
    RebuildAsk {
        partition: Some(id.into()),
        first_bucket: first,
        last_bucket: first + BUCKETS / router.config.partitions - 1,
        users: family == Family::User,
        window_from_ms: now_ms().saturating_sub(window),
        ..RebuildAsk::default()
    }
}

async fn ask_page(router: &Router, ask: RebuildAsk) -> Result<RebuildPage, String> {
    let payload = ask.encode_to_vec().into();
    let answer = router.nats.request(SUBJECT, &[], payload, ASK_TIMEOUT).await;
    let answer = answer.map_err(|error| format!("no persister answers: {error}"))?;
    let page = RebuildPage::decode(answer).map_err(|error| error.to_string())?;
    match &page.error {
        Some(error) => Err(error.message.clone()),
        None => Ok(page),
    }
}

/// All rows are in the view; from where the log has to be replayed over them.
async fn rebuilt(
    router: &Router,
    id: &PartitionId,
    piece: Piece,
    to: Position,
) -> Result<replay::Plan, Halt> {
    let family = piece.family;
    let mut log = PartitionReader::open(&router.kafka, &id.topic, id.partition as i32, 0);
    let earliest = log.earliest().await.map_err(|error| Halt::Trouble(error.to_string()))? as u64;
    let mut filling = Filling::new(router, id, piece);
    filling.section(Expect::Begin(filling.token.clone()), Vec::new()).await?;
    let token = Some(filling.token.clone());
    let from_start = replay::Plan { from: Position::default(), hot_from: 0, token: token.clone() };
    let first = match ask_page(router, ask_of(router, id, family)).await {
        Ok(page) => page,
        // The log alone has everything.
        Err(_) if earliest == 0 => return Ok(from_start),
        Err(error) => return Err(Halt::Trouble(error)),
    };
    let persisted: Position = first.persisted.map(Into::into).unwrap_or_default();
    if persisted.offset == 0 && earliest == 0 {
        return Ok(from_start);
    }
    let from: Position = first.window.map(Into::into).unwrap_or_default();
    if from.offset < earliest {
        let text = format!(
            "ALARM: the log begins at {earliest}, the dedupe window needs {} (R-SEQ-9: retention must be longer than the window)",
            from.offset
        );
        return Err(Halt::Trouble(text));
    }
    tracing::info!(partition = %id, view = family.name(), persisted = %persisted.encode(), from = %from.encode(),
        to = %to.encode(), "rebuilding the view from MySQL and the log");
    let cursor_offset = first.cursor_offset;
    let rows = filling.rows(first, persisted).await?;
    if family == Family::User {
        filling.cursors(cursor_offset).await?;
    }
    tracing::info!(partition = %id, view = family.name(), rows, "the rows of MySQL are in the view, the log follows");
    Ok(replay::Plan { from, hot_from: persisted.offset, token })
}

struct Filling<'a> {
    router: &'a Router,
    id: &'a PartitionId,
    piece: Piece,
    token: String,
    told: Instant,
}

impl<'a> Filling<'a> {
    fn new(router: &'a Router, id: &'a PartitionId, piece: Piece) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let token = format!("{}-{}-{number}", router.node(), router.incarnation);
        Self { router, id, piece, token, told: Instant::now() }
    }

    async fn rows(&mut self, first: RebuildPage, persisted: Position) -> Result<u64, Halt> {
        let (mut page, mut rows) = (first, 0);
        loop {
            let mut ops = Vec::new();
            page.rows.iter().for_each(|row| ops_of_row(self.piece.family, row, &mut ops));
            rows += page.rows.len() as u64;
            ::metrics::counter!(metrics::REBUILT_ROWS_TOTAL, "view" => self.piece.family.name())
                .increment(page.rows.len() as u64);
            self.section(Expect::Rebuild(self.token.clone()), ops).await?;
            if self.told.elapsed() > Duration::from_secs(5) {
                self.told = Instant::now();
                tracing::info!(partition = %self.id, view = self.piece.family.name(), rows, "rebuilding");
            }
            let Some(next) = page.next.take() else { return Ok(rows) };
            page = self.page(next, persisted).await?;
        }
    }

    /// A persister that is briefly busy does not cost what is filled already.
    async fn page(&self, after: RebuildPlace, persisted: Position) -> Result<RebuildPage, Halt> {
        let mut last = String::new();
        for _ in 0..600 {
            self.go_on()?;
            let ask =
                RebuildAsk { after: Some(after.clone()), ..ask_of(self.router, self.id, self.piece.family) };
            match ask_page(self.router, ask).await {
                // A snapshot from before the first page's would lack what the replay does not bring again.
                Ok(page) if page.persisted.is_some_and(|at| at.offset >= persisted.offset) => {
                    return Ok(page);
                }
                Ok(_) => last = "a persister reads from a database that is behind".to_owned(),
                Err(error) => last = error,
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(Halt::Trouble(last))
    }

    /// What the cursor topic has that MySQL does not have yet; views take maxima, so its order does not matter.
    async fn cursors(&self, from: u64) -> Result<(), Halt> {
        let trouble = |error: lapwing_links::kafka::ReadError| Halt::Trouble(format!("{CURSORS}: {error}"));
        let mut reader =
            PartitionReader::open(&self.router.kafka, CURSORS, self.id.partition as i32, from as i64);
        let end = reader.latest().await.map_err(trouble)?;
        while reader.position() < end {
            self.go_on()?;
            let fetched = reader.next(Duration::from_millis(500), 1 << 20).await.map_err(trouble)?;
            let cursors =
                fetched.records.iter().filter_map(|raw| CursorRecord::decode(raw.value.clone()?).ok());
            let own = |of: &CursorRecord| {
                Kind::of_conversation(&of.conversation).is_some_and(|kind| kind.topic() == &*self.id.topic)
            };
            let ops: Vec<Op> = cursors.filter(own).map(|of| produce::op_of(&of)).collect();
            self.section(Expect::Rebuild(self.token.clone()), ops).await?;
            if fetched.records.is_empty() && reader.position() < end {
                break; // Only records that cannot be shown are left.
            }
        }
        Ok(())
    }

    fn go_on(&self) -> Result<(), Halt> {
        let gone = self.router.context.stopping().is_cancelled()
            || !self.router.partitions.read().contains_key(self.id);
        if gone { Err(Halt::Stopping) } else { Ok(()) }
    }

    async fn section(&self, expect: Expect, mut ops: Vec<Op>) -> Result<(), Halt> {
        ops.retain(|op| self.piece.holds(op));
        let section = Section::new(self.id, self.piece, expect, ops);
        self.go_on()?;
        match replay::apply(self.router, section).await {
            Some(Applied::Ok) => Ok(()),
            Some(Applied::At(stored)) => Err(Halt::Elsewhere(stored)),
            // The owner hears of it by its next batch.
            Some(Applied::Moved(_)) | None => Err(Halt::Stopping),
        }
    }
}
