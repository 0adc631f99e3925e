//! ⑦ apply: what was released goes into the Redis views, one task an instance, batched over partitions, each piece with its
//! position (R-SEQ-4). An instance that is slow or down holds back nobody but itself.

use std::{collections::HashMap, sync::Arc};

use lapwing_model::{ConversationKey, Family, Op, PartitionId, Position};
use lapwing_router_core::Released;
use lapwing_runtime::{
    OnError, Tasks,
    queue::{Queue, Receiver, Sender},
};
use lapwing_views::Piece;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{router::Router, sequence::Event};

mod applier;
mod start;

pub(crate) use start::positions;

/// A step of a partition's way through the log, with its number: one that is lost on the way is noticed by the next.
#[derive(Clone)]
enum Told {
    Released(Arc<Released>),
    Advanced(Position),
}

#[derive(Clone)]
enum Input {
    /// More pieces of a partition, each where its view is believed to be; `number` of the last step they know of.
    Open {
        id: PartitionId,
        pieces: Vec<(Piece, Position)>,
        number: u64,
        events: mpsc::Sender<Event>,
    },
    Close(PartitionId),
    /// A piece that is elsewhere now.
    Leave(PartitionId, Piece),
    Told(PartitionId, u64, Told),
    Ops(PartitionId, Family, Vec<Op>),
    Check(PartitionId, Family),
    Replayed(PartitionId, Piece, Result<(), Option<Position>>),
}

/// Up to where the views were acknowledged: what a move waits for, and what readers may expect.
type Reached = Arc<Mutex<HashMap<(PartitionId, Piece), Position>>>;

#[derive(Clone)]
pub(crate) struct Handle {
    queues: Vec<Sender<Input>>,
    reached: Reached,
}

pub(crate) struct Stage {
    queues: Vec<Receiver<Input>>,
    reached: Reached,
}

/// Drained at once into the partitions' backlogs, which have their own bounds.
pub(crate) fn open(instances: usize) -> (Handle, Stage) {
    let queue = || Queue::named("apply").items(65_536 / instances).bytes((64 << 20) / instances).open();
    let (senders, receivers) = (0..instances).map(|_| queue()).unzip();
    let reached = Reached::default();
    (Handle { queues: senders, reached: reached.clone() }, Stage { queues: receivers, reached })
}

impl Stage {
    pub(crate) fn start(self, router: &Arc<Router>, tasks: &Tasks) {
        for (instance, queue) in self.queues.into_iter().enumerate() {
            let work = applier::run(router.clone(), instance, queue, self.reached.clone());
            let name = router.views.places().redis(instance).instance();
            tasks.spawn(format!("apply {name}"), OnError::StopService, work);
        }
    }
}

impl Handle {
    pub(crate) fn open(
        &self,
        id: &PartitionId,
        pieces: &[(Piece, Position)],
        number: u64,
        events: &mpsc::Sender<Event>,
    ) {
        for (instance, queue) in self.queues.iter().enumerate() {
            let pieces: Vec<_> =
                pieces.iter().filter(|(piece, _)| piece.instance == instance).copied().collect();
            if !pieces.is_empty() {
                push(queue, Input::Open { id: id.clone(), pieces, number, events: events.clone() }, 256);
            }
        }
    }

    pub(crate) fn close(&self, id: &PartitionId) {
        self.all(&Input::Close(id.clone()), 64);
        self.reached.lock().retain(|(of, _), _| of != id);
    }

    pub(crate) fn leave(&self, id: &PartitionId, piece: Piece) {
        push(&self.queues[piece.instance], Input::Leave(id.clone(), piece), 64);
        self.reached.lock().remove(&(id.clone(), piece));
    }

    pub(crate) fn released(&self, id: &PartitionId, number: u64, released: Arc<Released>) {
        let weight = released.event.len() + 600;
        self.all(&Input::Told(id.clone(), number, Told::Released(released)), weight);
    }

    pub(crate) fn advanced(&self, id: &PartitionId, number: u64, to: Position) {
        self.all(&Input::Told(id.clone(), number, Told::Advanced(to)), 64);
    }

    pub(crate) fn persisted(
        &self,
        id: &PartitionId,
        key: ConversationKey,
        bucket: u32,
        seq: u64,
        trim_to: u64,
    ) {
        self.ops(id, Family::Commit, vec![Op::Persisted { key, bucket, seq, trim_to }]);
    }

    pub(crate) fn ops(&self, id: &PartitionId, family: Family, ops: Vec<Op>) {
        self.all(&Input::Ops(id.clone(), family, ops), 128);
    }

    /// A cold load found the view too far back: look now, not at the next beat.
    pub(crate) fn check(&self, id: PartitionId, family: Family) {
        self.all(&Input::Check(id, family), 64);
    }

    pub(crate) fn replayed(&self, id: PartitionId, piece: Piece, result: Result<(), Option<Position>>) {
        push(&self.queues[piece.instance], Input::Replayed(id, piece, result), 64);
    }

    /// Up to where an instance has a partition's commit view, as last acknowledged to this owner.
    pub(crate) fn reached(&self, id: &PartitionId, instance: usize) -> Option<Position> {
        self.reached.lock().get(&(id.clone(), Piece::commit(instance))).copied()
    }

    /// Up to where a piece is right, in any case; 0 while nothing is known.
    pub(crate) fn right_up_to(&self, id: &PartitionId, pieces: &[Piece]) -> u64 {
        let reached = self.reached.lock();
        let at = pieces.iter().map(|piece| reached.get(&(id.clone(), *piece)).map_or(0, |at| at.offset));
        at.min().unwrap_or(0)
    }

    fn all(&self, input: &Input, weight: usize) {
        self.queues.iter().for_each(|queue| push(queue, input.clone(), weight));
    }
}

fn push(queue: &Sender<Input>, input: Input, weight: usize) {
    match input {
        // A step that does not get in is missed by number: its piece is then brought up from the log. Maxima are said again.
        Input::Told(..) | Input::Ops(..) | Input::Check(..) => {
            if queue.try_push(input, weight).is_err() {
                queue.count_drop();
            }
        }
        // A few for each change of an owner: without one of them a view would stand still for the whole tenure.
        Input::Open { .. } | Input::Close(_) | Input::Leave(..) | Input::Replayed(..) => {
            queue.push_over(input, weight);
        }
    }
}
