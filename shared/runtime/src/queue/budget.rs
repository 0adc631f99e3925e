//! A byte budget that many queues share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::stats;

pub struct Budget {
    pub(super) name: &'static str,
    pub(super) limit: usize,
    used: AtomicUsize,
    space: Notify,
}

impl Budget {
    /// The name is a metric label of `lapwing_queue_bytes`, as if the budget were a queue of its own.
    pub fn new(name: &'static str, limit: usize) -> Arc<Self> {
        let budget = Arc::new(Self { name, limit, used: AtomicUsize::new(0), space: Notify::new() });
        stats::register_budget(&budget);
        budget
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Takes room for something that is not in a queue (bytes given to a client library); given back when the hold is dropped.
    pub fn hold(self: &Arc<Self>, weight: usize) -> Option<Hold> {
        self.take(weight).then(|| Hold { budget: self.clone(), weight })
    }

    /// Like a queue, an empty budget takes one item of any size.
    pub(super) fn take(&self, weight: usize) -> bool {
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                let sum = used.saturating_add(weight);
                (used == 0 || sum <= self.limit).then_some(sum)
            })
            .is_ok()
    }

    pub(super) fn take_over(&self, weight: usize) {
        self.used.fetch_add(weight, Ordering::AcqRel);
    }

    pub(super) fn give_back(&self, weight: usize) {
        if weight > 0 {
            self.used.fetch_sub(weight, Ordering::AcqRel);
            self.space.notify_waiters();
        }
    }
}

/// Room taken from a budget.
pub struct Hold {
    budget: Arc<Budget>,
    weight: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.give_back(self.weight);
    }
}

/// Waits for room in a budget, for ever if there is none to wait for.
pub(super) fn room(budget: Option<&Budget>) -> Room<'_> {
    let mut notified = budget.map(|budget| Box::pin(budget.space.notified()));
    if let Some(notified) = &mut notified {
        notified.as_mut().enable();
    }
    Room(notified)
}

pub(super) struct Room<'a>(Option<Pin<Box<Notified<'a>>>>);

impl Room<'_> {
    pub(super) async fn wait(self) {
        match self.0 {
            Some(notified) => notified.await,
            None => std::future::pending().await,
        }
    }
}
