//! ⑤ answer: replies leave in the order in which they were decided.

use bytes::Bytes;
use lapwing_links::nats::Responder;
use lapwing_proto::{Message as _, bus::RouterReply};
use lapwing_runtime::{
    fail_point, metrics,
    queue::{Queue, Receiver, Sender},
};
use tokio_util::sync::CancellationToken;

/// Where a reply goes.
pub(crate) enum To {
    Nats(Responder),
    /// In this process.
    Here(Box<dyn FnOnce(Bytes) + Send>),
}

pub(crate) struct Answer {
    to: To,
    payload: Bytes,
}

#[derive(Clone)]
pub(crate) struct Handle {
    queue: Sender<Answer>,
}

pub(crate) struct Stage {
    queue: Receiver<Answer>,
}

pub(crate) fn open() -> (Handle, Stage) {
    let (sender, receiver) = Queue::named("answer").items(65_536).bytes(128 << 20).open();
    (Handle { queue: sender }, Stage { queue: receiver })
}

impl Handle {
    /// A full queue drops the answer: the gateway runs into its time-out and asks again with the same client_mid.
    pub(crate) fn send(&self, to: Option<To>, reply: &RouterReply) {
        let Some(to) = to else { return };
        let payload = Bytes::from(reply.encode_to_vec());
        let weight = payload.len();
        if self.queue.try_push(Answer { to, payload }, weight).is_err() {
            self.queue.count_drop();
        }
    }
}

impl Stage {
    /// At the stop what was decided still leaves.
    pub(crate) async fn run(mut self, stopping: CancellationToken) {
        loop {
            let batch = tokio::select! {
                biased;
                batch = self.queue.pop_up_to(256, 1 << 20) => batch,
                () = stopping.cancelled() => return,
            };
            if batch.is_empty() {
                return;
            }
            for Answer { to, payload } in batch {
                let stage = metrics::stage("answer");
                let result = match to {
                    To::Nats(responder) => responder.respond(payload).await,
                    To::Here(answer) => {
                        answer(payload);
                        Ok(())
                    }
                };
                fail_point("answer.after");
                stage.done(if result.is_ok() { "ok" } else { "not_sent" });
            }
        }
    }
}
