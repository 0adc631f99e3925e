//! What an application holds: publish with typed outcomes, history, cursors, and the session behind it.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::FutureExt;
use lapwing_proto::client::{self as proto, client_frame, server_frame};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    contiguity::Contiguity,
    error::{ClientError, ErrorKind, Step},
    link::Link,
    options::{Options, RetryPolicy},
    outcome::{Answer, Attempts, Next, Outcome, Report},
    session::{self, Sink},
    turns::{Turn, Turns},
    update::{Counters, Counts, Handler, Update},
};

/// The steps of getting a session, each measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectTimes {
    pub tcp: Duration,
    pub upgrade: Duration,
    pub welcome: Duration,
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) lines: Mutex<Contiguity>,
    pub(crate) counters: Counters,
    pub(crate) turns: Turns,
    pub(crate) state: watch::Sender<State>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

#[derive(Clone)]
pub(crate) enum State {
    Offline,
    Online(Arc<Link>, Arc<proto::Welcome>),
    Ended(ClientError),
}

/// A message on its way out. `client_mid` stays the same over all attempts, also over restarts of the application.
#[derive(Debug, Clone)]
pub struct Message {
    pub target: proto::publish::Target,
    pub client_mid: String,
    pub content: proto::Content,
    /// Ask to be told when the message is in MySQL.
    pub receipt: bool,
    /// Attempts made earlier (before a restart), and whether their outcome is open: the next is sent as a retry.
    pub earlier_attempts: u32,
}

impl Message {
    pub fn text(
        conversation: impl Into<String>,
        client_mid: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        let body = proto::content::Body::Text(text.into());
        Self::new(proto::publish::Target::Conversation(conversation.into()), client_mid, body)
    }

    pub fn data(conversation: impl Into<String>, client_mid: impl Into<String>, data: Bytes) -> Self {
        let body = proto::content::Body::Data(data);
        Self::new(proto::publish::Target::Conversation(conversation.into()), client_mid, body)
    }

    pub fn to_user(user: impl Into<String>, client_mid: impl Into<String>, text: impl Into<String>) -> Self {
        let body = proto::content::Body::Text(text.into());
        Self::new(proto::publish::Target::ToUser(user.into()), client_mid, body)
    }

    fn new(
        target: proto::publish::Target,
        client_mid: impl Into<String>,
        body: proto::content::Body,
    ) -> Self {
        let content = proto::Content { r#type: String::new(), body: Some(body) };
        Self { target, client_mid: client_mid.into(), content, receipt: false, earlier_attempts: 0 }
    }

    fn attempt(&self, number: u32, age: Duration) -> client_frame::Body {
        client_frame::Body::Publish(proto::Publish {
            target: Some(self.target.clone()),
            client_mid: self.client_mid.clone(),
            content: Some(self.content.clone()),
            attempt: number,
            first_attempt_age_ms: age.as_millis() as u64,
            receipt: self.receipt,
        })
    }
}

/// The typed stream: bounded, so an application that does not read holds up its own connection only.
pub struct Updates {
    queue: mpsc::Receiver<Update>,
}

impl Updates {
    /// The next update; `None` once the client has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Update> {
        self.queue.recv().await
    }
}

/// Closed by `close` or when the last clone is dropped.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    times: ConnectTimes,
    _guard: Arc<tokio_util::sync::DropGuard>,
}

impl Client {
    /// Connects, and hands events over through a bounded queue.
    pub async fn connect(options: Options) -> Result<(Client, Updates), ClientError> {
        let (queue, updates) = mpsc::channel(options.event_queue.max(1));
        let client = Self::start(options, Sink::Queue(queue)).await?;
        Ok((client, Updates { queue: updates }))
    }

    /// Connects, and shows events in place to `handler`.
    pub async fn connect_raw(options: Options, handler: Arc<dyn Handler>) -> Result<Client, ClientError> {
        Self::start(options, Sink::Raw(handler)).await
    }

    async fn start(options: Options, sink: Sink) -> Result<Client, ClientError> {
        if options.urls.is_empty() {
            let kind = ErrorKind::Offline("no gateway address given".into());
            return Err(ClientError::new(Step::Nodes, "", kind));
        }
        let lines = Contiguity::with_cursors(options.cursors.iter().map(|(c, seq)| (c.as_str(), *seq)));
        let stop = CancellationToken::new();
        let guard = Arc::new(stop.clone().drop_guard());
        let shared = Arc::new(Shared {
            options,
            lines: Mutex::new(lines),
            counters: Counters::default(),
            turns: Turns::default(),
            state: watch::channel(State::Offline).0,
            stop,
            tasks: TaskTracker::new(),
        });
        let (first, connected) = oneshot::channel();
        shared.tasks.spawn(session::run(shared.clone(), sink, first));
        match connected.await {
            Ok(times) => Ok(Client { shared, times: times?, _guard: guard }),
            Err(_) => {
                let kind = ErrorKind::Offline("the session task ended".into());
                Err(ClientError::new(Step::Connect, "", kind))
            }
        }
    }

    /// How long the first session took to get.
    pub fn times(&self) -> ConnectTimes {
        self.times
    }

    pub fn counts(&self) -> Counts {
        self.shared.counters.counts()
    }

    pub fn is_online(&self) -> bool {
        matches!(*self.shared.state.borrow(), State::Online(..))
    }

    /// The current session's welcome.
    pub fn welcome(&self) -> Option<Arc<proto::Welcome>> {
        match &*self.shared.state.borrow() {
            State::Online(_, welcome) => Some(welcome.clone()),
            _ => None,
        }
    }

    /// Newest seq held, per conversation: to be kept by an application that wants to go on there after a restart.
    pub fn cursors(&self) -> Vec<(String, u64)> {
        self.shared.lines.lock().cursors()
    }

    pub fn cursor(&self, conversation: &str) -> Option<u64> {
        self.shared.lines.lock().cursor(conversation)
    }

    /// Publishes with the client's own retry policy.
    pub async fn publish(&self, message: &Message) -> Report {
        self.publish_with(message, self.shared.options.retry).await
    }

    /// Publishes until the outcome is known or the policy gives up; never sends with another client_mid.
    pub async fn publish_with(&self, message: &Message, policy: RetryPolicy) -> Report {
        let began = Instant::now();
        let mut attempts = Attempts::new(policy);
        attempts.unanswered = message.earlier_attempts > 0;
        let turn = self.shared.turns.enter(&message.target);
        let outcome = loop {
            attempts.count += 1;
            let number = message.earlier_attempts + attempts.count;
            let left = policy.max_elapsed.saturating_sub(began.elapsed());
            let answer = match timeout(left, self.my_turn(&turn, left)).await {
                Ok(Ok(link)) => self.attempt(&link, message, number, began.elapsed(), &turn).await,
                Ok(Err(error)) => Answer::NotSent(error.to_string()),
                Err(_) => Answer::NotSent("a message before it still waits to be sent".to_owned()),
            };
            turn.waits();
            let never = matches!(*self.shared.state.borrow(), State::Ended(_));
            match attempts.answer(answer.clone(), began.elapsed()) {
                Next::Done(outcome) => break outcome,
                Next::Retry { .. } if never => break attempts.give_up(&answer),
                Next::Retry { after, refresh } => {
                    if refresh && !self.renew().await {
                        break attempts.give_up(&answer);
                    }
                    tokio::time::sleep(after).await;
                }
            }
        };
        let was_unknown = attempts.unanswered;
        let Attempts { count, codes, refusals, .. } = attempts;
        Report { outcome, attempts: count, codes, refusals, was_unknown }
    }

    /// The live link, as soon as nothing before it waits to be sent.
    async fn my_turn(&self, turn: &Turn<'_>, left: Duration) -> Result<Arc<Link>, ClientError> {
        loop {
            turn.come().await;
            let link = self.online(left).await?;
            if turn.come().now_or_never().is_some() {
                return Ok(link);
            }
        }
    }

    async fn attempt(
        &self,
        link: &Link,
        message: &Message,
        number: u32,
        age: Duration,
        turn: &Turn<'_>,
    ) -> Answer {
        let limit = self.shared.options.answer_timeout;
        match link.request_told(message.attempt(number, age), limit, || turn.sent()).await {
            Ok(server_frame::Body::Published(published)) => Answer::Published(published),
            Ok(server_frame::Body::Error(error)) => Answer::Refused(error),
            Ok(_) => Answer::Closed("an answer of another kind".into()),
            Err(silence) => silence.into(),
        }
    }

    async fn renew(&self) -> bool {
        if !self.shared.options.token.renewable() {
            return false;
        }
        match self.shared.options.token.get().await {
            Ok(token) => self.refresh(token).await.is_ok(),
            Err(_) => false,
        }
    }

    pub async fn history(&self, request: proto::HistoryRequest) -> Result<proto::HistoryPage, ClientError> {
        match self.request(Step::History, client_frame::Body::History(request)).await? {
            (_, server_frame::Body::History(page)) => Ok(page),
            (link, other) => Err(unexpected(Step::History, &link, other)),
        }
    }

    /// Asks for the events behind `seq` to be pushed (again).
    pub async fn sync(&self, conversation: &str, seq: u64) -> Result<(), ClientError> {
        let sync = proto::Sync { conversation: conversation.to_owned(), seq };
        self.expect_ok(Step::Sync, client_frame::Body::Sync(sync)).await
    }

    /// Puts a new token under the live session.
    pub async fn refresh(&self, token: String) -> Result<(), ClientError> {
        self.expect_ok(Step::Refresh, client_frame::Body::Refresh(proto::Refresh { token })).await
    }

    /// Cumulative: read up to `seq`. False: nothing was sent, call again with the next one.
    pub fn read(&self, conversation: &str, seq: u64) -> bool {
        self.cast(client_frame::Body::Read(proto::Read { conversation: conversation.to_owned(), seq }))
    }

    /// Cumulative: delivered up to `seq`. Only for applications that switched `Options::acks` off.
    pub fn ack(&self, conversation: &str, seq: u64) -> bool {
        self.cast(client_frame::Body::Ack(proto::Ack { conversation: conversation.to_owned(), seq }))
    }

    fn cast(&self, body: client_frame::Body) -> bool {
        match &*self.shared.state.borrow() {
            State::Online(link, _) => link.cast(body),
            _ => false,
        }
    }

    async fn expect_ok(&self, step: Step, body: client_frame::Body) -> Result<(), ClientError> {
        match self.request(step, body).await? {
            (_, server_frame::Body::Ok(_)) => Ok(()),
            (link, other) => Err(unexpected(step, &link, other)),
        }
    }

    async fn request(
        &self,
        step: Step,
        body: client_frame::Body,
    ) -> Result<(Arc<Link>, server_frame::Body), ClientError> {
        let limit = self.shared.options.answer_timeout;
        let link = self.online(limit).await.map_err(|error| ClientError { step, ..error })?;
        match link.request(body, limit).await {
            Ok(body) => Ok((link, body)),
            Err(silence) => Err(link.silence(step, silence, limit)),
        }
    }

    /// The live link, waiting for a reconnect if need be.
    async fn online(&self, limit: Duration) -> Result<Arc<Link>, ClientError> {
        let mut state = self.shared.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Offline));
        match tokio::time::timeout(limit, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Online(link, _) => Ok(link.clone()),
                State::Ended(error) => Err(error.clone()),
                State::Offline => Err(ClientError::new(Step::Dial, "", ErrorKind::Timeout(limit))),
            },
            _ => Err(ClientError::new(
                Step::Dial,
                self.shared.options.urls.join(" "),
                ErrorKind::Timeout(limit),
            )),
        }
    }

    /// Waits until a session is up.
    pub async fn wait_online(&self, limit: Duration) -> Result<(), ClientError> {
        self.online(limit).await.map(drop)
    }

    /// Closes the session and waits for its tasks.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        let ended = tokio::time::timeout(Duration::from_secs(5), self.shared.tasks.wait());
        if ended.await.is_err() {
            tracing::debug!("a session task did not end within 5 s of the close");
        }
    }
}

fn unexpected(step: Step, link: &Link, body: server_frame::Body) -> ClientError {
    let kind = match body {
        server_frame::Body::Error(error) => ErrorKind::Answer(Box::new(error)),
        other => ErrorKind::Protocol(format!("an answer of another kind: {other:?}")),
    };
    ClientError::new(step, link.address.clone(), kind)
}

impl Outcome {
    /// It stands in the log.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Outcome::Accepted(_) | Outcome::Duplicate(_))
    }
}
