//! R-ACK-2: publish → delivery to everybody, in order, once; resume, history, membership.

use std::time::Duration;

use lapwing_client::{Message, Outcome, Update, proto};
use lapwing_servers::http;
use serde_json::json;

use crate::world::{World, event, text, update};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_reach_everybody_in_order_once() {
    let world = World::start(2, &[]).await;
    let group = world.group("lobby", &["alice", "bob"]).await;
    let (alice, mut to_alice) = world.client(0, "alice", &[]).await;
    let (bob, mut to_bob) = world.client(1, "bob", &[]).await;
    let listed = bob.welcome().expect("welcome").conversations.iter().any(|item| item.conversation == group);
    assert!(listed, "the list at connect names the group");

    for i in 1..=5u64 {
        let report = alice.publish(&Message::text(&group, format!("a{i}"), format!("hello {i}"))).await;
        let Outcome::Accepted(published) = &report.outcome else { panic!("{report:?}") };
        for updates in [&mut to_alice, &mut to_bob] {
            let event = event(updates, &group).await;
            assert_eq!((event.seq, text(&event)), (published.seq, format!("hello {i}").as_str()));
            assert_eq!((event.sender.as_str(), event.client_mid.clone()), ("alice", format!("a{i}")));
        }
    }
    // The same client_mid again is a duplicate with the same seq; other content is a conflict (R-ACK-4).
    let again = alice.publish(&Message::text(&group, "a5", "hello 5")).await;
    assert!(matches!(again.outcome, Outcome::Duplicate(_)), "{again:?}");
    let conflict = alice.publish(&Message::text(&group, "a5", "other")).await;
    assert_eq!(conflict.codes, [409]);
    let unknown = alice.publish(&Message::text("grp.nowhere", "a6", "hello")).await;
    assert_eq!(unknown.codes, [404]);
    let stranger = world.client(0, "stranger", &[]).await.0;
    let refused = stranger.publish(&Message::text(&group, "s1", "hello")).await;
    assert_eq!(refused.codes, [403]);
    let large = alice.publish(&Message::text(&group, "a7", "x".repeat((512 << 10) + 1))).await;
    assert_eq!(large.codes, [413]);

    resume_and_history(&world, &group, &bob).await;
    membership(&world, &group).await;
    receipts(&world, &alice, &mut to_alice, &group).await;
}

async fn resume_and_history(world: &World, group: &str, bob: &lapwing_client::Client) {
    // R-PST-9
    let page =
        bob.history(proto::HistoryRequest { conversation: group.to_owned(), limit: 3, ..Default::default() });
    let page = page.await.expect("history");
    let texts: Vec<&str> = page.events.iter().map(text).collect();
    assert_eq!(texts, ["hello 3", "hello 4", "hello 5"], "the newest page, ascending");
    assert!(page.more && page.gaps.is_empty());
    let all = bob.history(proto::HistoryRequest {
        conversation: group.to_owned(),
        after: Some(0),
        limit: 100,
        ..Default::default()
    });
    let all = all.await.expect("history");
    let seqs: Vec<u64> = all.events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=all.head).collect::<Vec<_>>(), "contiguous from the first");
    assert_eq!(all.n, 5, "countable messages");
    let position =
        bob.history(proto::HistoryRequest { conversation: group.to_owned(), ..Default::default() });
    let position = position.await.expect("position");
    assert_eq!((position.head, position.events.len()), (all.head, 0));
    // By HTTP, with the token of a client.
    let address = world.cluster.gateway(1).client_address();
    let token = world.token("bob").await;
    let path = format!("/v1/conversations/{group}/history?after=0&limit=2");
    let answer = http::request(&address, "GET", &path, Some(&token), None).await.expect("history");
    assert_eq!(answer.json().expect("JSON")["events"].as_array().map(Vec::len), Some(2), "{}", answer.body);
    // Another user of the tenant is not a member.
    let token = world.token("stranger").await;
    let answer = http::request(&address, "GET", &path, Some(&token), None).await.expect("history");
    assert_eq!(answer.status, 403, "{}", answer.body);
    // A session that comes back with a cursor gets what it missed.
    let (_bob2, mut updates) = {
        let url = world.cluster.gateway(0).client_url();
        let mut options = lapwing_client::Options::new(url, world.token("bob").await, "bob-tablet");
        options.cursors = vec![(group.to_owned(), 2)];
        lapwing_client::Client::connect(options).await.expect("connect")
    };
    for seq in 3..=all.head {
        assert_eq!(event(&mut updates, group).await.seq, seq);
    }
}

// R-PERM-3
async fn membership(world: &World, group: &str) {
    let (carol, mut to_carol) = world.client(1, "carol", &[]).await;
    assert!(carol.welcome().expect("welcome").conversations.is_empty());
    world.post("/v1/groups/lobby/members", json!({ "users": ["carol"] })).await;
    let joined = update(&mut to_carol, |update| match update {
        Update::Joined(state) => Some(*state),
        _ => None,
    });
    let joined = joined.await;
    assert_eq!((joined.conversation.as_str(), joined.live_after), (group, joined.from_seq - 1));
    let first = event(&mut to_carol, group).await;
    assert_eq!(first.seq, joined.from_seq, "the event that made it a member");
    let report = carol.publish(&Message::text(group, "c1", "I am here")).await;
    assert!(report.published().is_some(), "{report:?}");
    assert_eq!(text(&event(&mut to_carol, group).await), "I am here");
    let page = carol.history(proto::HistoryRequest {
        conversation: group.to_owned(),
        after: Some(0),
        limit: 100,
        ..Default::default()
    });
    let page = page.await.expect("history");
    assert_eq!(page.events.first().map(|event| event.seq), Some(joined.from_seq), "nothing from before");

    let left =
        world.api("DELETE", "/v1/groups/lobby/members", &world.key, json!({ "users": ["carol"] })).await;
    assert_eq!(left.status, 200, "{}", left.body);
    let removal = event(&mut to_carol, group).await;
    assert!(matches!(removal.body, Some(proto::event::Body::MembersRemoved(_))), "{removal:?}");
    let sent = json!({ "conversation": group, "sender": "alice", "client_mid": "x1", "content": { "text": "secret" } });
    world.post("/v1/publish", sent).await;
    let refused = carol.publish(&Message::text(group, "c2", "and I?")).await;
    assert_eq!(refused.codes, [403]);
    let nothing = tokio::time::timeout(Duration::from_millis(700), event(&mut to_carol, group)).await;
    assert!(nothing.is_err(), "nothing after the removal: {nothing:?}");
}

// R-ACK-3
async fn receipts(
    world: &World,
    alice: &lapwing_client::Client,
    to_alice: &mut lapwing_client::Updates,
    group: &str,
) {
    let mut message = Message::text(group, "r1", "tell me");
    message.receipt = true;
    let seq = alice.publish(&message).await.published().expect("accepted").seq;
    let persisted = update(to_alice, |update| match update {
        Update::Persisted(persisted) if persisted.seqs.contains(&seq) => Some(persisted),
        _ => None,
    });
    assert!(persisted.await.persisted_seq >= seq);
    let path = format!("/v1/conversations/{group}/history?limit=0");
    let position = world.api("GET", &path, &world.key, json!({})).await.json().expect("JSON");
    let head: u64 = position["head"].as_str().expect("head").parse().expect("number");
    assert!(head >= seq);
}
