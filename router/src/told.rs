//! ⑪ watermark, over a change of owner: up to where senders were told stands in the view, and the next owner tells the rest (R-ACK-3).

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use lapwing_links::kafka::PartitionReader;
use lapwing_model::{ConversationKey, Family, Op, PartitionId, Position, Verdict, record};
use lapwing_proto::{bus, record::Record};
use lapwing_runtime::{OnError, Tasks, fail_point};

use crate::{
    commit::decode,
    dispatch::{Dispatch, HEARD},
    rebuild,
    router::Router,
};

/// What was told may still be on its way to the gateways, at first even wait for their heartbeats; told again it does no harm,
/// not told it is lost.
const GRACE: Duration = HEARD.saturating_add(Duration::from_secs(2));
/// A catch-up may take long; later marks say more than those that found no place.
const MARKS: usize = 4096;
const PAUSE: Duration = Duration::from_millis(200);
/// With Redis what was told is forgotten, too: then the receipts of the last minutes are told once more.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// Marks that were told and are not kept as told yet.
#[derive(Default)]
pub(crate) struct Telling {
    marks: VecDeque<(Instant, Position)>,
    /// What the owners before left untold is told now, or was by then: nothing behind it is kept as told before that.
    caught_up: Option<Arc<OnceLock<Instant>>>,
}

impl Telling {
    /// `released`: what a persister that is faster than this owner has beyond it is told when it is read, so later.
    pub(crate) fn marked(&mut self, at: Position, released: Position, now: Instant) {
        if self.marks.len() < MARKS {
            let at = if at.offset <= released.offset { at } else { released };
            self.marks.push_back((now, at));
        }
    }

    pub(crate) fn tick(&mut self, router: &Router, id: &PartitionId) {
        if let Some(at) = self.due(Instant::now()) {
            router.apply.ops(id, Family::Commit, vec![Op::Told { at }]);
        }
    }

    /// Up to where everything was told so long ago that it has arrived.
    fn due(&mut self, now: Instant) -> Option<Position> {
        let arrived = |since: Instant| now.saturating_duration_since(since) > GRACE;
        match self.caught_up.as_ref().map(|end| end.get()) {
            None => {}
            Some(Some(end)) if arrived(*end) => self.caught_up = None,
            Some(_) => return None,
        }
        let mut due = None;
        while self.marks.front().is_some_and(|(since, _)| arrived(*since)) {
            due = self.marks.pop_front();
        }
        due.map(|(_, at)| at)
    }
}

/// A tenure begins at `from`. `told` is not known where no owner ever was, without Redis, or with a Redis that lost everything.
pub(crate) fn start(
    router: &Arc<Router>,
    tasks: &Tasks,
    id: &PartitionId,
    told: Option<Position>,
    from: Position,
) -> Telling {
    let mut telling = Telling::default();
    if told.map_or(0, |told| told.offset) < from.offset {
        let end = telling.caught_up.insert(Arc::default()).clone();
        let (router, of, stop) = (router.clone(), id.clone(), tasks.stopping());
        tasks.spawn(format!("receipts {id}"), OnError::Log, async move {
            tokio::select! {
                // The next owner begins where this one did.
                () = stop.cancelled() => {}
                () = catch_up(router, of, told, from) => end.set(Instant::now()).unwrap_or_default(),
            }
        });
    }
    telling
}

/// Kept by the owners before, or a time ago at which all of it had arrived for certain.
async fn begin(router: &Router, id: &PartitionId, mut told: Option<Position>) -> Position {
    loop {
        if let Some(told) = told {
            return told;
        }
        tokio::time::sleep(PAUSE).await;
        told = rebuild::stood(router, id, FORGOTTEN).await;
    }
}

/// What the owners before left untold below this owner's fold, as MySQL gets it.
async fn catch_up(router: Arc<Router>, id: PartitionId, told: Option<Position>, end: Position) {
    // A router that has just started hears the gateway nodes' heartbeats first.
    tokio::time::sleep(HEARD).await;
    let mut at = begin(&router, &id, told).await;
    let from = at.offset;
    let mut log = PartitionReader::open(&router.kafka, &id.topic, id.partition as i32, from as i64);
    let (mut untold, mut receipts) = (HashMap::new(), 0);
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
                // Nobody waits for receipts of what the log no longer has.
                let earliest = log.earliest().await.map_or(0, |earliest| earliest as u64);
                if at.offset < earliest {
                    at.offset = earliest.min(end.offset);
                    log.seek(at.offset as i64);
                }
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
        receipts += tell(&router, &id, &mut untold);
    }
    tracing::info!(partition = %id, from, to = end.offset, receipts, "told what was left untold");
    fail_point("told.after");
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

fn tell(
    router: &Router,
    id: &PartitionId,
    untold: &mut HashMap<ConversationKey, (u32, bus::Receipt)>,
) -> usize {
    let mut receipts = 0;
    for (key, (bucket, receipt)) in untold.drain() {
        let seq = receipt.persisted_seq;
        receipts += receipt.senders.iter().map(|of| of.seqs.len()).sum::<usize>();
        let trim_to = seq.saturating_sub(router.config.hot_events);
        router.apply.persisted(id, key.clone(), bucket, seq, trim_to);
        router.dispatch.push(Dispatch::Receipt { key, receipt, everywhere: true });
        fail_point("told.middle");
    }
    receipts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> Position {
        Position { offset, epoch: 1, index: offset }
    }

    // R-ACK-3: a kill loses what was told and had not arrived, so it is not kept as told.
    #[test]
    fn a_mark_is_kept_as_told_once_what_it_told_has_arrived() {
        let (mut telling, begin) = (Telling::default(), Instant::now());
        let after = |seconds| begin + GRACE + Duration::from_secs(seconds);
        telling.marked(at(5), at(9), begin);
        telling.marked(at(9), at(7), begin + Duration::from_secs(2));
        assert_eq!(telling.due(begin + GRACE), None);
        assert_eq!(telling.due(after(1)), Some(at(5)));
        assert_eq!(telling.due(after(1)), None);
        assert_eq!(telling.due(after(3)), Some(at(7)), "what this owner had not read then was not told then");
    }

    // R-ACK-3: a second kill, while what the first one left is told or on its way, must not lose it.
    #[test]
    fn nothing_is_kept_as_told_before_what_the_owners_before_left_has_arrived() {
        let (mut telling, begin) = (Telling::default(), Instant::now());
        let end = telling.caught_up.insert(Arc::default()).clone();
        telling.marked(at(5), at(5), begin);
        let caught_up = begin + GRACE * 10;
        assert_eq!(telling.due(caught_up), None);
        end.set(caught_up).unwrap();
        assert_eq!(telling.due(caught_up + GRACE), None);
        assert_eq!(telling.due(caught_up + GRACE * 2), Some(at(5)));
    }
}
