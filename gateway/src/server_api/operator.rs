//! Tenants and their keys, by the operator's key.

use std::{sync::Arc, time::Duration};

use hyper::{Method, Request, StatusCode, body::Incoming};
use lapwing_model::{Code, Refusal, ids::check_id};
use lapwing_proto::{
    bus::{
        CreateTenant, TenantChange, TenantList, TenantState, Tiers, router_reply, router_request,
        tenant_change::Body,
    },
    record::{ApiKey, TenantRecord},
};
use lapwing_runtime::time::now_ms;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    auth,
    gateway::Gateway,
    http::{self, Answer},
    publish::invalid,
    tenants,
};

const CHANGE_TIMEOUT: Duration = Duration::from_secs(8);

pub(super) async fn route(
    gateway: &Arc<Gateway>,
    request: Request<Incoming>,
    traceparent: &str,
) -> Result<Answer, Refusal> {
    authorise(gateway, http::bearer(&request)?)?;
    let path = request.uri().path().to_owned();
    let segments: Vec<String> = path.trim_matches('/').split('/').skip(2).map(http::percent_decode).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match (request.method().clone(), segments.as_slice()) {
        (Method::POST, []) => {
            let body: NewTenant = http::read_json(request).await?;
            let state = change(gateway, &body.tenant, Body::Create(CreateTenant {}), traceparent).await?;
            Ok(http::json(StatusCode::CREATED, &shown(&body.tenant, &state)))
        }
        (Method::GET, []) => list(gateway, traceparent).await,
        (Method::GET, [tenant]) => {
            check_id("tenant", tenant).map_err(invalid)?;
            gateway.tenants.forget(tenant);
            let state = tenants::get(gateway, tenant).await?;
            if !state.found {
                return Err(Refusal::new(Code::NotFound, format!("there is no tenant {tenant}")));
            }
            Ok(http::json(StatusCode::OK, &shown(tenant, &state)))
        }
        (Method::POST, [tenant, "keys"]) => {
            let body: NewKey = http::read_json(request).await?;
            add_key(gateway, tenant, body, traceparent).await
        }
        (Method::DELETE, [tenant, "keys", name]) => {
            changed(gateway, tenant, Body::RemoveKey((*name).to_owned()), traceparent).await
        }
        (Method::POST, [tenant, "suspend"]) => {
            let body: Suspend = http::read_json(request).await?;
            changed(gateway, tenant, Body::Suspend(body.suspended), traceparent).await
        }
        (Method::PUT, [tenant, "tiers"]) => {
            let NewTiers { realtime_members, broadcast_members } = http::read_json(request).await?;
            changed(gateway, tenant, Body::Tiers(Tiers { realtime_members, broadcast_members }), traceparent)
                .await
        }
        (method, _) => Err(Refusal::new(Code::NotFound, format!("nothing at {method} {path}"))),
    }
}

async fn list(gateway: &Gateway, traceparent: &str) -> Result<Answer, Refusal> {
    let body = router_request::Body::TenantList(TenantList {});
    match gateway.routers.ask_any(body, traceparent, CHANGE_TIMEOUT).await? {
        router_reply::Body::Tenants(tenants) => {
            let row = |record: &TenantRecord| json!({"tenant": record.tenant, "suspended": record.suspended, "keys": record.keys.len()});
            let rows: Vec<_> = tenants.records.iter().map(row).collect();
            Ok(http::json(StatusCode::OK, &json!({ "tenants": rows })))
        }
        _ => Err(Refusal::new(Code::NotReady, "a router answered with something else")),
    }
}

fn authorise(gateway: &Gateway, key: &str) -> Result<(), Refusal> {
    let operator = gateway.config.common.operator_key.as_ref();
    match operator {
        Some(operator) if auth::same_secret(operator.expose(), key) => Ok(()),
        Some(_) => Err(Refusal::new(Code::Unauthenticated, "this is not the operator's key")),
        None => Err(Refusal::new(Code::Unauthenticated, "no operator key is configured on this node")),
    }
}

async fn change(
    gateway: &Gateway,
    tenant: &str,
    body: Body,
    traceparent: &str,
) -> Result<TenantState, Refusal> {
    check_id("tenant", tenant).map_err(invalid)?;
    let change = TenantChange { tenant: tenant.to_owned(), body: Some(body) };
    let body = router_request::Body::TenantChange(change);
    // Whatever becomes of it: what was known before may be wrong now.
    gateway.tenants.forget(tenant);
    match gateway.routers.ask_any(body, traceparent, CHANGE_TIMEOUT).await? {
        router_reply::Body::Tenant(state) => {
            gateway.tenants.changed(tenant, state.clone());
            Ok(state)
        }
        _ => Err(Refusal::new(Code::NotReady, "a router answered with something else")),
    }
}

async fn changed(
    gateway: &Arc<Gateway>,
    tenant: &str,
    body: Body,
    traceparent: &str,
) -> Result<Answer, Refusal> {
    let state = change(gateway, tenant, body, traceparent).await?;
    tenants::recheck(gateway);
    Ok(http::json(StatusCode::OK, &shown(tenant, &state)))
}

async fn add_key(gateway: &Gateway, tenant: &str, new: NewKey, traceparent: &str) -> Result<Answer, Refusal> {
    check_id("tenant", tenant).map_err(invalid)?;
    check_id("key name", &new.name).map_err(invalid)?;
    let (key, hash) = auth::new_api_key(tenant);
    let record = ApiKey { name: new.name.clone(), hash: hash.into(), created_at_ms: now_ms() };
    change(gateway, tenant, Body::AddKey(record), traceparent).await?;
    // Shown this once; only its hash is kept.
    Ok(http::json(StatusCode::CREATED, &json!({"key": key, "name": new.name})))
}

fn shown(tenant: &str, state: &TenantState) -> Value {
    let record = state.record.clone().unwrap_or_default();
    json!({
        "tenant": tenant,
        "generation": state.generation,
        "suspended": record.suspended,
        "keys": record.keys.iter().map(|key| json!({"name": key.name, "created_at_ms": key.created_at_ms})).collect::<Vec<_>>(),
        "realtime_members": record.realtime_members,
        "broadcast_members": record.broadcast_members,
    })
}

#[derive(Deserialize)]
struct NewTenant {
    tenant: String,
}

#[derive(Deserialize)]
struct NewKey {
    name: String,
}

#[derive(Deserialize)]
struct Suspend {
    suspended: bool,
}

#[derive(Deserialize)]
struct NewTiers {
    #[serde(default)]
    realtime_members: u32,
    #[serde(default)]
    broadcast_members: u32,
}
