//! A graceful stop: this node takes no new sessions, tells those it has to move, spread over time, and closes them once
//! their publishes are answered (R-GW-6).

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use lapwing_proto::client::{Moved, server_frame::Body};

use crate::{close::Close, cursors, gateway::Gateway, session::Session};

/// Between the word to move and the close.
const NOTICE: Duration = Duration::from_millis(1000);
/// For publishes that wait for their answers.
const ANSWERS: Duration = Duration::from_secs(5);
const GOODBYES: Duration = Duration::from_secs(2);

pub async fn run(gateway: Arc<Gateway>) {
    gateway.draining.store(true, Ordering::Relaxed);
    let sessions = gateway.sessions.all();
    let spread = gateway.limits.drain_spread;
    tracing::info!(sessions = sessions.len(), ?spread, "moving sessions away");
    let count = sessions.len().max(1) as u32;
    let moves = sessions.into_iter().enumerate().map(|(i, session)| {
        let gateway = gateway.clone();
        async move {
            tokio::time::sleep(spread * i as u32 / count).await;
            move_away(&gateway, &session, i).await;
        }
    });
    stream::iter(moves).buffer_unordered(usize::MAX).collect::<Vec<()>>().await;
    let deadline = Instant::now() + GOODBYES;
    while gateway.sessions.count() > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cursors::flush(&gateway).await;
}

async fn move_away(gateway: &Gateway, session: &Arc<Session>, turn: usize) {
    let url = gateway.nodes.other(&gateway.node, turn, Instant::now()).unwrap_or_default();
    session.push(Body::Moved(Moved { url, within_ms: NOTICE.as_millis() as u32 }));
    let told = Instant::now();
    while !session.is_closing() {
        let waiting = session.lanes.lock().values().any(|lane| !lane.is_empty());
        let passed = told.elapsed();
        if passed >= NOTICE && (!waiting || passed >= ANSWERS) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    session.close(Close::GoingAway);
}
