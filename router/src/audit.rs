//! Sessions opened and closed, on their way from a gateway to `lapwing.audit`; answered once the log has them.

use std::sync::Arc;

use lapwing_model::{Code, Refusal};
use lapwing_proto::{Message as _, bus::Audit};
use lapwing_runtime::OnError;

use crate::{admit, answer::To, router::Router};

const TOPIC: &str = "lapwing.audit";
const PARTITIONS: u32 = 2;

pub(crate) fn store(router: &Arc<Router>, audit: Audit, to: Option<To>) {
    let Some(record) = audit.record else {
        let refusal = Refusal::new(Code::Invalid, "an audit request without its record");
        return admit::refuse(router, to, &refusal, "");
    };
    // All records of a session stand in one partition, in order.
    let partition = record.session.bytes().fold(0u32, |sum, byte| sum.wrapping_add(byte.into())) % PARTITIONS;
    let sent = router.producer.send(
        TOPIC,
        partition as i32,
        record.session.as_bytes(),
        &[],
        &record.encode_to_vec(),
    );
    let router = router.clone();
    let tasks = router.context.tasks.clone();
    tasks.spawn("audit", OnError::Log, async move {
        let stored = match sent {
            Err(error) => Err(error.to_string()),
            Ok(delivery) => delivery.await.map(drop).map_err(|error| error.to_string()),
        };
        match stored {
            Ok(()) => router.answers.send(to, &admit::done()),
            Err(error) => {
                let refusal = Refusal::new(Code::NotReady, format!("audit not stored: {error}"));
                admit::refuse(&router, to, &refusal, "");
            }
        }
    });
}
