//! Sessions that publish: each has one message under way, as a gateway's lane has.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use lapwing_model::{ConversationKey, PartitionId, kind};
use lapwing_proto::{
    Message as _,
    bus::{self, RouterReply, RouterRequest, publish_outcome, router_reply, router_request::Body},
    client,
};
use lapwing_router::Router;
use tokio::sync::mpsc;

use super::{
    Answer,
    stages::{self, between},
};
use crate::sample::percentile;

/// No reply for so long: something is broken, not slow.
const SILENCE: Duration = Duration::from_secs(20);
/// Bytes that a request of this form has on the wire besides its body.
const OVERHEAD: usize = 160;

pub(crate) struct Feeder {
    router: Arc<Router>,
    tenant: String,
    text: String,
    sessions: Vec<Session>,
    seqs: Vec<Seqs>,
    replies: mpsc::UnboundedSender<Reply>,
    inbox: mpsc::UnboundedReceiver<Reply>,
}

/// One member of one conversation.
struct Session {
    of: usize,
    key: ConversationKey,
    partition: bus::PartitionId,
    user: String,
    number: u64,
    attempt: u32,
    due: Instant,
}

/// What a conversation's accepted messages got.
#[derive(Default)]
struct Seqs {
    accepted: u64,
    highest: u64,
    sum: u128,
}

struct Reply {
    session: usize,
    payload: Bytes,
}

impl Feeder {
    /// Two members and two sessions for each conversation of a partition that this router serves by now.
    pub(crate) async fn prepare(
        router: &Arc<Router>,
        tenant: &str,
        conversations: usize,
        body: usize,
        partitions: u32,
    ) -> Result<Self> {
        let serving: HashSet<PartitionId> = router.serving().into_iter().collect();
        let (replies, inbox) = mpsc::unbounded_channel();
        let text = "lorem ipsum dolor sit amet ".repeat(body / 27 + 1)[..body].to_owned();
        let (sessions, seqs) = (Vec::new(), Vec::new());
        let mut feeder =
            Self { router: router.clone(), tenant: tenant.to_owned(), text, sessions, seqs, replies, inbox };
        for number in 0..conversations {
            let users = [format!("user{number:04}a"), format!("user{number:04}b")];
            let key = ConversationKey::new(tenant, kind::p2p_id(tenant, &users[0], &users[1]));
            let id = PartitionId::of(&key, partitions).context("a conversation without a partition")?;
            if !serving.contains(&id) {
                continue;
            }
            feeder.make(&key, &id, &users).await?;
            let of = feeder.seqs.len();
            feeder.seqs.push(Seqs::default());
            feeder.sessions.extend(users.map(|user| Session {
                of,
                key: key.clone(),
                partition: (&id).into(),
                user,
                number: 0,
                attempt: 1,
                due: Instant::now(),
            }));
        }
        Ok(feeder)
    }

    pub(crate) fn conversations(&self) -> usize {
        self.seqs.len()
    }

    async fn make(&mut self, key: &ConversationKey, id: &PartitionId, users: &[String; 2]) -> Result<()> {
        let [a, b] = users.clone();
        let command = bus::Command {
            tenant: self.tenant.clone(),
            conversation: key.conversation.to_string(),
            body: Some(bus::command::Body::EnsureP2p(bus::EnsureP2p { a, b })),
        };
        let request = RouterRequest { partition: Some(id.into()), body: Some(Body::Command(command)) };
        let replies = self.replies.clone();
        self.router.request(request, OVERHEAD, move |payload| {
            let _ended = replies.send(Reply { session: 0, payload });
        });
        let reply = tokio::time::timeout(SILENCE, self.inbox.recv()).await?.context("no reply")?;
        match RouterReply::decode(reply.payload)?.body {
            Some(router_reply::Body::Command(_)) => Ok(()),
            other => bail!("{key} was not made: {other:?}"),
        }
    }

    pub(crate) async fn run(&mut self, seconds: f64, in_flight: usize, rate: Option<f64>) -> Result<Answer> {
        let before = stages::read(&lapwing_runtime::metrics::render());
        let mut answer = Answer { conversations: self.seqs.len(), ..Answer::default() };
        let (mut times, mut idle) = (Vec::new(), (0..self.sessions.len()).collect::<VecDeque<_>>());
        let (began, length) = (Instant::now(), Duration::from_secs_f64(seconds));
        let most = in_flight.min(self.sessions.len());
        let (mut under_way, mut sent, mut batch) = (0, 0u64, Vec::with_capacity(1024));
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            let now = Instant::now();
            let over = now - began >= length;
            let due = rate.map_or(u64::MAX, |rate| ((now - began).as_secs_f64() * rate) as u64 + 1);
            while !over && under_way < most && sent < due {
                let Some(session) = idle.pop_front() else { break };
                let when = rate.map_or(now, |rate| began + Duration::from_secs_f64(sent as f64 / rate));
                self.publish(session, when);
                (under_way, sent) = (under_way + 1, sent + 1);
            }
            if over && under_way == 0 {
                break;
            }
            batch.clear();
            tokio::select! {
                count = self.inbox.recv_many(&mut batch, 1024) => ensure!(count > 0, "the router has ended"),
                _ = ticks.tick(), if rate.is_some() && !over => {}
                () = tokio::time::sleep(SILENCE) => bail!("{under_way} messages are without a reply for 20 s"),
            }
            let now = Instant::now();
            for reply in batch.drain(..) {
                under_way -= 1;
                idle.push_back(reply.session);
                if self.settle(&reply, &mut answer)? {
                    times.push((now - self.sessions[reply.session].due).as_micros() as u32);
                }
            }
        }
        answer.seconds = began.elapsed().as_secs_f64();
        answer.unapplied = self.router.unapplied();
        answer.catch_up_s = self.catch_up().await;
        answer.p50_us = percentile(&mut times, 0.5);
        answer.p99_us = percentile(&mut times, 0.99);
        answer.max_us = percentile(&mut times, 1.0);
        answer.wrong = self.seqs.iter().filter(|seqs| !seqs.whole()).count();
        answer.stages = between(&before, &stages::read(&lapwing_runtime::metrics::render()));
        Ok(answer)
    }

    /// Until the views have all, so that the next run begins as this one did; it gives up after a while and says so by its time.
    async fn catch_up(&self) -> f64 {
        let began = Instant::now();
        // A claim or two a partition may stay untold until its next record.
        while self.router.unapplied() > 100 && began.elapsed() < 3 * SILENCE / 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        began.elapsed().as_secs_f64()
    }

    fn publish(&mut self, place: usize, due: Instant) {
        let session = &mut self.sessions[place];
        if session.attempt == 1 {
            session.number += 1;
        }
        session.due = due;
        let content = client::Content {
            body: Some(client::content::Body::Text(self.text.clone())),
            ..client::Content::default()
        };
        let item = bus::PublishItem {
            client_mid: format!("{}-{:012}", session.user, session.number),
            content: Some(content),
            attempt: session.attempt,
            ..bus::PublishItem::default()
        };
        let publish = bus::PublishBatch {
            tenant: self.tenant.clone(),
            conversation: session.key.conversation.to_string(),
            sender: session.user.clone(),
            device: "d1".to_owned(),
            session: session.user.clone(),
            items: vec![item],
            server: false,
            sent_at_ms: lapwing_runtime::time::now_ms(),
        };
        let request =
            RouterRequest { partition: Some(session.partition.clone()), body: Some(Body::Publish(publish)) };
        let (replies, size) = (self.replies.clone(), self.text.len() + OVERHEAD);
        self.router.request(request, size, move |payload| {
            let _ended = replies.send(Reply { session: place, payload });
        });
    }

    /// True: accepted. Only what the owner says it read back counts.
    fn settle(&mut self, reply: &Reply, answer: &mut Answer) -> Result<bool> {
        let session = &mut self.sessions[reply.session];
        let refusal = match RouterReply::decode(reply.payload.clone())?.body {
            Some(router_reply::Body::Publish(mut publish)) => {
                match publish.outcomes.pop().and_then(|outcome| outcome.outcome) {
                    Some(publish_outcome::Outcome::Published(published)) => {
                        session.attempt = 1;
                        self.seqs[session.of].took(published.seq);
                        answer.accepted += 1;
                        return Ok(true);
                    }
                    other => format!("{other:?}"),
                }
            }
            other => format!("{other:?}"),
        };
        session.attempt += 1;
        answer.refused += 1;
        if answer.refusal.is_empty() {
            answer.refusal = refusal;
        }
        Ok(false)
    }
}

impl Seqs {
    fn took(&mut self, seq: u64) {
        self.accepted += 1;
        self.highest = self.highest.max(seq);
        self.sum += u128::from(seq);
    }

    /// Seq 1 made the conversation; behind it each number came once: as many as the highest says, with the sum of them all.
    fn whole(&self) -> bool {
        let highest = u128::from(self.highest.max(1));
        self.accepted == self.highest.max(1) - 1 && self.sum == highest * (highest + 1) / 2 - 1
    }
}
