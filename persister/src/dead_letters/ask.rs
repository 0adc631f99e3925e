//! Which records of a stretch of a partition became dead letters: asked by an owner that tells what those before it left untold
//! (R-ACK-3).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lapwing_links::nats::{Message, Nats, SubscriptionOptions};
use lapwing_model::{Code, PartitionId, Refusal, trace};
use lapwing_proto::{
    Message as _,
    bus::{DeadAsk, DeadReply},
};
use lapwing_runtime::metrics::rpc;

use super::table;
use crate::{
    db::{self, Borrowed},
    history::GROUP,
    persister::Persister,
};

const SUBJECT: &str = "lw.p.dead";
/// Below the time that an owner waits.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// One after the other: asked only after a change of owner.
pub(crate) async fn answer(persister: Arc<Persister>, nats: Nats) -> anyhow::Result<()> {
    let options = SubscriptionOptions::named("dead").items(256).bytes(1 << 20);
    let mut requests = nats.queue_subscribe(SUBJECT, GROUP, options).await?;
    while let Some(request) = requests.next().await {
        let timer = rpc("dead");
        let (result, reply) = reply_to(&persister, &request).await;
        timer.done(result);
        if let Err(error) = request.respond(Bytes::from(reply.encode_to_vec())).await {
            tracing::debug!("answer about dead letters not sent: {error}");
        }
    }
    Ok(())
}

async fn reply_to(persister: &Persister, request: &Message) -> (&'static str, DeadReply) {
    let refused = |code, why: &str| {
        let error = Refusal::new(code, why).to_wire(trace::trace_id_of(request.traceparent()));
        DeadReply { error: Some(error), ..DeadReply::default() }
    };
    let asked = DeadAsk::decode(request.payload.clone()).ok();
    let Some((asked, id)) = asked.and_then(|asked| Some((asked.clone(), asked.partition?))) else {
        return ("invalid", refused(Code::Invalid, "no DeadAsk"));
    };
    let reading = async {
        let mut borrowed = Borrowed::from(&persister.db.read, "read").await?;
        let at = PartitionId::from(&id);
        let offsets = table::offsets(borrowed.get()?, &at, asked.from, asked.to).await?;
        borrowed.give_back();
        Ok(offsets)
    };
    match db::within(TIMEOUT, "dead letters", reading).await {
        Ok(offsets) => {
            let more = offsets.len() == table::OFFSETS as usize;
            ("ok", DeadReply { offsets, more, error: None })
        }
        Err(error) => ("error", refused(Code::NotReady, &format!("MySQL: {error}"))),
    }
}
