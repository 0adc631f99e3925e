//! What MySQL has of single conversations, for owners whose Redis is away (R-ACK-5).

use std::time::Duration;

use lapwing_model::{ConversationKey, PartitionId};
use lapwing_proto::{
    Message as _,
    bus::{LoadAsk, LoadAskItem, LoadReply, LoadReplyItem},
};

use crate::{
    feed::{TENANT, added, created, message_with, removed},
    world::World,
};

const ROOM: &str = "grp.load";
const OTHER: &str = "grp.other";

fn item(conversation: &str, users: &[&str]) -> LoadAskItem {
    let key = ConversationKey::new(TENANT, conversation);
    LoadAskItem {
        partition: Some((&PartitionId::of(&key, 8).unwrap()).into()),
        tenant: TENANT.into(),
        conversation: conversation.into(),
        users: users.iter().map(|user| (*user).to_owned()).collect(),
    }
}

async fn ask(world: &World, items: Vec<LoadAskItem>) -> Vec<LoadReplyItem> {
    let payload = LoadAsk { items }.encode_to_vec().into();
    let asking = world.nats.request("lw.p.load", payload);
    let answer = tokio::time::timeout(Duration::from_secs(8), asking).await.expect("an answer").unwrap();
    let reply = LoadReply::decode(answer.payload).unwrap();
    assert_eq!(reply.error, None);
    reply.items
}

fn members(item: &LoadReplyItem) -> Vec<(&str, u64, u64)> {
    let members = item.row.iter().flat_map(|row| &row.members);
    members.map(|member| (member.user.as_str(), member.from_seq, member.to_seq)).collect()
}

// R-SEQ-9: each answer with the position of its snapshot; who is asked twice is told twice.
#[tokio::test(flavor = "multi_thread")]
async fn single_conversations_come_with_their_position() {
    let world = World::start(1, &[]).await;
    let mut owner = world.feed.claim(ROOM).await;
    owner.send(created(ROOM, &["alice"])).await;
    owner.send(added(ROOM, 2, 0, "bob", 0, 2)).await;
    owner.send(message_with(ROOM, 3, 1, "bob", "hello")).await;
    let end = owner.send(removed(ROOM, 4, 1, "bob", 1)).await + 1;
    world.wait_for_head(ROOM, 4, 20).await;
    let asked = vec![
        item(ROOM, &["alice", "eve", "bob"]),
        item("grp.nowhere", &["alice"]),
        item(ROOM, &["alice"]),
        LoadAskItem { partition: None, ..item(ROOM, &[]) },
    ];
    let told = ask(&world, asked).await;
    let row = told[0].row.as_ref().unwrap();
    assert_eq!(told[0].at.unwrap().offset, end);
    assert_eq!((row.head, row.n, row.member_count), (4, 1, 1));
    assert_eq!(members(&told[0]), [("alice", 1, 0), ("bob", 2, 4)]);
    assert!(told[1].at.is_some() && told[1].row.is_none(), "it is not there, at a position");
    assert_eq!(members(&told[2]), [("alice", 1, 0)]);
    assert_eq!(told[3], LoadReplyItem::default(), "without a partition nothing can be said");
}

// R-PST-4, R-SEQ-9: rows that lack an event are no state.
#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_whose_rows_lack_an_event_is_not_told() {
    let world = World::start(1, &[]).await;
    for room in [ROOM, OTHER] {
        let mut owner = world.feed.claim(room).await;
        owner.send(created(room, &["alice"])).await;
        owner.send(message_with(room, 2, 1, "alice", "hello")).await;
        world.wait_for_head(room, 2, 20).await;
    }
    let known = async || {
        let told = ask(&world, vec![item(ROOM, &["alice"]), item(OTHER, &["alice"])]).await;
        [told[0].at.is_some(), told[1].at.is_some()]
    };
    assert_eq!(known().await, [true, true]);
    let bury = async |offset: u64, state: bool| {
        sqlx::query(
            "INSERT INTO dead_letters (topic, `partition`, record_offset, tenant, conversation, seq_text, error_code, \
             error, state_event, payload, created_at) VALUES ('lapwing.group', 0, ?, ?, ?, '3', 1, '', ?, '', NOW(3))",
        )
        .bind(offset)
        .bind(TENANT.as_bytes())
        .bind(ROOM.as_bytes())
        .bind(state)
        .execute(&world.sql)
        .await
        .unwrap();
    };
    let tombstone = async |offset: u64| {
        sqlx::query("INSERT INTO tombstones VALUES (?, ?, ?, 'lapwing.group', 0, ?, '')")
            .bind(TENANT.as_bytes())
            .bind(ROOM.as_bytes())
            .bind(offset)
            .bind(offset)
            .execute(&world.sql)
            .await
            .unwrap();
    };
    bury(3, false).await;
    assert_eq!(known().await, [false, true], "no tombstone: not even the head is right");
    tombstone(3).await;
    assert_eq!(known().await, [true, true], "a message that is a tombstone changes nothing else");
    bury(4, true).await;
    tombstone(4).await;
    assert_eq!(known().await, [false, true], "a change of members is missing");
    sqlx::query("UPDATE dead_letters SET replayed_at = NOW(3)").execute(&world.sql).await.unwrap();
    assert_eq!(known().await, [true, true]);
}
