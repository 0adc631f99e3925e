//! ⑤ answer: replies leave by NATS, in the order in which they were decided.

use bytes::Bytes;
use lapwing_links::nats::Responder;
use lapwing_proto::{Message as _, bus::RouterReply};
use lapwing_runtime::{
    fail_point, metrics,
    queue::{Queue, Receiver, Sender},
};
use tokio_util::sync::CancellationToken;

pub(crate) struct Answer {
    responder: Responder,
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
    pub(crate) fn send(&self, responder: Option<Responder>, reply: &RouterReply) {
        let Some(responder) = responder else { return };
        let payload = Bytes::from(reply.encode_to_vec());
        let weight = payload.len();
        if self.queue.try_push(Answer { responder, payload }, weight).is_err() {
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
            for Answer { responder, payload } in batch {
                let stage = metrics::stage("answer");
                let result = responder.respond(payload).await;
                fail_point("answer.after");
                stage.done(if result.is_ok() { "ok" } else { "not_sent" });
            }
        }
    }
}
