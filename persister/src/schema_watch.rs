//! The schema while it is worked with (R-PST-6): a change is told in readiness, the work goes on. What then does not fit becomes
//! a dead letter, and everybody knows why.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use lapwing_runtime::throttle::Throttle;

use crate::{db, persister::Persister, schema};

/// Below the time in which a lease would be lost, should this hold one of the connections for leases.
const LIMIT: Duration = Duration::from_secs(2);

static CHANGED: LazyLock<Throttle> = LazyLock::new(|| Throttle::every_ms(60_000));

pub(crate) async fn run(persister: Arc<Persister>) -> anyhow::Result<()> {
    let stop = persister.context.stopping();
    let every = Duration::from_millis(persister.config.schema_every_ms.max(100));
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(every) => {}
        }
        let state = match db::within(LIMIT, "schema", schema::mismatches(&persister.db)).await {
            Ok(wrong) if wrong.is_empty() => Ok(()),
            Ok(wrong) => Err(wrong.join("; ")),
            // That MySQL does not answer is told by the leases; what was found last still holds.
            Err(error) => {
                tracing::debug!("the schema was not read: {error}");
                continue;
            }
        };
        if let (Err(why), Some(_)) = (&state, CHANGED.pass()) {
            tracing::error!("ALARM: the schema has changed: {why}");
        }
        persister.context.health.set("schema", state);
    }
}
