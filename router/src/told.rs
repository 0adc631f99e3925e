//! ⑪ watermark, over a change of owner: up to where senders were told stands in the view, and the next owner tells the rest (R-ACK-3).

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    ops::Range,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use lapwing_links::{kafka::PartitionReader, nats::RequestError};
use lapwing_model::{ConversationKey, Family, Op, PartitionId, Position, Verdict, record};
use lapwing_proto::{Message as _, bus, record::Record};
use lapwing_runtime::{OnError, Tasks, fail_point};
use tokio::sync::mpsc;

use crate::{
    commit::decode,
    dispatch::{Dispatch, HEARD},
    rebuild,
    router::Router,
    sequence::Event,
};

/// What was told may still be on its way to the gateways, at first even wait for their heartbeats; told again it does no harm,
/// not told it is lost.
const GRACE: Duration = HEARD.saturating_add(Duration::from_secs(2));
/// A catch-up may take long; later marks say more than those that found no place.
const MARKS: usize = 4096;
const DEAD: &str = "lw.p.dead";
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
const UNKNOWN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);
/// With Redis what was told is forgotten, too: then the receipts of the last minutes are told once more.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// Marks that were told and are not kept as told yet.
#[derive(Default)]
pub(crate) struct Telling {
    marks: VecDeque<(Instant, Position)>,
    /// What the owners before left untold is told now, or was by then: nothing behind it is kept as told before that.
    caught_up: Option<Arc<OnceLock<Instant>>>,
    inherited: Inherited,
}

/// Tombstones are told with a mark for some seconds only. What died between the beginning of this owner's fold and the first mark
/// that it hears is asked for, and until then no mark counts: a receipt would say `persisted` of a dead letter.
#[derive(Default)]
enum Inherited {
    #[default]
    Known,
    From(u64),
    Asked {
        at: Position,
        dead: BTreeSet<u64>,
    },
}

/// What is to be done with a mark.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) now: Option<(Position, Vec<bus::Tombstone>)>,
    pub(crate) ask: Option<(u64, u64)>,
}

impl Telling {
    /// `released`: what a persister that is faster than this owner has beyond it is told when it is read, so later.
    pub(crate) fn marked(&mut self, at: Position, released: Position, now: Instant) {
        if self.marks.len() < MARKS {
            let at = if at.offset <= released.offset { at } else { released };
            self.marks.push_back((now, at));
        }
    }

    pub(crate) fn heard(&mut self, at: Position, tombstones: Vec<bus::Tombstone>) -> Heard {
        match &mut self.inherited {
            Inherited::From(from) if at.offset > *from => {
                let ask = Some((*from, at.offset));
                let dead = tombstones.iter().map(|of| of.offset).collect();
                self.inherited = Inherited::Asked { at, dead };
                Heard { now: None, ask }
            }
            Inherited::Asked { at: newest, dead } => {
                dead.extend(tombstones.iter().map(|of| of.offset));
                if at.offset > newest.offset {
                    *newest = at;
                }
                Heard::default()
            }
            _ => Heard { now: Some((at, tombstones)), ask: None },
        }
    }

    /// The answer to `ask`: the mark that waited for it.
    pub(crate) fn inherited(&mut self, answer: BTreeSet<u64>) -> Option<(Position, Vec<bus::Tombstone>)> {
        let Inherited::Asked { at, mut dead } = std::mem::take(&mut self.inherited) else { return None };
        dead.extend(answer);
        let tombstone = |offset| bus::Tombstone { offset, ..bus::Tombstone::default() };
        Some((at, dead.into_iter().map(tombstone).collect()))
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
    let mut telling = Telling { inherited: Inherited::From(from.offset), ..Telling::default() };
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
        let dead = dead_letters(&router, &id, at.offset, persisted.min(end.offset)).await;
        for raw in fetched.records {
            let (offset, decoded) = decode(raw);
            if offset >= persisted.min(end.offset) {
                at.offset = at.offset.max(persisted.min(end.offset));
                log.seek(at.offset as i64);
                break;
            }
            match decoded {
                Ok(record) if record::follow(&mut at, offset, &record) == Verdict::Valid => {
                    note(&mut untold, &record, dead.contains(&offset))
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

/// Asks a persister which records of a stretch became dead letters; the answer is an event.
pub(crate) fn ask(
    router: &Arc<Router>,
    tasks: &Tasks,
    id: &PartitionId,
    stretch: Range<u64>,
    events: &mpsc::Sender<Event>,
) {
    let (router, of, stop, events) = (router.clone(), id.clone(), tasks.stopping(), events.clone());
    tasks.spawn(format!("dead letters {id}"), OnError::Log, async move {
        tokio::select! {
            () = stop.cancelled() => {}
            dead = dead_letters(&router, &of, stretch.start, stretch.end) => {
                let _stepped_down = events.send(Event::Dead(dead)).await;
            }
        }
    });
}

/// What MySQL has refused of a stretch of the log. Waits until a persister says it: no receipt may be told without.
async fn dead_letters(router: &Router, id: &PartitionId, from: u64, to: u64) -> BTreeSet<u64> {
    let (mut next, mut dead, begin) = (from, BTreeSet::new(), Instant::now());
    loop {
        let ask = bus::DeadAsk { partition: Some(id.into()), from: next, to };
        let payload = Bytes::from(ask.encode_to_vec());
        let why = match router.nats.request(DEAD, &[], payload, ASK_TIMEOUT).await {
            // Persisters of the version before know nothing of this question; of today's one would be back by now.
            Err(RequestError::NoResponders(_)) if begin.elapsed() > UNKNOWN => {
                tracing::warn!(partition = %id, "no persister can say what died: receipts may call a dead letter persisted");
                return dead;
            }
            Err(error) => error.to_string(),
            Ok(answer) => match bus::DeadReply::decode(answer) {
                Ok(bus::DeadReply { offsets, more, error: None }) => {
                    next = offsets.last().map_or(next, |last| last + 1);
                    dead.extend(offsets);
                    if !more {
                        return dead;
                    }
                    continue;
                }
                Ok(bus::DeadReply { error, .. }) => error.map_or_else(String::new, |error| error.message),
                Err(error) => error.to_string(),
            },
        };
        tracing::debug!(partition = %id, from, to, why, "receipts wait to hear of dead letters");
        tokio::time::sleep(PAUSE).await;
    }
}

fn note(untold: &mut HashMap<ConversationKey, (u32, bus::Receipt)>, record: &Record, dead: bool) {
    if !record::is_event(record) {
        return;
    }
    let (_, receipt) =
        untold.entry(record::key_of(record)).or_insert((record.bucket, bus::Receipt::default()));
    receipt.persisted_seq = record.seq;
    if record.receipt {
        let place = receipt.senders.iter().position(|of| of.sender == record.sender).unwrap_or_else(|| {
            let sender = record.sender.clone();
            receipt.senders.push(bus::ReceiptFor { sender, ..bus::ReceiptFor::default() });
            receipt.senders.len() - 1
        });
        let of = &mut receipt.senders[place];
        if dead { of.dead_lettered.push(record.seq) } else { of.seqs.push(record.seq) }
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
        receipts += receipt.senders.iter().map(|of| of.seqs.len() + of.dead_lettered.len()).sum::<usize>();
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

    // R-ACK-3: tombstones are told with marks for some seconds only, so an owner asks for those from before its first mark.
    #[test]
    fn no_mark_counts_before_it_is_known_what_died_below_the_first() {
        let mut telling = Telling { inherited: Inherited::From(5), ..Telling::default() };
        let tombstone = |offset| vec![bus::Tombstone { offset, ..Default::default() }];
        let below = telling.heard(at(5), Vec::new());
        assert!(below.now.is_some() && below.ask.is_none(), "nothing of this tenure");
        let first = telling.heard(at(9), tombstone(8));
        assert!(first.now.is_none());
        assert_eq!(first.ask, Some((5, 9)));
        let second = telling.heard(at(12), tombstone(10));
        assert!(second.now.is_none() && second.ask.is_none());
        let (now, dead) = telling.inherited(BTreeSet::from([6])).unwrap();
        assert_eq!(now, at(12));
        assert_eq!(dead.iter().map(|of| of.offset).collect::<Vec<_>>(), [6, 8, 10]);
        assert!(telling.heard(at(13), Vec::new()).now.is_some());
    }

    // R-ACK-3: also after a change of owner a dead letter is never told as persisted.
    #[test]
    fn what_mysql_refused_is_told_apart() {
        let mut untold = HashMap::new();
        for (seq, dead) in [(4, false), (5, true), (6, false)] {
            let record = Record {
                tenant: "t".into(),
                conversation: "grp.g".into(),
                seq,
                sender: "ann".into(),
                receipt: true,
                ..Record::default()
            };
            note(&mut untold, &record, dead);
        }
        let (_, receipt) = untold.into_values().next().unwrap();
        let ann = &receipt.senders[0];
        assert_eq!(
            (&ann.seqs[..], &ann.dead_lettered[..], receipt.persisted_seq),
            (&[4, 6][..], &[5][..], 6)
        );
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
