//! Many conversations that are there before the load: rows straight in MySQL, as a persister would have written them. No view
//! knows them until it is rebuilt, and the log no longer reaches back to them.

mod cut;
mod sample;

use std::{fmt::Write as _, time::Instant};

use anyhow::Context;
use lapwing_model::{
    ConversationKey, Kind, bucket,
    kind::{group_id, p2p_id},
    record,
};
use lapwing_proto::{
    Message as _,
    client::{Content, content},
    record::{Created, Message, Record, message, record::Body},
};
use lapwing_servers::Cluster;
use sqlx::{AssertSqlSafe, MySqlPool};

pub(crate) const TENANT: &str = "t-many";
/// Of each user, as the first of its two members.
const P2P_OF_A_USER: u64 = 9;
/// Of each user, as the first of its members.
const GROUPS_OF_A_USER: u64 = 1;
const GROUP_MEMBERS: u64 = 5;
const OF_A_USER: u64 = P2P_OF_A_USER + GROUPS_OF_A_USER;
const ROWS: usize = 2000;

pub(crate) struct Population {
    pub(crate) conversations: u64,
    pub(crate) key: String,
}

/// One conversation, as its number says: created, and one message.
pub(crate) struct Planned {
    pub(crate) id: String,
    pub(crate) users: Vec<u64>,
    number: u64,
    kind: Kind,
    bucket: u32,
}

pub(crate) fn user(number: u64) -> String {
    format!("u{number:07}")
}

/// The `turn`-th conversation of a user among `users`.
pub(crate) fn planned(users: u64, of: u64, turn: u64) -> Planned {
    let number = turn * users + of;
    let (kind, id, users): (_, _, Vec<u64>) = if turn < P2P_OF_A_USER {
        let other = (of + 1 + turn) % users;
        (Kind::P2p, p2p_id(TENANT, &user(of), &user(other)), vec![of, other])
    } else {
        let id = group_id(&format!("many{number}")).unwrap_or_default();
        (Kind::Group, id, (0..GROUP_MEMBERS).map(|member| (of + member) % users).collect())
    };
    let bucket = bucket::bucket_of_ids(TENANT, &id).unwrap_or_default();
    Planned { id, users, number, kind, bucket }
}

impl Planned {
    pub(crate) fn text(&self) -> String {
        format!("message of conversation {}", self.number)
    }

    fn table(&self) -> u32 {
        self.bucket / 16
    }

    /// Both events as they would stand in the log.
    fn records(&self) -> [Record; 2] {
        let key = ConversationKey::new(TENANT, self.id.as_str());
        let members: Vec<String> = self.users.iter().map(|number| user(*number)).collect();
        let base = Record {
            bucket: self.bucket,
            tenant: TENANT.into(),
            conversation: self.id.clone(),
            sender: members.first().cloned().unwrap_or_default(),
            sent_at_ms: SENT_AT_MS,
            ..Record::default()
        };
        let created = Created {
            kind: lapwing_proto::record::Kind::from(self.kind).into(),
            member_count: members.len() as u32,
            members,
            ..Created::default()
        };
        let body = content::Body::Text(self.text());
        let content = Content { body: Some(body), ..Content::default() };
        let said = Message { body: Some(message::Body::Text(self.text())), ..Message::default() };
        [
            Record { seq: 1, body: Some(Body::Created(created)), ..base.clone() },
            Record {
                seq: 2,
                n: 1,
                countable: true,
                client_mid: format!("many-{}", self.number),
                content_hash: record::content_hash(&key, &content).to_vec().into(),
                body: Some(Body::Message(said)),
                ..base
            },
        ]
    }
}

/// Some day before.
const SENT_AT_MS: u64 = 1_700_000_000_000;

impl Population {
    pub(crate) async fn make(cluster: &Cluster, conversations: u64) -> anyhow::Result<Self> {
        let (begin, users) = (Instant::now(), (conversations / OF_A_USER).max(GROUP_MEMBERS * 20));
        let key = cluster.tenant(TENANT).await?;
        let pool = MySqlPool::connect(&cluster.mariadb().url()).await?;
        let mut all: Vec<Planned> =
            (0..OF_A_USER).flat_map(|turn| (0..users).map(move |of| planned(users, of, turn))).collect();
        // In the order of the tables' keys: at random they would not fit the server's cache.
        all.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        write(&pool, "conversations", &all, |of, sql| {
            let (kind, members) = (kind_number(of.kind), of.users.len());
            let _ = write!(sql, "('{TENANT}','{}',{kind},2,1,{members},1,{SENT_AT_MS},{})", of.id, of.bucket);
        })
        .await?;
        write(&pool, "members", &all, |of, sql| {
            let rows =
                of.users.iter().map(|number| format!("('{TENANT}','{}','{}',1,0)", of.id, user(*number)));
            sql.push_str(&rows.collect::<Vec<_>>().join(","));
        })
        .await?;
        all.sort_by_key(Planned::table);
        for of_table in all.chunk_by(|one, other| one.table() == other.table()) {
            let table = format!("messages_{:02}", of_table[0].table());
            write(&pool, &table, of_table, message_rows).await?;
        }
        cut::all_logs(cluster, &pool).await?;
        let made = Self { conversations: all.len() as u64, key };
        let took = begin.elapsed().as_secs_f64();
        println!("  {} conversations of {users} users are in MySQL after {took:.1} s", made.conversations);
        Ok(made)
    }

    pub(crate) fn users(&self) -> u64 {
        self.conversations / OF_A_USER
    }
}

fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::P2p => 1,
        Kind::Group => 2,
        Kind::System => 3,
    }
}

fn message_rows(of: &Planned, sql: &mut String) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let rows = of.records().map(|record| {
        let hash = if record.content_hash.is_empty() { vec![0; 16] } else { record.content_hash.to_vec() };
        format!(
            "('{TENANT}','{}',{},{},'{}','','{}',x'{}',{SENT_AT_MS},x'{}')",
            record.conversation,
            record.seq,
            record.n,
            record.sender,
            record.client_mid,
            hex(&hash),
            hex(&record.encode_to_vec())
        )
    });
    sql.push_str(&rows.join(","));
}

async fn write(
    pool: &MySqlPool,
    table: &str,
    all: &[Planned],
    rows: impl Fn(&Planned, &mut String),
) -> anyhow::Result<()> {
    for part in all.chunks(ROWS * 20) {
        let mut transaction = pool.begin().await?;
        for chunk in part.chunks(ROWS) {
            let mut sql = format!("INSERT INTO {table} VALUES ");
            for (place, planned) in chunk.iter().enumerate() {
                if place > 0 {
                    sql.push(',');
                }
                rows(planned, &mut sql);
            }
            // Ids and bytes of our own making.
            let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await;
            done.with_context(|| format!("cannot fill {table}"))?;
        }
        transaction.commit().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_conversation_is_there_once_with_different_members() {
        let all: Vec<Planned> =
            (0..OF_A_USER).flat_map(|turn| (0..100).map(move |of| planned(100, of, turn))).collect();
        let ids: BTreeSet<&str> = all.iter().map(|planned| planned.id.as_str()).collect();
        assert_eq!(ids.len(), 1000);
        for planned in &all {
            let users: BTreeSet<_> = planned.users.iter().collect();
            assert_eq!(users.len(), planned.users.len());
            assert!(!planned.users.contains(&((planned.users[0] + 50) % 100)), "a stranger");
        }
    }
}
