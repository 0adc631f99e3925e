//! After the last send: every delivery made, every accepted message in MySQL.
use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};

use crate::{
    fleet::{Fleet, position_of},
    ledger::Ledger,
};

#[derive(Debug, Clone, Default, serde::Serialize)]
pub(crate) struct Settled {
    /// Until the last expected delivery, after the last send; None: not all came.
    pub(crate) deliveries_seconds: Option<f64>,
    /// Until the last receipt; None: not all came, or nobody asked.
    pub(crate) receipts_seconds: Option<f64>,
    /// Until persisted_seq had reached the head everywhere; None: it did not within the settle time.
    pub(crate) lag_zero_seconds: Option<f64>,
    /// Conversations that had not.
    pub(crate) behind: usize,
    /// The first of them, with what they said.
    pub(crate) which: Vec<String>,
}

/// Deliveries that have not moved for this long will not come.
const QUIET: Duration = Duration::from_secs(20);
/// Receipts come within seconds of MySQL's commit, also after a change of owner.
const QUIET_RECEIPTS: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(200);

pub(crate) async fn settle(
    fleet: &Fleet,
    ledger: &Ledger,
    last_send: Instant,
    limit: Duration,
    receipts: bool,
) -> Settled {
    let (deliveries_seconds, (lag_zero_seconds, mut which)) =
        tokio::join!(deliveries(fleet, ledger, last_send), lag(fleet, ledger, last_send, limit));
    let behind = which.len();
    which.truncate(20);
    let receipts_seconds = if receipts { receipts_told(ledger, last_send).await } else { None };
    Settled { deliveries_seconds, lag_zero_seconds, receipts_seconds, behind, which }
}

async fn receipts_told(ledger: &Ledger, last_send: Instant) -> Option<f64> {
    let wanted = ledger.receipts_wanted();
    let mut seen = (ledger.receipts_told(), Instant::now());
    while seen.0 < wanted {
        if seen.1.elapsed() > QUIET_RECEIPTS {
            return None;
        }
        tokio::time::sleep(ROUND).await;
        let told = ledger.receipts_told();
        if told != seen.0 {
            seen = (told, Instant::now());
        }
    }
    Some(last_send.elapsed().as_secs_f64())
}

async fn deliveries(fleet: &Fleet, ledger: &Ledger, last_send: Instant) -> Option<f64> {
    let mut seen = (fleet.delivered(), Instant::now());
    loop {
        let (delivered, expected) = (fleet.delivered(), fleet.expected(ledger));
        if delivered >= expected {
            let took = last_send.elapsed().as_secs_f64();
            // What comes twice comes a little later.
            tokio::time::sleep(Duration::from_millis(500)).await;
            return Some(took);
        }
        if delivered != seen.0 {
            seen = (delivered, Instant::now());
        }
        if seen.1.elapsed() > QUIET {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn lag(
    fleet: &Fleet,
    ledger: &Ledger,
    last_send: Instant,
    limit: Duration,
) -> (Option<f64>, Vec<String>) {
    let mut open: Vec<u32> = (0..ledger.conversations.len() as u32).collect();
    loop {
        let asked = stream::iter(open)
            .map(|index| async move { persisted(fleet, ledger, index).await.err().map(|why| (index, why)) });
        let behind: Vec<(u32, String)> =
            asked.buffer_unordered(16).filter_map(|behind| async move { behind }).collect().await;
        if behind.is_empty() {
            return (Some(last_send.elapsed().as_secs_f64()), Vec::new());
        }
        if last_send.elapsed() > limit {
            return (None, behind.into_iter().map(|(_, why)| why).collect());
        }
        open = behind.into_iter().map(|(index, _)| index).collect();
        tokio::time::sleep(ROUND).await;
    }
}

/// Err: why the conversation is not known to be in MySQL up to its head.
async fn persisted(fleet: &Fleet, ledger: &Ledger, index: u32) -> Result<(), String> {
    let conversation = &ledger.conversations[index as usize];
    let Some(user) = conversation.members.first() else {
        return Ok(());
    };
    let mut request = position_of(&conversation.id);
    let head = conversation.head.load(Relaxed);
    request.seen = head;
    match fleet.clients[*user as usize].history(request).await {
        Ok(page) if page.persisted_seq >= head.max(page.head) => Ok(()),
        Ok(page) => Err(format!(
            "{}: persisted_seq {} of head {}",
            conversation.id,
            page.persisted_seq,
            head.max(page.head)
        )),
        Err(error) => Err(format!("{}: no position: {error}", conversation.id)),
    }
}
