//! Publishes of one conversation leave in the order in which they were handed in, also when they have to leave again:
//! what was refused for now, or stayed without an answer, holds back what stands behind it until it is sent (R-SEQ-11).
use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use lapwing_proto::client::publish::Target;
use parking_lot::Mutex;
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Turns {
    next: AtomicU64,
    /// Tickets that wait to be sent; what is in flight is not among them.
    waiting: Mutex<HashMap<String, BTreeSet<u64>>>,
    moved: Notify,
}

/// One message's place, from the call to its outcome.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    key: String,
    ticket: u64,
}

impl Turns {
    pub(crate) fn enter(&self, target: &Target) -> Turn<'_> {
        let key = match target {
            Target::Conversation(conversation) => conversation.clone(),
            // No conversation's id begins so.
            Target::ToUser(user) => format!("@{user}"),
        };
        let turn = Turn { turns: self, key, ticket: self.next.fetch_add(1, Relaxed) };
        turn.waits();
        turn
    }
}

impl Turn<'_> {
    /// It has to be sent (again).
    pub(crate) fn waits(&self) {
        self.turns.waiting.lock().entry(self.key.clone()).or_default().insert(self.ticket);
    }

    /// It is on its way: who stands behind it may go.
    pub(crate) fn sent(&self) {
        let mut waiting = self.turns.waiting.lock();
        if let Some(tickets) = waiting.get_mut(&self.key) {
            tickets.remove(&self.ticket);
            if tickets.is_empty() {
                waiting.remove(&self.key);
            }
        }
        drop(waiting);
        self.turns.moved.notify_waiters();
    }

    /// Until nothing that was handed in before it waits to be sent.
    pub(crate) async fn come(&self) {
        loop {
            let moved = self.turns.moved.notified();
            tokio::pin!(moved);
            // Before the look, so that a move between look and wait is not missed.
            moved.as_mut().enable();
            if self.is_first() {
                return;
            }
            moved.await;
        }
    }

    fn is_first(&self) -> bool {
        let waiting = self.turns.waiting.lock();
        waiting.get(&self.key).and_then(BTreeSet::first).is_none_or(|first| *first >= self.ticket)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.sent();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn target(conversation: &str) -> Target {
        Target::Conversation(conversation.to_owned())
    }

    // R-SEQ-11
    #[test]
    fn what_has_to_leave_again_holds_back_what_stands_behind_it() {
        let turns = Turns::default();
        let (first, second, other) =
            (turns.enter(&target("a")), turns.enter(&target("a")), turns.enter(&target("b")));
        assert!(first.come().now_or_never().is_some() && other.come().now_or_never().is_some());
        assert!(second.come().now_or_never().is_none(), "the first is not sent");
        first.sent();
        assert!(second.come().now_or_never().is_some(), "both may be in flight");
        second.sent();
        let third = turns.enter(&target("a"));
        first.waits();
        second.waits();
        assert!(first.come().now_or_never().is_some());
        assert!(second.come().now_or_never().is_none() && third.come().now_or_never().is_none());
        first.sent();
        assert!(second.come().now_or_never().is_some() && third.come().now_or_never().is_none());
        drop(second);
        assert!(third.come().now_or_never().is_some(), "one that was given up holds nobody back");
        drop((first, third, other));
        assert!(turns.waiting.lock().is_empty());
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let turns = Turns::default();
        let (first, second) = (turns.enter(&target("a")), turns.enter(&target("a")));
        let sending = async {
            tokio::task::yield_now().await;
            first.sent();
        };
        tokio::join!(second.come(), sending);
    }
}
