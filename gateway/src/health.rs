//! Readiness: NATS and Redis (by their links), and an owner for every partition at the start; a loss later is only shown, so
//! that one lost router or Redis does not turn all gateways un-ready at once (R-SEQ-8).

use std::{sync::Arc, time::Duration};

use lapwing_runtime::{OnError, metrics::PARTITIONS_UNOWNED};

use crate::gateway::Gateway;

const OWNERS: &str = "owners";

pub fn watch(gateway: &Arc<Gateway>) {
    gateway.health.require(OWNERS);
    let owned = gateway.clone();
    gateway.tasks.spawn("owners check", OnError::Log, async move {
        let stop = owned.tasks.stopping();
        let mut once = false;
        loop {
            let state = owned.routers.all_owned();
            metrics::gauge!(PARTITIONS_UNOWNED).set(owned.routers.left_alone() as f64);
            once |= state.is_ok();
            if once {
                owned.health.show(OWNERS, state);
            } else {
                owned.health.set(OWNERS, state);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(200)) => {}
            }
        }
    });
}
