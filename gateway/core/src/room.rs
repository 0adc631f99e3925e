//! One conversation on this node: its local sessions and the order in which each gets the events (I4): contiguous,
//! ascending, once. What is missing is fetched, by the room for all sessions or by one session for itself.

use std::{collections::HashMap, sync::Arc};

use lapwing_proto::client::GapReason;

use crate::{
    EventFrame,
    ring::{Ring, RingBudget, RingLimit},
};

/// A session's end of a delivery.
pub trait Sink: Clone {
    fn id(&self) -> u64;
    /// False: its queue is over the watermark; the session is brought up to date later.
    fn push(&self, frame: &Arc<EventFrame>) -> bool;
    /// Tells that from…to will not come.
    fn gap(&self, from: u64, to: u64, reason: GapReason);
    /// It has everything before `next` and left with its user's removal: attached again, it begins there at the earliest.
    fn ended(&self, next: u64);
}

/// What the shell has to do after an input.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Fetch from `missing()` on for all sessions; `soon`: not at once, the events may be under way.
    FetchRoom { soon: bool },
    /// Bring this session up to date: task number `run` of session `session`.
    CatchUp { session: u64, run: u64 },
    /// The session was announced as a member again behind its removal: attach it anew.
    Rejoin { session: u64 },
}

struct Sub<S> {
    sink: S,
    user: Arc<str>,
    first: u64, // what came before is not for this user
    next: u64,
    to: u64,          // 0: open; else the last seq that the user may see
    announced: u64,   // newest seq at which the user was announced as a member
    run: Option<u64>, // number of its catch-up; live without one
}

pub struct Room<S> {
    /// The next event that the room expects; 0 while the owner has not told the head.
    next: u64,
    /// The highest seq that anybody spoke of.
    known: u64,
    n: u64,
    fetching: bool,
    subs: Vec<Sub<S>>,
    ring: Ring,
    runs: u64,
    /// Users' last removals that passed here: an owner's answer may be older than they are.
    left: HashMap<Arc<str>, u64>,
    /// Sessions that are being attached: the room must not be forgotten under them.
    pub entering: u32,
}

/// A session as the room takes it in.
pub struct Attach<S> {
    pub sink: S,
    pub user: Arc<str>,
    /// Deliver from here on; None: from behind the newest event on.
    pub from: Option<u64>,
    /// The first and the last seq that the user may see; 0 = open.
    pub first: u64,
    pub to: u64,
    pub announced: u64,
}

/// Where an attached session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    pub live_after: u64,
    pub head: u64,
    pub n: u64,
    /// It was attached before; nothing was changed.
    pub already: bool,
}

/// What a catch-up does next.
pub enum Next {
    /// Events were delivered from memory; call again (the queue may need time).
    Some,
    /// Fetch from here to there, tell it by `handle_fetched`.
    Fetch { from: u64, to: u64 },
    /// Live again, or gone.
    Done,
}

impl<S: Sink> Room<S> {
    pub fn new(limit: RingLimit, shared: Arc<RingBudget>) -> Self {
        Self {
            next: 0,
            known: 0,
            n: 0,
            fetching: false,
            subs: Vec::new(),
            ring: Ring::new(limit, shared),
            runs: 0,
            left: HashMap::new(),
            entering: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.subs.is_empty() && self.entering == 0
    }

    pub fn len(&self) -> usize {
        self.subs.len()
    }

    pub fn known(&self) -> u64 {
        self.known.max(self.next.saturating_sub(1))
    }

    pub fn last(&self) -> Option<&Arc<EventFrame>> {
        self.ring.last().filter(|last| last.seq + 1 == self.next)
    }

    pub fn sinks(&self) -> impl Iterator<Item = (&S, &Arc<str>)> {
        self.subs.iter().map(|sub| (&sub.sink, &sub.user))
    }

    /// An event from the owner's lane; the hot path: one push a live session.
    pub fn handle_event(&mut self, frame: &Arc<EventFrame>, effects: &mut Vec<Effect>) {
        self.known = self.known.max(frame.seq);
        self.remember_left(frame);
        if self.next == 0 || frame.seq < self.next || self.fetching {
            return;
        }
        if frame.seq > self.next {
            self.fetching = true;
            effects.push(Effect::FetchRoom { soon: false });
            return;
        }
        self.deliver(frame, effects);
    }

    fn remember_left(&mut self, frame: &EventFrame) {
        for user in &frame.left {
            let last = self.left.entry(user.as_str().into()).or_default();
            *last = (*last).max(frame.seq);
        }
    }

    fn deliver(&mut self, frame: &Arc<EventFrame>, effects: &mut Vec<Effect>) {
        let seq = frame.seq;
        self.remember_left(frame);
        for sub in &mut self.subs {
            if sub.next != seq || sub.run.is_some() {
                continue;
            }
            if sub.sink.push(frame) {
                sub.next = seq + 1;
            } else {
                self.runs += 1;
                sub.run = Some(self.runs);
                effects.push(Effect::CatchUp { session: sub.sink.id(), run: self.runs });
            }
        }
        self.next = seq + 1;
        self.n = frame.n;
        self.ring.push(frame);
        for user in &frame.left {
            self.end(user, seq);
        }
        self.drop_ended(effects);
    }

    /// The user sees nothing after `seq`; a session that is behind gets the events up to there first.
    pub fn handle_left(&mut self, user: &str, seq: u64, effects: &mut Vec<Effect>) {
        self.end(user, seq);
        self.drop_ended(effects);
    }

    fn end(&mut self, user: &str, seq: u64) {
        for sub in self.subs.iter_mut().filter(|sub| &*sub.user == user && sub.to == 0 && sub.next <= seq + 1)
        {
            sub.to = seq;
        }
    }

    fn drop_ended(&mut self, effects: &mut Vec<Effect>) {
        self.subs.retain(|sub| {
            let over = sub.to > 0 && sub.next > sub.to;
            if over {
                sub.sink.ended(sub.next);
            }
            if over && sub.announced > sub.to {
                effects.push(Effect::Rejoin { session: sub.sink.id() });
            }
            !over
        });
    }

    /// Somebody says that the conversation has come to `head`.
    pub fn handle_head(&mut self, head: u64, soon: bool, effects: &mut Vec<Effect>) {
        self.known = self.known.max(head);
        if self.next > 0 && self.known >= self.next && !self.fetching {
            self.fetching = true;
            effects.push(Effect::FetchRoom { soon });
        }
    }

    /// The owner told the head to a node that attaches.
    pub fn handle_owner_head(&mut self, head: u64, n: u64, effects: &mut Vec<Effect>) {
        if self.next == 0 {
            self.next = head + 1;
            self.n = n;
        }
        self.handle_head(head, true, effects);
    }

    pub fn attach(&mut self, new: Attach<S>, effects: &mut Vec<Effect>) -> Attached {
        let (head, n) = (self.next.saturating_sub(1), self.n);
        if let Some(sub) = self.subs.iter_mut().find(|sub| sub.sink.id() == new.sink.id()) {
            sub.announced = sub.announced.max(new.announced);
            return Attached { live_after: sub.next - 1, head, n, already: true };
        }
        // A client that claims to be ahead of everything is told where it is.
        let next = new.from.unwrap_or(head + 1).min(self.known() + 1).max(new.first);
        let to = match self.left.get(&new.user) {
            Some(left) if new.to == 0 && *left >= new.first => *left,
            _ => new.to,
        };
        let end = if to > 0 { to.min(head) } else { head };
        let behind = next <= end;
        if behind || to == 0 || next <= to {
            self.runs += 1;
            let run = behind.then_some(self.runs);
            let session = new.sink.id();
            self.subs.push(Sub {
                sink: new.sink,
                user: new.user,
                first: new.first,
                next,
                to,
                announced: new.announced,
                run,
            });
            effects.extend(run.map(|run| Effect::CatchUp { session, run }));
        }
        Attached { live_after: next - 1, head, n, already: false }
    }

    /// The user was announced as a member at `seq`; true: this session is not attached yet.
    pub fn announce(&mut self, session: u64, seq: u64) -> bool {
        match self.subs.iter_mut().find(|sub| sub.sink.id() == session) {
            Some(sub) => {
                sub.announced = sub.announced.max(seq);
                false
            }
            None => true,
        }
    }

    pub fn detach(&mut self, session: u64) {
        self.subs.retain(|sub| sub.sink.id() != session);
    }

    /// The session asks for everything after `seq` again; false: it is not attached here.
    pub fn sync(&mut self, session: u64, seq: u64, effects: &mut Vec<Effect>) -> bool {
        let head = self.next;
        let Some(sub) = self.subs.iter_mut().find(|sub| sub.sink.id() == session) else { return false };
        sub.next = seq.saturating_add(1).min(head.max(sub.next)).max(sub.first);
        if sub.next < head {
            self.runs += 1;
            sub.run = Some(self.runs);
            effects.push(Effect::CatchUp { session, run: self.runs });
        }
        true
    }

    /// What the room itself lacks; None: it is live again.
    pub fn missing(&mut self) -> Option<(u64, u64)> {
        if self.next <= self.known && !self.subs.is_empty() {
            return Some((self.next, self.known));
        }
        self.fetching = false;
        if self.next <= self.known {
            // Nobody is here who would need them; the next one starts behind the head.
            self.next = self.known + 1;
            self.ring.clear();
        }
        None
    }

    /// The room cannot be brought up to date: its sessions must begin anew.
    pub fn abandon(&mut self) -> Vec<S> {
        std::mem::take(&mut self.subs).into_iter().map(|sub| sub.sink).collect()
    }

    /// An event of a fetch for the room.
    pub fn handle_fetched(&mut self, frame: &Arc<EventFrame>, effects: &mut Vec<Effect>) {
        if frame.seq == self.next {
            self.deliver(frame, effects);
        }
    }

    /// from…to cannot be had any more: told to those who wait for it.
    pub fn handle_gap(&mut self, from: u64, to: u64, reason: GapReason) {
        if from > self.next || to < self.next {
            return;
        }
        for sub in self.subs.iter_mut().filter(|sub| sub.run.is_none() && sub.next >= from && sub.next <= to)
        {
            sub.sink.gap(sub.next, to, reason);
            sub.next = to + 1;
        }
        self.next = to + 1;
        self.ring.clear();
    }

    /// One step of the catch-up `run` of a session: from memory if possible, at most `budget` bytes.
    pub fn catch_up(&mut self, session: u64, run: u64, budget: usize) -> Next {
        let room_next = self.next;
        let Some(sub) = self.subs.iter_mut().find(|sub| sub.sink.id() == session && sub.run == Some(run))
        else {
            return Next::Done;
        };
        let mut bytes = 0;
        let from = sub.next;
        for frame in self.ring.from(from) {
            if (sub.to > 0 && frame.seq > sub.to) || (bytes > 0 && bytes + frame.len() > budget) {
                break;
            }
            if !sub.sink.push(frame) {
                return Next::Some;
            }
            bytes += frame.len();
            sub.next = frame.seq + 1;
        }
        if sub.to > 0 && sub.next > sub.to {
            sub.sink.ended(sub.next);
            self.drop_session(session);
            return Next::Done;
        }
        if sub.next >= room_next {
            sub.run = None;
            return Next::Done;
        }
        if sub.next > from {
            return Next::Some;
        }
        let last = room_next - 1;
        Next::Fetch { from, to: if sub.to > 0 { last.min(sub.to) } else { last } }
    }

    fn drop_session(&mut self, session: u64) {
        self.subs.retain(|sub| sub.sink.id() != session);
    }

    /// An event that was fetched for a session; false: its queue is full or the run is over, fetch again later.
    pub fn handle_fetched_for(&mut self, session: u64, run: u64, frame: &Arc<EventFrame>) -> bool {
        let sub = self.subs.iter_mut().find(|sub| sub.sink.id() == session && sub.run == Some(run));
        let Some(sub) = sub else { return false };
        if frame.seq != sub.next {
            return frame.seq < sub.next;
        }
        let pushed = sub.sink.push(frame);
        if pushed {
            sub.next += 1;
        }
        pushed
    }

    /// from…to is not for this session, or cannot be had: told, and passed.
    pub fn handle_gap_for(&mut self, session: u64, run: u64, from: u64, to: u64, reason: GapReason) {
        let sub = self.subs.iter_mut().find(|sub| sub.sink.id() == session && sub.run == Some(run));
        if let Some(sub) = sub.filter(|sub| from <= sub.next && sub.next <= to) {
            sub.sink.gap(sub.next, to, reason);
            sub.next = to + 1;
        }
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
