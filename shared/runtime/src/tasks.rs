//! Owned tasks: each has a name, an owner and a word on errors. A panic is an error like any other.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::metrics::TASK_FAILURES_TOTAL;

/// What an error (or a panic) of a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// Write it down; the service goes on.
    Log,
    /// Write it down and stop the whole service: it cannot do its work without this task.
    StopService,
}

/// What a task may end with.
pub trait Outcome: Send + 'static {
    fn into_result(self) -> anyhow::Result<()>;
}

impl Outcome for () {
    fn into_result(self) -> anyhow::Result<()> {
        Ok(())
    }
}

impl<E: Into<anyhow::Error> + Send + 'static> Outcome for Result<(), E> {
    fn into_result(self) -> anyhow::Result<()> {
        self.map_err(Into::into)
    }
}

/// A task that ended a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub task: String,
    pub error: String,
}

/// Spawns and owns tasks. Clones are the same group; [`Tasks::child`] makes a group that can be stopped by itself.
#[derive(Clone)]
pub struct Tasks {
    root: Arc<Root>,
    group: Arc<Group>,
}

struct Root {
    stop: CancellationToken,
    tracker: TaskTracker,
    next_id: AtomicU64,
    running: Mutex<HashMap<u64, Cow<'static, str>>>,
    failure: Mutex<Option<Failure>>,
}

struct Group {
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tasks {
    pub fn new() -> Self {
        let stop = CancellationToken::new();
        let tracker = TaskTracker::new();
        Self {
            root: Arc::new(Root {
                stop: stop.clone(),
                tracker: tracker.clone(),
                next_id: AtomicU64::new(0),
                running: Mutex::new(HashMap::new()),
                failure: Mutex::new(None),
            }),
            group: Arc::new(Group { stop, tracker }),
        }
    }

    /// A group of its own (a partition's tenure, a session) that stops with this one or before it. The root still owns its tasks.
    pub fn child(&self) -> Self {
        Self {
            root: self.root.clone(),
            group: Arc::new(Group { stop: self.group.stop.child_token(), tracker: TaskTracker::new() }),
        }
    }

    /// Tasks watch this and end by themselves: `select! { () = stop.cancelled() => …, … }`. Nothing is ever aborted, since
    /// dropping a database or Kafka future loses its outcome.
    pub fn stopping(&self) -> CancellationToken {
        self.group.stop.clone()
    }

    pub fn is_stopping(&self) -> bool {
        self.group.stop.is_cancelled()
    }

    /// Asks the tasks of this group (and of its children) to end.
    pub fn stop(&self) {
        self.group.stop.cancel();
    }

    /// Ends the whole service as failed, from anywhere.
    pub fn fail(&self, task: &str, error: &anyhow::Error) {
        let mut failure = self.root.failure.lock();
        failure.get_or_insert_with(|| Failure { task: task.to_owned(), error: format!("{error:#}") });
        self.root.stop.cancel();
    }

    /// The first task that stopped the service, if one did.
    pub fn failure(&self) -> Option<Failure> {
        self.root.failure.lock().clone()
    }

    /// Runs a future as a task of this group. The handle may be dropped: the task goes on.
    pub fn spawn<F>(&self, name: impl Into<Cow<'static, str>>, on_error: OnError, future: F) -> JoinHandle<()>
    where
        F: Future + Send + 'static,
        F::Output: Outcome,
    {
        let named = self.enter(name.into());
        let watched = named.watch(on_error, future);
        let tracked = self.root.tracker.track_future(self.group.tracker.track_future(watched));
        #[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
        tokio::spawn(tracked.in_current_span())
    }

    /// A task that serves the others to their very end (a link's reader): a drain does not wait for it, the runtime ends it.
    pub fn spawn_companion<F>(&self, name: impl Into<Cow<'static, str>>, on_error: OnError, future: F)
    where
        F: Future + Send + 'static,
        F::Output: Outcome,
    {
        let named = Named { tasks: self.clone(), id: None, name: name.into() };
        #[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
        tokio::spawn(named.watch(on_error, future).in_current_span());
    }

    /// Runs blocking work on a thread of its own kind; it cannot be stopped, so keep it short.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let named = self.enter(name.into());
        let token = (self.root.tracker.token(), self.group.tracker.token());
        tokio::task::spawn_blocking(move || {
            let _tokens = token;
            let _named = named;
            work()
        })
    }

    /// Waits until every task of this group has ended. Only after [`Tasks::stop`] or from the outside: a task that waits for
    /// its own group waits for ever.
    pub async fn ended(&self) {
        self.group.tracker.close();
        self.group.tracker.wait().await;
    }

    /// Stops the group and waits up to `grace`. `Err` names the tasks that are still running.
    pub async fn drain(&self, grace: Duration) -> Result<(), Vec<String>> {
        self.stop();
        match tokio::time::timeout(grace, self.ended()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.running()),
        }
    }

    /// Names of all running tasks of the service, children's too, sorted.
    pub fn running(&self) -> Vec<String> {
        let mut names: Vec<String> = self.root.running.lock().values().map(ToString::to_string).collect();
        names.sort();
        names
    }

    fn enter(&self, name: Cow<'static, str>) -> Named {
        let id = self.root.next_id.fetch_add(1, Ordering::Relaxed);
        self.root.running.lock().insert(id, name.clone());
        Named { tasks: self.clone(), id: Some(id), name }
    }
}

struct Named {
    tasks: Tasks,
    id: Option<u64>,
    name: Cow<'static, str>,
}

impl Named {
    async fn watch<F>(self, on_error: OnError, future: F)
    where
        F: Future,
        F::Output: Outcome,
    {
        let result = match AssertUnwindSafe(future).catch_unwind().await {
            Ok(outcome) => outcome.into_result(),
            Err(panic) => Err(anyhow::anyhow!("panicked: {}", panic_text(panic.as_ref()))),
        };
        self.finished(on_error, result);
    }

    fn finished(self, on_error: OnError, result: anyhow::Result<()>) {
        let Err(error) = result else { return };
        metrics::counter!(TASK_FAILURES_TOTAL, "task" => self.name.to_string()).increment(1);
        match on_error {
            OnError::Log => tracing::error!(task = %self.name, "task failed, the service goes on: {error:#}"),
            OnError::StopService => {
                tracing::error!(task = %self.name, "task failed, the service stops: {error:#}");
                self.tasks.fail(&self.name, &error);
            }
        }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.tasks.root.running.lock().remove(&id);
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_drain_lets_work_in_flight_end() {
        let tasks = Tasks::new();
        let stop = tasks.stopping();
        let (done, was_done) = tokio::sync::oneshot::channel();
        tasks.spawn("worker", OnError::Log, async move {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_millis(400)).await;
            let _ = done.send(());
        });
        assert_eq!(tasks.running(), ["worker"]);
        assert_eq!(tasks.drain(Duration::from_secs(1)).await, Ok(()));
        assert_eq!(was_done.await, Ok(()));
        assert!(tasks.running().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_outlives_the_grace_is_named() {
        let tasks = Tasks::new();
        tasks.spawn("stubborn", OnError::Log, std::future::pending::<()>());
        assert_eq!(tasks.drain(Duration::from_secs(1)).await, Err(vec!["stubborn".to_owned()]));
    }

    fn boom(text: &str) {
        panic!("boom {text}");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_with_a_name() {
        let tasks = Tasks::new();
        tasks.spawn("logged", OnError::Log, async { boom("only logged") }).await.unwrap();
        assert!(!tasks.is_stopping());
        tasks.spawn("fatal", OnError::StopService, async { boom("7") }).await.unwrap();
        assert!(tasks.is_stopping());
        let failure = tasks.failure().unwrap();
        assert_eq!((failure.task.as_str(), failure.error.as_str()), ("fatal", "panicked: boom 7"));
    }

    #[tokio::test]
    async fn an_error_of_a_child_group_stops_the_service_and_a_stop_of_it_only_itself() {
        let tasks = Tasks::new();
        let child = tasks.child();
        let stop = child.stopping();
        child.spawn("partition", OnError::StopService, async move { stop.cancelled().await });
        child.drain(Duration::from_secs(5)).await.unwrap();
        assert!(child.is_stopping() && !tasks.is_stopping());
        let other = tasks.child();
        other.spawn("partition", OnError::StopService, async { Err(anyhow::anyhow!("lost")) }).await.unwrap();
        assert!(tasks.is_stopping());
        assert_eq!(tasks.failure().unwrap().error, "lost");
    }

    #[tokio::test]
    async fn the_root_waits_for_the_tasks_of_its_children() {
        let tasks = Tasks::new();
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        tasks.child().spawn("child", OnError::Log, async move {
            let _ = released.await;
        });
        assert_eq!(tasks.drain(Duration::from_millis(20)).await, Err(vec!["child".to_owned()]));
        drop(release);
        tasks.ended().await;
    }
}
