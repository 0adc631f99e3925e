//! ⑪ watermark, over a change of owner: up to where senders were told stands in the view, and the next owner tells the rest (R-ACK-3).

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lapwing_links::kafka::PartitionReader;
use lapwing_model::{ConversationKey, Family, Op, PartitionId, Position, Verdict, record};
use lapwing_proto::{bus, record::Record};
use lapwing_runtime::{OnError, Tasks};

use crate::{commit::decode, dispatch::Dispatch, router::Router};

/// What was told may still be on its way to the gateways; told again it does no harm, not told it is lost.
const GRACE: Duration = Duration::from_secs(2);
/// A catch-up may take long; later marks say more than those that found no place.
const MARKS: usize = 4096;
const PAUSE: Duration = Duration::from_millis(200);

/// Marks that were told and are not kept as told yet.
#[derive(Default)]
pub(crate) struct Telling {
    marks: VecDeque<(Instant, Position)>,
    /// What the owners before left untold is told now: until that is done nothing behind it is kept as told.
    catching_up: Option<Arc<AtomicBool>>,
}

impl Telling {
    pub(crate) fn marked(&mut self, at: Position) {
        if self.marks.len() < MARKS {
            self.marks.push_back((Instant::now(), at));
        }
    }

    /// `released`: what a persister that is faster than this owner has beyond it is told when it is read.
    pub(crate) fn tick(&mut self, router: &Router, id: &PartitionId, released: Position) {
        if self.catching_up.as_ref().is_some_and(|busy| busy.load(Ordering::Acquire)) {
            return;
        }
        let mut due = None;
        while self.marks.front().is_some_and(|(since, _)| since.elapsed() > GRACE) {
            due = self.marks.pop_front();
        }
        if let Some((_, at)) = due {
            let at = if at.offset <= released.offset { at } else { released };
            router.apply.ops(id, Family::Commit, vec![Op::Told { at }]);
        }
    }
}

/// A tenure begins at `from`; nothing is known only where no owner ever was, or with a view that lost everything.
pub(crate) fn start(
    router: &Arc<Router>,
    tasks: &Tasks,
    id: &PartitionId,
    told: Option<Position>,
    from: Position,
) -> Telling {
    let mut telling = Telling::default();
    match told {
        None => router.apply.ops(id, Family::Commit, vec![Op::Told { at: from }]),
        Some(told) if told.offset < from.offset => {
            let busy = telling.catching_up.insert(Arc::new(AtomicBool::new(true))).clone();
            let (router, of) = (router.clone(), id.clone());
            tasks.spawn(format!("receipts {id}"), OnError::Log, async move {
                catch_up(router, of, told, from).await;
                busy.store(false, Ordering::Release);
            });
        }
        Some(_) => {}
    }
    telling
}

/// What the owners before left untold below this owner's fold, as MySQL gets it.
async fn catch_up(router: Arc<Router>, id: PartitionId, told: Position, end: Position) {
    // A router that has just started hears the gateway nodes' heartbeats first.
    tokio::time::sleep(GRACE).await;
    let mut log = PartitionReader::open(&router.kafka, &id.topic, id.partition as i32, told.offset as i64);
    let mut at = told;
    let mut untold = HashMap::new();
    while at.offset < end.offset {
        let persisted = router.persisted.lock().get(&id).map_or(0, |at| at.offset);
        if persisted <= at.offset {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let fetched = match log.next(Duration::from_millis(500), 1 << 20).await {
            Ok(fetched) => fetched,
            Err(error) => {
                tracing::warn!(partition = %id, offset = at.offset, %error, "receipts wait for the log");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        for raw in fetched.records {
            let (offset, decoded) = decode(raw);
            if offset >= persisted.min(end.offset) {
                at.offset = at.offset.max(persisted.min(end.offset));
                log.seek(at.offset as i64);
                break;
            }
            match decoded {
                Ok(record) if record::follow(&mut at, offset, &record) == Verdict::Valid => {
                    note(&mut untold, &record)
                }
                Ok(_) => {}
                Err(_) => at.offset = offset + 1,
            }
        }
        // Behind records that cannot be shown.
        if log.position() as u64 >= persisted.min(end.offset) {
            at.offset = at.offset.max(persisted.min(end.offset));
        }
        tell(&router, &id, &mut untold);
    }
}

fn note(untold: &mut HashMap<ConversationKey, (u32, bus::Receipt)>, record: &Record) {
    if !record::is_event(record) {
        return;
    }
    let (_, receipt) =
        untold.entry(record::key_of(record)).or_insert((record.bucket, bus::Receipt::default()));
    receipt.persisted_seq = record.seq;
    if record.receipt {
        match receipt.senders.iter_mut().find(|of| of.sender == record.sender) {
            Some(of) => of.seqs.push(record.seq),
            None => receipt.senders.push(bus::ReceiptFor {
                sender: record.sender.clone(),
                seqs: vec![record.seq],
                dead_lettered: Vec::new(),
            }),
        }
    }
}

fn tell(router: &Router, id: &PartitionId, untold: &mut HashMap<ConversationKey, (u32, bus::Receipt)>) {
    for (key, (bucket, receipt)) in untold.drain() {
        let seq = receipt.persisted_seq;
        let trim_to = seq.saturating_sub(router.config.hot_events);
        router.apply.persisted(id, key.clone(), bucket, seq, trim_to);
        router.dispatch.push(Dispatch::Receipt { key, receipt, everywhere: true });
    }
}
