//! Changes of conversations, by their owners; idempotent, so they are sent again until one answers.

use std::time::Duration;

use lapwing_model::{
    Code, ConversationKey, Refusal,
    ids::check_id,
    kind::{group_id, p2p_id},
};
use lapwing_proto::{
    bus::{
        AddMembers, Command, CreateGroup, EnsureP2p, RemoveMembers, command::Body, router_reply,
        router_request,
    },
    client,
};
use serde::{Deserialize, Serialize};

use crate::{gateway::Gateway, publish::invalid};

const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// Members of one event (larger lists are split).
const MEMBERS_PER_EVENT: usize = 1000;
const MEMBERS_MAX: usize = 100_000;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    pub history_for_new_members: bool,
    pub title: String,
}

#[derive(Debug, Serialize)]
pub struct Done {
    pub conversation: String,
    pub head: u64,
    pub changed: bool,
}

pub async fn ensure_p2p(
    gateway: &Gateway,
    tenant: &str,
    users: &[String],
    traceparent: &str,
) -> Result<Done, Refusal> {
    let [a, b] = users else {
        return Err(Refusal::new(Code::Invalid, "users must be two"));
    };
    check_users(users)?;
    if a == b {
        return Err(Refusal::new(Code::Invalid, "users must be two different ones"));
    }
    let body = Body::EnsureP2p(EnsureP2p { a: a.clone(), b: b.clone() });
    run(gateway, tenant, p2p_id(tenant, a, b), body, traceparent).await
}

pub async fn create_group(
    gateway: &Gateway,
    tenant: &str,
    name: &str,
    members: Vec<String>,
    settings: Settings,
    traceparent: &str,
) -> Result<Done, Refusal> {
    check_users(&members)?;
    let conversation = group_id(name).map_err(invalid)?;
    let mut lots = members.chunks(MEMBERS_PER_EVENT);
    let create = CreateGroup {
        name: name.to_owned(),
        members: lots.next().unwrap_or_default().to_vec(),
        settings: Some(client::Settings {
            history_for_new_members: settings.history_for_new_members,
            title: settings.title,
            custom: Default::default(),
        }),
    };
    let mut done = run(gateway, tenant, conversation, Body::CreateGroup(create), traceparent).await?;
    for lot in lots {
        let added = add_members(gateway, tenant, name, lot.to_vec(), traceparent).await?;
        done = Done { changed: done.changed || added.changed, ..added };
    }
    Ok(done)
}

pub async fn add_members(
    gateway: &Gateway,
    tenant: &str,
    name: &str,
    users: Vec<String>,
    traceparent: &str,
) -> Result<Done, Refusal> {
    let add = |users| Body::AddMembers(AddMembers { users });
    in_lots(gateway, tenant, name, users, add, traceparent).await
}

pub async fn remove_members(
    gateway: &Gateway,
    tenant: &str,
    name: &str,
    users: Vec<String>,
    traceparent: &str,
) -> Result<Done, Refusal> {
    let remove = |users| Body::RemoveMembers(RemoveMembers { users });
    in_lots(gateway, tenant, name, users, remove, traceparent).await
}

async fn in_lots(
    gateway: &Gateway,
    tenant: &str,
    name: &str,
    users: Vec<String>,
    body: impl Fn(Vec<String>) -> Body,
    traceparent: &str,
) -> Result<Done, Refusal> {
    check_users(&users)?;
    if users.is_empty() {
        return Err(Refusal::new(Code::Invalid, "users is empty"));
    }
    let conversation = group_id(name).map_err(invalid)?;
    let mut changed = false;
    let mut last = None;
    for lot in users.chunks(MEMBERS_PER_EVENT) {
        let done = run(gateway, tenant, conversation.clone(), body(lot.to_vec()), traceparent).await?;
        changed |= done.changed;
        last = Some(done);
    }
    let last = last.ok_or_else(|| Refusal::new(Code::Invalid, "users is empty"))?;
    Ok(Done { changed, ..last })
}

fn check_users(users: &[String]) -> Result<(), Refusal> {
    if users.len() > MEMBERS_MAX {
        return Err(Refusal::new(Code::Invalid, format!("more than {MEMBERS_MAX} users")));
    }
    users.iter().try_for_each(|user| check_id("user", user)).map_err(invalid)
}

async fn run(
    gateway: &Gateway,
    tenant: &str,
    conversation: String,
    body: Body,
    traceparent: &str,
) -> Result<Done, Refusal> {
    let key = ConversationKey::new(tenant, conversation.as_str());
    let partition = gateway.partition(&key)?;
    let command = Command { tenant: tenant.to_owned(), conversation, body: Some(body) };
    let body = router_request::Body::Command(command);
    match gateway.routers.ask_owner(&partition, body, traceparent, COMMAND_TIMEOUT).await? {
        router_reply::Body::Command(reply) => {
            Ok(Done { conversation: reply.conversation, head: reply.head, changed: reply.changed })
        }
        _ => Err(Refusal::new(Code::NotReady, format!("the owner of {key} answered with something else"))),
    }
}
