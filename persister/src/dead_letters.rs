//! Dead letters: told to their topic before they are written (R-PST-4), looked at, replayed and purged by operators (R-PST-5).

use std::{sync::Arc, time::Duration};

use lapwing_runtime::metrics as names;
use tokio_util::sync::CancellationToken;

use crate::{
    db::{self, Borrowed},
    persister::Persister,
};

mod announce;
mod api;
mod ask;
mod replay;
mod table;

pub(crate) use announce::{DeadTopic, TOPIC};
pub(crate) use api::routes;
pub(crate) use ask::answer;

const REPORT: Duration = Duration::from_secs(30);

/// How many are not replayed. Of the table, so the same from each persister.
pub(crate) async fn report(persister: Arc<Persister>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(REPORT);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let counting = async {
            let mut borrowed = Borrowed::from(&persister.db.read, "read").await?;
            let open = table::count_open(borrowed.get()?).await?;
            borrowed.give_back();
            Ok(open)
        };
        match db::within(persister.config.mysql_timeout(), "count dead letters", counting).await {
            Ok(open) => metrics::gauge!(names::DEAD_LETTERS_OPEN).set(open as f64),
            Err(error) => tracing::debug!("dead letters not counted: {error}"),
        }
    }
}
