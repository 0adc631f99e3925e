//! The one queue: bounded in items and bytes, named, measured, many producers and one consumer.
//!
//! A full queue answers its producer, it never drops in silence (I7). A producer that dropped an item on purpose says so with
//! [`Sender::count_drop`]. Gauges are read at scrape time, so a push costs one lock and two atomics.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metrics::Counter;
use parking_lot::Mutex;
use tokio::sync::Notify;

mod budget;
mod stats;
#[cfg(test)]
mod tests;

pub use budget::{Budget, Hold};
pub use stats::{QueueReport, report};
pub(crate) use stats::{fullest, refresh_metrics};

use stats::Stats;

/// Why an item was not taken; the item comes back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError<T> {
    #[error("queue is full")]
    Full(T),
    #[error("queue is closed")]
    Closed(T),
}

impl<T> PushError<T> {
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(item) | Self::Closed(item) => item,
        }
    }

    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

/// `Queue::named("admit").items(4096).bytes(64 << 20).budget(&inbound).open()`
pub struct Queue {
    name: &'static str,
    items: usize,
    bytes: usize,
    budget: Option<Arc<Budget>>,
    readiness: bool,
}

impl Queue {
    /// 1024 items and 16 MiB unless told otherwise. The name is a metric label: one name for all queues of a kind.
    pub fn named(name: &'static str) -> Self {
        Self { name, items: 1024, bytes: 16 << 20, budget: None, readiness: true }
    }

    pub fn items(mut self, items: usize) -> Self {
        self.items = items.max(1);
        self
    }

    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Shares a byte budget with other queues, e.g. 256 MiB over all partitions.
    pub fn budget(mut self, budget: &Arc<Budget>) -> Self {
        self.budget = Some(budget.clone());
        self
    }

    /// For queues that one slow peer can fill (a session's outbox): they never make the process un-ready.
    pub fn of_one_peer(mut self) -> Self {
        self.readiness = false;
        self
    }

    pub fn open<T>(self) -> (Sender<T>, Receiver<T>) {
        let stats = Arc::new(Stats::new(self.name, self.items, self.bytes, self.readiness));
        let counters = stats::register(&stats);
        let shared = Arc::new(Shared {
            stats,
            budget: self.budget,
            accepted: counters.accepted,
            full: counters.full,
            timeout: counters.timeout,
            closed: counters.closed,
            dropped: counters.dropped,
            inner: Mutex::new(Inner { items: VecDeque::new(), bytes: 0, closed: false }),
            filled: Notify::new(),
            space: Notify::new(),
            waiting: AtomicUsize::new(0),
            senders: AtomicUsize::new(1),
        });
        (Sender { shared: shared.clone() }, Receiver { shared })
    }
}

struct Inner<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    closed: bool,
}

struct Shared<T> {
    stats: Arc<Stats>,
    budget: Option<Arc<Budget>>,
    accepted: Counter,
    full: Counter,
    timeout: Counter,
    closed: Counter,
    dropped: Counter,
    inner: Mutex<Inner<T>>,
    filled: Notify,
    space: Notify,
    waiting: AtomicUsize,
    senders: AtomicUsize,
}

impl<T> Shared<T> {
    fn offer(&self, item: T, weight: usize) -> Result<(), PushError<T>> {
        self.put(item, weight, false)
    }

    fn put(&self, item: T, weight: usize, over: bool) -> Result<(), PushError<T>> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(PushError::Closed(item));
        }
        // An item heavier than the whole queue passes when it is alone: otherwise it could never pass.
        let fits = inner.items.len() < self.stats.item_capacity
            && (inner.items.is_empty() || inner.bytes.saturating_add(weight) <= self.stats.byte_capacity);
        let budget = self.budget.as_ref();
        if over {
            budget.inspect(|budget| budget.take_over(weight));
        } else if !fits || !budget.is_none_or(|budget| budget.take(weight)) {
            return Err(PushError::Full(item));
        }
        let was_empty = inner.items.is_empty();
        inner.items.push_back((item, weight));
        inner.bytes += weight;
        self.stats.set(inner.items.len(), inner.bytes);
        drop(inner);
        self.accepted.increment(1);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(())
    }

    fn released(&self, weight: usize) {
        if let Some(budget) = &self.budget {
            budget.give_back(weight);
        }
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.space.notify_waiters();
        }
    }

    fn close(&self) {
        self.inner.lock().closed = true;
        self.filled.notify_one();
        self.space.notify_waiters();
    }
}

/// Cloned by each producer; the queue closes when the last one goes.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Takes the item now or gives it back. `weight` is its size in bytes.
    pub fn try_push(&self, item: T, weight: usize) -> Result<(), PushError<T>> {
        self.shared.offer(item, weight).inspect_err(|error| match error {
            PushError::Full(_) => self.shared.full.increment(1),
            PushError::Closed(_) => self.shared.closed.increment(1),
        })
    }

    /// Beyond the bounds, in order with the rest: for what nothing would make good, and what is few by its nature. It is lost only with
    /// the receiver.
    pub fn push_over(&self, item: T, weight: usize) {
        let _receiver_is_gone = self.shared.put(item, weight, true);
    }

    /// Waits up to `timeout` for room. One producer's pushes keep their order; among waiting producers there is none.
    pub async fn push_timeout(&self, item: T, weight: usize, timeout: Duration) -> Result<(), PushError<T>> {
        let mut item = match self.shared.offer(item, weight) {
            Err(PushError::Full(item)) => item,
            Err(PushError::Closed(item)) => {
                self.shared.closed.increment(1);
                return Err(PushError::Closed(item));
            }
            Ok(()) => return Ok(()),
        };
        let deadline = tokio::time::Instant::now() + timeout;
        let _waiting = Waiting::new(&self.shared.waiting);
        loop {
            let room = self.shared.space.notified();
            let budget_room = budget::room(self.shared.budget.as_deref());
            tokio::pin!(room);
            room.as_mut().enable();
            item = match self.shared.offer(item, weight) {
                Err(PushError::Full(item)) => item,
                other => return other,
            };
            tokio::select! {
                () = room => {}
                () = budget_room.wait() => {}
                () = tokio::time::sleep_until(deadline) => {
                    self.shared.timeout.increment(1);
                    return Err(PushError::Full(item));
                }
            }
        }
    }

    /// Counts an item that the caller gave up after a refusal, so that no drop is silent.
    pub fn count_drop(&self) {
        self.shared.dropped.increment(1);
    }

    /// No more pushes; what is inside can still be popped.
    pub fn close(&self) {
        self.shared.close();
    }

    pub fn is_closed(&self) -> bool {
        self.shared.inner.lock().closed
    }

    pub fn len(&self) -> usize {
        self.shared.stats.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn bytes(&self) -> usize {
        self.shared.stats.bytes()
    }

    /// How full the queue is, by items or bytes, whichever is fuller: 0.0 to 1.0 (above it with one oversized item).
    pub fn fill(&self) -> f64 {
        self.shared.stats.fill()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.close();
        }
    }
}

/// The one consumer. All its waits are cancel-safe: nothing is taken out before the future is ready.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Receiver<T> {
    /// The next item; `None` once the queue is closed and empty.
    pub async fn pop(&mut self) -> Option<T> {
        loop {
            if let Some(item) = self.try_pop() {
                return Some(item);
            }
            if self.finished() {
                return None;
            }
            self.shared.filled.notified().await;
        }
    }

    pub fn try_pop(&mut self) -> Option<T> {
        let mut inner = self.shared.inner.lock();
        let (item, weight) = inner.items.pop_front()?;
        inner.bytes -= weight;
        self.shared.stats.set(inner.items.len(), inner.bytes);
        drop(inner);
        self.shared.released(weight);
        Some(item)
    }

    /// Natural batching: waits for one item, then takes what is there, up to `items` and `bytes` (at least one item).
    /// Empty once the queue is closed and empty.
    pub async fn pop_up_to(&mut self, items: usize, bytes: usize) -> Vec<T> {
        loop {
            let batch = self.try_pop_up_to(items, bytes);
            if !batch.is_empty() || self.finished() {
                return batch;
            }
            self.shared.filled.notified().await;
        }
    }

    pub fn try_pop_up_to(&mut self, items: usize, bytes: usize) -> Vec<T> {
        let mut inner = self.shared.inner.lock();
        let mut taken = 0;
        let mut count = 0;
        for (_, weight) in inner.items.iter().take(items.max(1)) {
            if count > 0 && taken + weight > bytes {
                break;
            }
            taken += weight;
            count += 1;
        }
        if count == 0 {
            return Vec::new();
        }
        let batch = inner.items.drain(..count).map(|(item, _)| item).collect();
        inner.bytes -= taken;
        self.shared.stats.set(inner.items.len(), inner.bytes);
        drop(inner);
        self.shared.released(taken);
        batch
    }

    /// No more pushes; what is inside can still be popped.
    pub fn close(&mut self) {
        self.shared.close();
    }

    pub fn len(&self) -> usize {
        self.shared.stats.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn bytes(&self) -> usize {
        self.shared.stats.bytes()
    }

    fn finished(&self) -> bool {
        let inner = self.shared.inner.lock();
        inner.closed && inner.items.is_empty()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.close();
        let (items, bytes) = {
            let mut inner = self.shared.inner.lock();
            let bytes = std::mem::take(&mut inner.bytes);
            self.shared.stats.set(0, 0);
            (std::mem::take(&mut inner.items), bytes)
        };
        self.shared.dropped.increment(items.len() as u64);
        self.shared.released(bytes);
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
