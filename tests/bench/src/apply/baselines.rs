//! What the product is held against: a script call a record, the field's five commands, and the yardstick of single calls.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use lapwing_model::{
    PartitionId,
    view::{FAMILIES, ops_of},
};
use lapwing_views::Views;
use redis::{Cmd, FromRedisValue, Value, aio::MultiplexedConnection};

use super::{IN_FLIGHT, all_applied, call, section};
use crate::records::Placed;

/// (a) The same script, the same changes, each record in a call of its own; one call a partition on its way, since each expects
/// the position of the one before it.
pub(crate) async fn call_each(views: &Views, records: Vec<Placed>) -> Result<()> {
    let mut lanes: HashMap<PartitionId, Vec<Placed>> = HashMap::new();
    for placed in records {
        lanes.entry(placed.id.clone()).or_default().push(placed);
    }
    let lane = |placed: Vec<Placed>| async move {
        for Placed { id, before, released } in placed {
            let sections = FAMILIES.map(|family| {
                let mut ops = Vec::new();
                ops_of(family, &released.key, &released.record, &released.event, &mut ops);
                section(&id, family, (before, released.after), ops)
            });
            all_applied(&call(views, &sections).await?)?;
        }
        Ok(())
    };
    stream::iter(lanes.into_values()).map(lane).buffer_unordered(IN_FLIGHT).try_collect::<()>().await
}

/// (b) SET NX of the ownership, HSET of the idempotency entry, INCR of the seq, ZADD of the record, ZADD of the recovery index:
/// each waits for the one before it, as the next depends on it. `prepared`: each a script of its own that is called by its hash.
pub(crate) async fn step_by_step(
    connection: &MultiplexedConnection,
    records: &[Placed],
    prepared: bool,
) -> Result<()> {
    let steps = Steps::load(connection, prepared).await?;
    let work = |placed: &Placed| {
        let (steps, released) = (&steps, placed.released.clone());
        async move {
            let record = &released.record;
            let (bucket, conversation, mid) = (record.bucket, &*record.conversation, &*record.client_mid);
            let own = format!("own:{bucket}:{conversation}:{mid}");
            let taken: Option<String> =
                steps.take(0, &own, &[record.sender.as_bytes(), b"NX", b"PX", b"7200000"]).await?;
            ensure!(taken.is_some(), "{mid} was taken already");
            let known = format!("idem:{bucket}:{conversation}");
            steps.take::<u64>(1, &known, &[mid.as_bytes(), b"pending"]).await?;
            let seq = steps.take::<u64>(2, &format!("seq:{bucket}:{conversation}"), &[]).await?.to_string();
            let log = format!("log:{bucket}:{conversation}");
            steps.take::<u64>(3, &log, &[seq.as_bytes(), &released.event]).await?;
            let (index, time) = (format!("recovery:{bucket}"), record.sent_at_ms.to_string());
            let entry = format!("{conversation}:{seq}");
            steps.take::<u64>(3, &index, &[time.as_bytes(), entry.as_bytes()]).await.map(drop)
        }
    };
    stream::iter(records).map(work).buffer_unordered(IN_FLIGHT).try_collect::<()>().await
}

const STEPS: [&str; 4] = ["SET", "HSET", "INCR", "ZADD"];

/// The commands of (b), plain or as prepared scripts.
struct Steps {
    connection: MultiplexedConnection,
    hashes: Option<Vec<String>>,
}

impl Steps {
    async fn load(connection: &MultiplexedConnection, prepared: bool) -> Result<Self> {
        let mut hashes = Vec::new();
        for verb in STEPS {
            let code = format!("return redis.call('{verb}', KEYS[1], unpack(ARGV))");
            hashes.push(ask(connection, &command(&[b"SCRIPT", b"LOAD", code.as_bytes()])).await?);
        }
        Ok(Self { connection: connection.clone(), hashes: prepared.then_some(hashes) })
    }

    async fn take<T: FromRedisValue>(&self, step: usize, key: &str, arguments: &[&[u8]]) -> Result<T> {
        let mut words: Vec<&[u8]> = match &self.hashes {
            Some(hashes) => vec![b"EVALSHA", hashes[step].as_bytes(), b"1", key.as_bytes()],
            None => vec![STEPS[step].as_bytes(), key.as_bytes()],
        };
        words.extend_from_slice(arguments);
        ask(&self.connection, &command(&words)).await
    }
}

const YARDSTICK: &str = "local answer = {}
for i = 1, #KEYS, 2 do
  answer[#answer + 1] = redis.call('INCR', KEYS[i])
  redis.call('SET', KEYS[i + 1], ARGV[1], 'NX', 'PX', 7200000)
end
return answer";

/// INCR + SET NX PX for each of `count` conversations, `each` a call: single calls 64 in flight, batches one after the other.
pub(crate) async fn scripts(connection: &MultiplexedConnection, count: usize, each: usize) -> Result<()> {
    let load = command(&[b"SCRIPT", b"LOAD", YARDSTICK.as_bytes()]);
    let hash: String = ask(connection, &load).await?;
    let in_flight = if each == 1 { IN_FLIGHT } else { 1 };
    let call = |number: usize| {
        let (connection, hash) = (connection.clone(), hash.clone());
        async move {
            let mut keys = Vec::with_capacity(2 * each);
            for of in number * each..(number + 1) * each {
                keys.push(format!("seq:{}", of % 1000));
                keys.push(format!("own:{of}"));
            }
            let count = keys.len().to_string();
            let mut words: Vec<&[u8]> = vec![b"EVALSHA", hash.as_bytes(), count.as_bytes()];
            words.extend(keys.iter().map(|key| key.as_bytes()));
            words.push(b"1");
            let seqs: Vec<u64> = ask(&connection, &command(&words)).await?;
            ensure!(seqs.len() == each, "{} answers for {each}", seqs.len());
            Ok(())
        }
    };
    stream::iter(0..count / each).map(call).buffer_unordered(in_flight).try_collect::<()>().await
}

fn command(words: &[&[u8]]) -> Cmd {
    let mut command = Cmd::with_capacity(words.len(), words.iter().map(|word| word.len()).sum());
    for word in words {
        command.arg(*word);
    }
    command
}

async fn ask<T: FromRedisValue>(connection: &MultiplexedConnection, command: &Cmd) -> Result<T> {
    let value: Value = connection.clone().send_packed_command(command).await?;
    redis::from_redis_value(value).context("an answer of another form")
}
