//! All users of a run, connected: user i to gateway i mod n first, to the others when that one goes away.
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use lapwing_client::{Client, ConnectTimes, Counts, Options, RetryPolicy, proto};

use crate::{
    ledger::{Ledger, micros},
    options::Common,
    percentile::Percentiles,
    receive::{Deliveries, Receiver},
};

pub(crate) struct Fleet {
    pub(crate) clients: Vec<Client>,
    pub(crate) receivers: Vec<Arc<Receiver>>,
    pub(crate) deliveries: Arc<Deliveries>,
    /// Clients that began on each gateway.
    pub(crate) per_gateway: Vec<(String, usize)>,
    pub(crate) connect_seconds: f64,
}

#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct ConnectSteps {
    pub(crate) tcp: Percentiles,
    pub(crate) websocket: Percentiles,
    pub(crate) first_answer: Percentiles,
}

const TOLD_WITHIN: Duration = Duration::from_secs(2);
const AT_ONCE: usize = 48;

impl Fleet {
    pub(crate) async fn connect(
        ledger: &Arc<Ledger>,
        tokens: Vec<String>,
        gateways: &[String],
        common: &Common,
        receipts: bool,
    ) -> anyhow::Result<Self> {
        let began = Instant::now();
        let deliveries = Deliveries::new(ledger.clone());
        let connect = |(user, token): (usize, String)| {
            let deliveries = deliveries.clone();
            async move {
                let receiver = Receiver::new(user as u32, deliveries.clone());
                let mut options = Options::new(String::new(), token, "load");
                options.urls =
                    (0..gateways.len()).map(|k| gateways[(user + k) % gateways.len()].clone()).collect();
                options.encoding = common.encoding;
                options.acks = !common.no_acks;
                options.ack_every =
                    Duration::from_secs_f64(common.ack_every.unwrap_or(1.0).clamp(1.0, 3600.0));
                options.receipts = receipts;
                options.patience = Duration::from_secs(30);
                options.retry =
                    RetryPolicy { max_elapsed: Duration::from_secs(common.retry), ..RetryPolicy::default() };
                let client = Client::connect_raw(options, receiver.clone()).await;
                let name = &deliveries.ledger.users[user];
                Ok((client.with_context(|| format!("user {name} cannot connect"))?, receiver))
            }
        };
        let connected: anyhow::Result<Vec<_>> =
            stream::iter(tokens.into_iter().enumerate()).map(connect).buffered(AT_ONCE).try_collect().await;
        let (clients, receivers): (Vec<_>, Vec<_>) = connected?.into_iter().unzip();
        let n = clients.len();
        let share = |k: usize| n / gateways.len() + usize::from(k < n % gateways.len());
        let per_gateway = gateways.iter().enumerate().map(|(k, url)| (url.clone(), share(k))).collect();
        let connect_seconds = began.elapsed().as_secs_f64();
        Ok(Self { clients, receivers, deliveries, per_gateway, connect_seconds })
    }

    pub(crate) fn connect_steps(&self) -> ConnectSteps {
        let step = |pick: fn(&ConnectTimes) -> Duration| {
            let mut samples: Vec<u32> =
                self.clients.iter().map(|c| micros(pick(&c.times()).as_nanos() as u64)).collect();
            Percentiles::of(&mut samples)
        };
        ConnectSteps {
            tcp: step(|t| t.tcp),
            websocket: step(|t| t.upgrade),
            first_answer: step(|t| t.welcome),
        }
    }

    /// Every member of every conversation sees it, with the head that the others see (R-LT-2).
    pub(crate) async fn precheck(&self, ledger: &Ledger) -> anyhow::Result<usize> {
        let all = ledger.conversations.iter().flat_map(|c| c.members.iter().map(move |user| (c, *user)));
        let check = |(conversation, user): (&crate::ledger::Conversation, u32)| {
            let request = position_of(&conversation.id);
            let id = conversation.id.clone();
            async move {
                let who = &ledger.users[user as usize];
                let page = self.clients[user as usize].history(request).await;
                let page = page.with_context(|| format!("precheck: {who} may not read {id}"))?;
                let index = ledger.find(&id);
                let named = || {
                    let known = self.receivers[user as usize].lines();
                    known.iter().any(|line| Some(line.conversation) == index)
                };
                // What the list lacked at the connect, made a moment before, is announced behind the welcome.
                let told = async {
                    while !named() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                };
                let told = tokio::time::timeout(TOLD_WITHIN, told).await;
                told.map_err(|_| {
                    let head = page.head;
                    anyhow::anyhow!(
                        "precheck: {who} was told of {id} (head {head}) neither by the welcome nor behind it"
                    )
                })?;
                anyhow::Ok(())
            }
        };
        let checked: Vec<()> = stream::iter(all).map(check).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(checked.len())
    }

    pub(crate) fn counts(&self) -> Counts {
        self.clients.iter().map(Client::counts).fold(Counts::default(), |a, b| Counts {
            events: a.events + b.events,
            frames: a.frames + b.frames,
            bytes: a.bytes + b.bytes,
            duplicates: a.duplicates + b.duplicates,
            late: a.late + b.late,
            holes: a.holes + b.holes,
            unannounced: a.unannounced + b.unannounced,
            declared_gaps: a.declared_gaps + b.declared_gaps,
            disconnects: a.disconnects + b.disconnects,
            reconnects: a.reconnects + b.reconnects,
        })
    }

    /// Deliveries of messages that must have been made: each accepted or seen message to each member's session.
    pub(crate) fn expected(&self, ledger: &Ledger) -> u64 {
        let one = |index: usize| {
            let seen = ledger.observed(index as u32).count() as u64;
            seen * ledger.conversations[index].members.len() as u64
        };
        (0..ledger.conversations.len()).map(one).sum()
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.deliveries.messages.load(Relaxed)
    }

    pub(crate) fn latency(&self) -> Vec<u32> {
        let mut all = Vec::new();
        for receiver in &self.receivers {
            all.append(&mut receiver.take_latency());
        }
        all
    }

    /// Each session has exactly what is stored of each of its conversations. In words, what is not so.
    pub(crate) fn incomplete(&self, ledger: &Ledger) -> Vec<String> {
        let mut wrong = Vec::new();
        for (index, conversation) in ledger.conversations.iter().enumerate() {
            let seqs: Vec<u64> = ledger.observed(index as u32).map(|(seq, _)| seq).collect();
            for user in &conversation.members {
                let lines = self.receivers[*user as usize].lines();
                let who = &ledger.users[*user as usize];
                match lines.iter().find(|line| line.conversation == index as u32) {
                    None => wrong.push(format!("{who} was never told of {}", conversation.id)),
                    Some(line) => {
                        let due = seqs.iter().filter(|seq| **seq > line.live_after).count() as u64;
                        if line.messages != due {
                            let (id, has) = (&conversation.id, line.messages);
                            wrong.push(format!(
                                "{who} has {has} of {due} messages of {id}, last seq {}",
                                line.last
                            ));
                        }
                    }
                }
            }
        }
        wrong
    }

    /// All at once, so that the services see every client go in the same moment.
    pub(crate) async fn close(&self) {
        futures::future::join_all(self.clients.iter().map(Client::close)).await;
    }
}

/// A history request for the position alone.
pub(crate) fn position_of(conversation: &str) -> proto::HistoryRequest {
    proto::HistoryRequest { conversation: conversation.to_owned(), limit: 0, ..Default::default() }
}
