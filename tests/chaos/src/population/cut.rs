//! The log as it is after some time: its beginning is gone, MySQL has what stood there. While a log has its beginning, an owner
//! may take it for the whole truth.

use std::time::{Duration, Instant};

use anyhow::Context;
use lapwing_model::Kind;
use lapwing_servers::Cluster;
use rskafka::client::{Client, ClientBuilder, partition::UnknownTopicHandling};
use sqlx::MySqlPool;

const PARTITIONS: i32 = 8;
/// Long before any dedupe window begins.
const LONG_AGO_MS: i64 = 1_000_000_000_000;

pub(super) async fn all_logs(cluster: &Cluster, pool: &MySqlPool) -> anyhow::Result<()> {
    let client = ClientBuilder::new(vec![cluster.kafka().brokers()]).build().await?;
    for kind in [Kind::P2p, Kind::Group] {
        for partition in 0..PARTITIONS {
            let cut = log(&client, pool, kind.topic(), partition).await;
            cut.with_context(|| format!("cannot cut {}/{partition}", kind.topic()))?;
        }
    }
    Ok(())
}

async fn log(client: &Client, pool: &MySqlPool, topic: &str, partition: i32) -> anyhow::Result<()> {
    let (offset, epoch, index) = position(pool, topic, partition).await?;
    let sql = "REPLACE INTO partition_times VALUES (?, ?, ?, ?, ?, ?)";
    let row = sqlx::query(sql).bind(topic.as_bytes()).bind(partition).bind(LONG_AGO_MS);
    row.bind(offset).bind(epoch).bind(index).execute(pool).await?;
    let log = client.partition_client(topic, partition, UnknownTopicHandling::Error).await?;
    log.delete_records(offset, 5000).await?;
    Ok(())
}

/// Behind the first claim, once MySQL has that.
async fn position(pool: &MySqlPool, topic: &str, partition: i32) -> anyhow::Result<(i64, i64, i64)> {
    let begin = Instant::now();
    loop {
        let sql = "SELECT next_offset, claim_epoch, last_index FROM partition_offsets \
                   WHERE topic = ? AND `partition` = ? AND next_offset > 0";
        let found = sqlx::query_as(sql).bind(topic.as_bytes()).bind(partition).fetch_optional(pool).await?;
        if let Some(found) = found {
            return Ok(found);
        }
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(30), "MySQL has no position of it");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
