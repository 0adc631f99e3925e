//! Where partitions and tenants are, how far a move has come, and the wish for one.

use std::{collections::BTreeMap, sync::Arc};

use lapwing_model::bucket::BUCKETS;
use lapwing_runtime::admin::{AdminError, AdminRequest};
use serde_json::{Value, json};

use crate::{
    db::{self, Borrowed},
    persister::Persister,
    places,
};

pub(super) fn routes(persister: &Arc<Persister>) {
    let admin = &persister.context.admin;
    let shared = persister.clone();
    admin.route("GET", "/admin/placement", move |_| {
        let persister = shared.clone();
        async move { Ok(show(&persister).await?) }
    });
    let shared = persister.clone();
    admin.route("POST", "/admin/move-range", move |request| {
        let persister = shared.clone();
        async move { move_range(&persister, &request).await }
    });
}

/// Positions are of what this persister holds; the others tell the rest.
async fn show(persister: &Persister) -> anyhow::Result<Value> {
    type Row = (Vec<u8>, i32, Vec<u8>, Vec<u8>, u8, Vec<u8>, i64, i64, u32);
    let reading = async {
        let mut borrowed = Borrowed::from(&persister.db.control, "control").await?;
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT topic, `partition`, instance, filling, filled, sweeping, version, rows_moved, moved_up_to \
             FROM placements ORDER BY topic, `partition`",
        )
        .fetch_all(borrowed.get()?)
        .await?;
        borrowed.give_back();
        Ok(rows)
    };
    let rows = db::within(persister.config.mysql_timeout(), "placement", reading).await?;
    let held = persister.partitions.lock().clone();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let shown = rows.into_iter().map(|row| {
        let (topic, partition, instance, filling, filled, sweeping, version, rows_moved, up_to) = row;
        let (topic, partition) = (text(topic), partition.max(0) as u32);
        let here = held.iter().filter(|((id, _), _)| *id.topic == *topic && id.partition == partition);
        let positions: BTreeMap<String, u64> = here
            .map(|((_, instance), progress)| {
                (persister.dbs[*instance].name.to_string(), progress.state().reached.offset)
            })
            .collect();
        let state = match (filling.is_empty(), filled, sweeping.is_empty()) {
            (false, 0, _) => "copying",
            (false, ..) => "switching",
            (true, _, false) => "sweeping",
            (true, _, true) => "placed",
        };
        json!({
            "topic": topic, "partition": partition, "instance": text(instance), "state": state,
            "filling": text(filling), "sweeping": text(sweeping), "version": version,
            "rows_moved": rows_moved, "moved_up_to_bucket": up_to, "positions": positions,
        })
    });
    let placement = persister.places.current();
    let tenants: BTreeMap<_, _> = placement
        .configured()
        .tenants
        .iter()
        .map(|(tenant, own)| {
            let place = json!({ "instance": placement.name(own.instance), "table": own.table.as_deref() });
            (tenant.clone(), place)
        })
        .collect();
    let instances: Vec<_> =
        persister.dbs.iter().map(|db| json!({ "name": &*db.name, "prepared": db.is_prepared() })).collect();
    Ok(json!({
        "persister": persister.context.node(), "instances": instances, "tenants": tenants,
        "partitions": shown.collect::<Vec<_>>(),
    }))
}

/// Writes the wish down; the holders of the partitions fulfil it. Asking again is harmless.
async fn move_range(persister: &Persister, request: &AdminRequest) -> Result<Value, AdminError> {
    let placement = persister.places.current();
    let view = request.wanted("view")?;
    if view != "mysql" {
        return Err(AdminError::invalid(format!("view {view}: a persister moves the rows in mysql only")));
    }
    let to = request.wanted("to")?;
    let Some(instance) = placement.configured().names.iter().position(|name| name == to) else {
        return Err(AdminError::not_found(format!("LAPWING_MYSQL_URL has no instance {to}")));
    };
    let buckets = request.wanted("buckets")?;
    let range = buckets.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let Some(wanted) = range.and_then(|(first, last)| placement.partitions_in(first, last)) else {
        let size = BUCKETS / placement.partitions;
        return Err(AdminError::invalid(format!(
            "buckets {buckets}: a range is whole partitions of {size} buckets within 0-{}, such as 0-{}",
            BUCKETS - 1,
            size - 1
        )));
    };
    if !persister.dbs[instance].is_prepared() {
        return Err(AdminError::new(503, "not_ready", format!("instance {to} is not there yet")));
    }
    let busy = places::wish(&persister.db, &wanted, to).await.map_err(anyhow::Error::from)?;
    if !busy.is_empty() {
        let why =
            format!("still on their way from an earlier move: {busy:?}; ask again when they are placed");
        return Err(AdminError::new(409, "busy", why));
    }
    Ok(wanted.iter().map(|id| json!({ "topic": &*id.topic, "partition": id.partition })).collect())
}
