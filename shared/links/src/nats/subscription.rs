//! A subscription with a bounded queue of its own behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use lapwing_runtime::queue::{PushError, Queue, Receiver, Sender};
use lapwing_runtime::throttle::Throttle;
use lapwing_runtime::{OnError, Tasks};
use tokio_util::sync::CancellationToken;

use super::{Message, Nats};

/// The queue behind a subscription: its name (a metric label) and its bounds.
#[derive(Debug, Clone, Copy)]
pub struct SubscriptionOptions {
    pub queue: &'static str,
    pub items: usize,
    pub bytes: usize,
}

impl SubscriptionOptions {
    /// 4096 messages, 64 MiB.
    pub fn named(queue: &'static str) -> Self {
        Self { queue, items: 4096, bytes: 64 << 20 }
    }

    pub fn items(mut self, items: usize) -> Self {
        self.items = items;
        self
    }

    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }
}

/// Ends when dropped, or when the service stops: then what is in its queue can still be taken.
pub struct Subscription {
    messages: Receiver<Message>,
    lost: Arc<AtomicU64>,
    end: CancellationToken,
}

impl Subscription {
    /// The next message; `None` once the subscription has ended and its queue is empty.
    pub async fn next(&mut self) -> Option<Message> {
        self.messages.pop().await
    }

    /// Waits for one message, then takes what is there, up to `items` and `bytes`. Empty at the end.
    pub async fn next_up_to(&mut self, items: usize, bytes: usize) -> Vec<Message> {
        self.messages.pop_up_to(items, bytes).await
    }

    /// How many messages were dropped at a full queue since the last call: whoever cannot bear a loss resyncs now.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Unsubscribes; what is in the queue can still be taken. A draining service stops hearing new requests this way first.
    pub fn unsubscribe(&self) {
        self.end.cancel();
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

pub(super) fn start(
    nats: &Nats,
    subscriber: async_nats::Subscriber,
    subject: String,
    options: SubscriptionOptions,
) -> Subscription {
    let (sender, messages) = Queue::named(options.queue).items(options.items).bytes(options.bytes).open();
    let lost = Arc::new(AtomicU64::new(0));
    let tasks: &Tasks = &nats.inner.tasks;
    let end = tasks.stopping().child_token();
    let draining = drain(nats.clone(), subscriber, sender, lost.clone(), end.clone(), subject);
    tasks.spawn(format!("nats subscription {}", options.queue), OnError::StopService, draining);
    Subscription { messages, lost, end }
}

/// Takes messages away from the client at once: its own buffer drops without always saying so.
async fn drain(
    nats: Nats,
    mut subscriber: async_nats::Subscriber,
    queue: Sender<Message>,
    lost: Arc<AtomicU64>,
    end: CancellationToken,
    subject: String,
) -> anyhow::Result<()> {
    let keep =
        |message: async_nats::Message| keep(&queue, &lost, &subject, Message::new(message, nats.clone()));
    loop {
        let message = tokio::select! {
            biased;
            () = end.cancelled() => break,
            message = subscriber.next() => message,
        };
        let Some(message) = message else {
            anyhow::bail!("the subscription to {subject} ended by itself");
        };
        if !keep(message) {
            break;
        }
    }
    // What the client has already taken from the server belongs to us: a queue group would not give it to anybody else.
    let rest = async {
        let _ = subscriber.unsubscribe().await;
        while let Some(message) = subscriber.next().await {
            keep(message);
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(200), rest).await;
    Ok(())
}

/// False once nobody takes from the queue any more.
fn keep(queue: &Sender<Message>, lost: &AtomicU64, subject: &str, message: Message) -> bool {
    static FULL: Throttle = Throttle::every_ms(1000);
    let weight = message.length;
    match queue.try_push(message, weight) {
        Ok(()) => true,
        Err(PushError::Full(_)) => {
            queue.count_drop();
            lost.fetch_add(1, Ordering::Relaxed);
            if let Some(suppressed) = FULL.pass() {
                tracing::warn!(
                    subject,
                    suppressed,
                    "the queue behind this subscription is full, messages are dropped"
                );
            }
            true
        }
        Err(PushError::Closed(_)) => false,
    }
}
