//! One wildcard subscription for all answers: `<prefix>.<number>` → the request that waits for it.
//!
//! The client's own request call hides whether it handed the request over, hence this one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use lapwing_runtime::metrics::LINK_EVENTS_TOTAL;
use lapwing_runtime::{OnError, Tasks};
use parking_lot::Mutex;
use tokio::sync::oneshot;

type Waiters = Arc<Mutex<HashMap<u64, oneshot::Sender<async_nats::Message>>>>;

pub(super) struct Inbox {
    prefix: String,
    next: AtomicU64,
    waiters: Waiters,
}

impl Inbox {
    pub(super) async fn open(client: &async_nats::Client, tasks: &Tasks) -> anyhow::Result<Self> {
        let prefix = client.new_inbox();
        let mut answers = client
            .subscribe(format!("{prefix}.*"))
            .await
            .map_err(|error| anyhow::anyhow!("cannot subscribe to the inbox for answers: {error}"))?;
        let waiters: Waiters = Arc::default();
        let open = waiters.clone();
        let skip = prefix.len() + 1;
        // Draining work still asks and waits for answers, so this outlives the drain.
        tasks.spawn_companion("nats inbox", OnError::StopService, async move {
            while let Some(answer) = answers.next().await {
                let number = answer.subject.get(skip..).and_then(|number| number.parse::<u64>().ok());
                let waiter = number.and_then(|number| open.lock().remove(&number));
                match waiter {
                    Some(waiter) => drop(waiter.send(answer)),
                    None => {
                        metrics::counter!(LINK_EVENTS_TOTAL, "link" => "nats", "event" => "late_answer")
                            .increment(1);
                    }
                }
            }
            Err(anyhow::anyhow!("the subscription for answers ended"))
        });
        Ok(Self { prefix, next: AtomicU64::new(0), waiters })
    }

    pub(super) fn expect(&self) -> Waiting {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.waiters.lock().insert(number, sender);
        Waiting { prefix: self.prefix.clone(), number, receiver, waiters: self.waiters.clone() }
    }
}

/// A place for one answer; given up when dropped.
pub(super) struct Waiting {
    prefix: String,
    number: u64,
    receiver: oneshot::Receiver<async_nats::Message>,
    waiters: Waiters,
}

impl Waiting {
    pub(super) fn subject(&self) -> String {
        format!("{}.{}", self.prefix, self.number)
    }

    pub(super) async fn answer(mut self) -> Result<async_nats::Message, ()> {
        (&mut self.receiver).await.map_err(|_| ())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waiters.lock().remove(&self.number);
    }
}
