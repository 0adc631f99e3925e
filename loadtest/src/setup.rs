//! A tenant of the run's own, its users' tokens and its conversations, all through the server API.
use std::{future::Future, time::Duration};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use lapwing_client::{ClientError, http::Api};

use crate::target::Target;

pub(crate) struct Setup {
    pub(crate) run: String,
    /// One per gateway, with the tenant's key.
    apis: Vec<Api>,
}

const AT_ONCE: usize = 32;
const TOKEN_TTL: Duration = Duration::from_secs(24 * 3600);
/// How long a refusal that may pass (a key that has not reached this node, a node starting) is retried.
const PATIENCE: Duration = Duration::from_secs(20);

/// `t-` and some letters that no earlier run had.
pub(crate) fn run_name() -> String {
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let letter = |_| char::from(LETTERS[rand::random_range(0..LETTERS.len())]);
    let tail: String = (0..8).map(letter).collect();
    format!("t-{tail}")
}

impl Setup {
    pub(crate) async fn tenant(target: &Target, run: String) -> anyhow::Result<Self> {
        let operator = target.operator();
        retried(|| operator.create_tenant(&run)).await.context("cannot create the run's tenant")?;
        let key =
            retried(|| operator.create_key(&run, "load")).await.context("cannot create the tenant's key")?;
        let apis: Vec<Api> =
            target.apis.iter().map(|base| Api::new(base.clone(), Some(key.clone()))).collect();
        Ok(Self { run, apis })
    }

    pub(crate) fn api(&self, index: usize) -> &Api {
        &self.apis[index % self.apis.len()]
    }

    /// One token a user, in the users' order.
    pub(crate) async fn tokens(&self, users: &[String]) -> anyhow::Result<Vec<String>> {
        let token = |(i, user): (usize, String)| async move {
            retried(|| self.api(i).token(&user, TOKEN_TTL))
                .await
                .with_context(|| format!("no token for {user}"))
        };
        all(users.iter().cloned().enumerate(), token).await
    }

    /// One conversation a pair, in the pairs' order.
    pub(crate) async fn pairs(&self, pairs: &[(String, String)]) -> anyhow::Result<Vec<String>> {
        let pair = |(i, (a, b)): (usize, (String, String))| async move {
            retried(|| self.api(i).ensure_p2p(&a, &b)).await.with_context(|| format!("no p2p of {a} and {b}"))
        };
        all(pairs.iter().cloned().enumerate(), pair).await
    }

    /// One conversation a group, in the groups' order.
    pub(crate) async fn groups(&self, groups: &[(String, Vec<String>)]) -> anyhow::Result<Vec<String>> {
        let group = |(i, (name, members)): (usize, (String, Vec<String>))| async move {
            retried(|| self.api(i).create_group(&name, &members))
                .await
                .with_context(|| format!("no group {name}"))
        };
        all(groups.iter().cloned().enumerate(), group).await
    }
}

async fn all<I, T, F>(items: impl Iterator<Item = I>, work: impl FnMut(I) -> F) -> anyhow::Result<Vec<T>>
where
    F: Future<Output = anyhow::Result<T>>,
{
    stream::iter(items).map(work).buffered(AT_ONCE).try_collect().await
}

async fn retried<T, F>(mut call: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let began = tokio::time::Instant::now();
    loop {
        match call().await {
            Ok(done) => return Ok(done),
            Err(error) if began.elapsed() < PATIENCE && may_pass(&error) => {
                tracing::debug!(%error, "again");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// All of these calls are idempotent, so everything but a definite refusal is tried again.
fn may_pass(error: &ClientError) -> bool {
    !matches!(error.code(), Some(400 | 403 | 404 | 409 | 413))
}
