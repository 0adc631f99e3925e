//! Some of the many, asked as a user: the list, the history, a publish, and a stranger's.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use futures::{StreamExt, stream};
use lapwing_client::{Client, Message, Options, Outcome, Update, Updates, proto};
use lapwing_servers::Cluster;

use super::{OF_A_USER, Planned, Population, planned, user};

/// Users that are asked in one check.
pub(crate) const USERS: u64 = 48;
const AT_ONCE: usize = 4;
const PATIENCE: Duration = Duration::from_secs(20);

impl Population {
    /// In words, what is not as it was; each check asks other conversations, so `round` < 10.
    pub(crate) async fn check(&self, cluster: &Cluster, round: u64) -> Vec<String> {
        let one = |asked: u64| async move {
            let number = (asked * self.users() / USERS + round) % self.users();
            self.check_user(cluster, number, round)
                .await
                .err()
                .map(|why| format!("{}: {why:#}", user(number)))
        };
        stream::iter(0..USERS)
            .map(one)
            .buffer_unordered(AT_ONCE)
            .filter_map(|wrong| async { wrong })
            .collect()
            .await
    }

    async fn check_user(&self, cluster: &Cluster, number: u64, round: u64) -> anyhow::Result<()> {
        let (client, mut updates) = self.client(cluster, number).await?;
        let listed = list(&mut updates, self.of_user(number).len()).await?;
        let wanted = self.of_user(number);
        ensure!(
            listed.keys().cloned().collect::<BTreeSet<_>>() == wanted,
            "{} of {} conversations are in the list",
            listed.keys().filter(|id| wanted.contains(*id)).count(),
            wanted.len()
        );
        let asked = planned(self.users(), number, round);
        ensure!(listed[&asked.id] == 2, "head {} of {}", listed[&asked.id], asked.id);
        history(&client, &asked).await?;
        let message = Message::text(asked.id.as_str(), format!("again-{round}"), "after the rebuild");
        match client.publish(&message).await.outcome {
            Outcome::Accepted(published) => {
                ensure!(published.seq == 3, "seq {} of {}", published.seq, asked.id)
            }
            other => anyhow::bail!("{}: {other:?}", asked.id),
        }
        let (stranger, _updates) = self.client(cluster, (number + self.users() / 2) % self.users()).await?;
        let message = Message::text(asked.id.as_str(), format!("strange-{round}"), "not a member");
        match stranger.publish(&message).await.outcome {
            Outcome::Rejected(error) if matches!(error.code, 403 | 404) => Ok(()),
            other => anyhow::bail!("a stranger in {}: {other:?}", asked.id),
        }
    }

    async fn client(&self, cluster: &Cluster, number: u64) -> anyhow::Result<(Client, Updates)> {
        let token = cluster.token(&self.key, &user(number)).await?;
        let mut options = Options::new(cluster.gateway(0).client_url(), token, "sample");
        options.patience = PATIENCE;
        Ok(Client::connect(options).await?)
    }

    fn of_user(&self, number: u64) -> BTreeSet<String> {
        let users = self.users();
        // Whoever shares a conversation with this user stands before it by no more than this.
        let near = (0..=OF_A_USER).map(|before| (number + users - before) % users);
        near.flat_map(|of| (0..OF_A_USER).map(move |turn| planned(users, of, turn)))
            .filter(|planned| planned.users.contains(&number))
            .map(|planned| planned.id)
            .collect()
    }
}

/// Each conversation of the list with its head.
async fn list(updates: &mut Updates, wanted: usize) -> anyhow::Result<BTreeMap<String, u64>> {
    let (begin, mut listed) = (Instant::now(), BTreeMap::new());
    while listed.len() < wanted && begin.elapsed() < PATIENCE {
        let Ok(next) = tokio::time::timeout(Duration::from_secs(3), updates.next()).await else { break };
        let states = match next.context("the session ended")? {
            Update::Connected(welcome) => welcome.conversations.clone(),
            Update::Conversations(states) => states,
            _ => continue,
        };
        listed.extend(states.into_iter().map(|state| (state.conversation, state.head)));
    }
    Ok(listed)
}

async fn history(client: &Client, planned: &Planned) -> anyhow::Result<()> {
    let request = proto::HistoryRequest {
        conversation: planned.id.clone(),
        after: Some(0),
        limit: 10,
        ..proto::HistoryRequest::default()
    };
    let page = client.history(request).await.with_context(|| format!("history of {}", planned.id))?;
    let seqs: Vec<u64> = page.events.iter().map(|event| event.seq).collect();
    ensure!(seqs == [1, 2], "history of {} has {seqs:?}", planned.id);
    let said = proto::content::Body::Text(planned.text());
    match &page.events[1].body {
        Some(proto::event::Body::Message(content)) if content.body == Some(said) => Ok(()),
        other => anyhow::bail!("history of {} says {other:?}", planned.id),
    }
}
