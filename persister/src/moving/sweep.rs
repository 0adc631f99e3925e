//! What was left behind is deleted in small steps, once nobody that lives reads it any more.

use lapwing_persister_core::shard;
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::{
    LIMIT, Mover, Step, Trouble,
    copy::{Id, buckets, conversations, under_lease},
};
use crate::{
    db::{self, Borrowed, Db},
    places, unit,
};

/// Rows that one statement deletes.
const LOT: u64 = 500;

pub(super) async fn run(mover: &Mover, old: usize, new: usize) -> Result<Step, Trouble> {
    // It may have been moved away from the new one once.
    places::mark(mover.db(new), &mover.partition, false).await?;
    if !mover.all_follow().await? {
        return Ok(Step::Wait("every persister to read on the new instance"));
    }
    let db = mover.db(old);
    fence(mover, db).await?;
    let mut swept = 0;
    for bucket in buckets(mover) {
        let mut after = None;
        while let Some(page) = conversations(mover, db, bucket, after.as_ref()).await? {
            for id in &page {
                if mover.persister.places.current().own(&String::from_utf8_lossy(&id.0)).is_none() {
                    swept += conversation(mover, db, bucket, id).await?;
                }
            }
            after = page.last().cloned();
        }
    }
    // Tenants that live here go on having their own.
    let empty = !mover.persister.places.current().instances_of(&mover.partition).contains(&old);
    let whole = "topic = ? AND `partition` = ?";
    let key = (mover.partition.topic.as_bytes(), mover.partition.partition.to_string());
    for table in ["dead_letters", "partition_times"].into_iter().filter(|_| empty) {
        lots(mover, db, table, whole, key.0, key.1.as_bytes()).await?;
    }
    tracing::info!(partition = %mover.partition, instance = &*db.name, rows = swept, "what was left behind is deleted");
    mover.change("sweeping = ''", &[], "filling = '' AND sweeping = ?", &[old]).await
}

/// Whoever had the lease before deletes nothing here any more.
async fn fence(mover: &Mover, db: &Db) -> Result<(), Trouble> {
    let mut borrowed = Borrowed::from(&db.control, "control").await?;
    let fencing = unit::fence(borrowed.get()?, &mover.partition, mover.lease_epoch);
    db::within(LIMIT, "fence an instance", fencing).await?;
    borrowed.give_back();
    Ok(())
}

/// The row that names it goes last, so that a sweep that was cut off finds it again.
async fn conversation(mover: &Mover, db: &Db, bucket: u32, id: &Id) -> Result<u64, Trouble> {
    let table = shard::table(shard::of_bucket(bucket));
    let place = "tenant = ? AND conversation = ?";
    let swept = lots(mover, db, &table, place, &id.0, &id.1).await?;
    while members(mover, db, id).await? {
        mover.check_stop()?;
    }
    for table in ["tombstones", "conversations"] {
        lots(mover, db, table, place, &id.0, &id.1).await?;
    }
    Ok(swept)
}

async fn lots(
    mover: &Mover,
    db: &Db,
    table: &str,
    place: &str,
    one: &[u8],
    two: &[u8],
) -> Result<u64, Trouble> {
    let statement = format!("DELETE FROM {table} WHERE {place} LIMIT {LOT}");
    let mut all = 0;
    loop {
        mover.check_stop()?;
        let mut deleted = 0;
        let deleting = async |connection: &mut MySqlConnection| {
            let query = sqlx::query(AssertSqlSafe(statement.clone())).bind(one).bind(two);
            deleted = query.execute(connection).await?.rows_affected();
            Ok(())
        };
        under_lease(mover, db, deleting).await?;
        all += deleted;
        if deleted < LOT {
            return Ok(all);
        }
    }
}

/// A lot of them, with their cursors, which only their names lead to. False: there are no more.
async fn members(mover: &Mover, db: &Db, id: &Id) -> Result<bool, Trouble> {
    let mut found = 0;
    let deleting = async |connection: &mut MySqlConnection| {
        let users: Vec<Vec<u8>> = sqlx::query_scalar(AssertSqlSafe(format!(
            "SELECT user FROM members WHERE tenant = ? AND conversation = ? LIMIT {LOT}"
        )))
        .bind(&id.0[..])
        .bind(&id.1[..])
        .fetch_all(&mut *connection)
        .await?;
        found = users.len();
        if users.is_empty() {
            return Ok(());
        }
        let list = vec!["?"; users.len()].join(",");
        for table in ["cursors", "members"] {
            let statement =
                format!("DELETE FROM {table} WHERE tenant = ? AND conversation = ? AND user IN ({list})");
            let query = sqlx::query(AssertSqlSafe(statement)).bind(&id.0[..]).bind(&id.1[..]);
            users.iter().fold(query, |query, user| query.bind(&user[..])).execute(&mut *connection).await?;
        }
        Ok(())
    };
    under_lease(mover, db, deleting).await?;
    Ok(found > 0)
}
