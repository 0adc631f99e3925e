//! A session that connects while it is made a member of a conversation.

use serde_json::{Value, json};

use crate::{socket::Socket, world::World};

const ROUNDS: usize = 40;
const MESSAGES: usize = 5;

// R-GW-5, R-FAN-4: whether the list or an announcement tells of it, it is told once, before its events, each of which comes once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_that_races_with_an_announcement_gets_each_event_once() {
    let world = World::with_routers(1, 1, &[("LAPWING_PROFILE", "bench")]).await;
    for round in 0..ROUNDS {
        let (group, user) = (format!("race{round}"), format!("newcomer{round}"));
        let token = world.token(&user).await;
        let mut socket = world.socket(0).await;
        let making = async {
            let conversation = world.group(&group, &["alice", &user]).await;
            for i in 0..MESSAGES {
                let message = json!({ "conversation": conversation, "sender": "alice",
                    "client_mid": format!("{group}-m{i}"), "content": { "text": "hello" } });
                world.post("/v1/publish", message).await;
            }
            conversation
        };
        let connecting = async {
            // Later in each round: before the group is known anywhere, while it is announced, and after.
            tokio::time::sleep(std::time::Duration::from_millis(round as u64 / 2)).await;
            socket.send(json!({ "id": "1", "connect": { "token": token, "device": "phone" } })).await;
            socket.next().await
        };
        let (conversation, first) = tokio::join!(making, connecting);
        assert!(first["welcome"].is_object(), "round {round}: the welcome comes first: {first}");
        events_once(&mut socket, &first["welcome"], &conversation, round).await;
    }
}

async fn events_once(socket: &mut Socket, welcome: &Value, conversation: &str, round: usize) {
    let head = 1 + MESSAGES as u64;
    let told = |list: &Value| {
        let of = list.as_array().into_iter().flatten().find(|of| of["conversation"] == conversation);
        of.map(|of| number(&of["liveAfter"]))
    };
    let mut next = told(&welcome["conversations"]).map(|after| after + 1);
    while next != Some(head + 1) {
        let frame = socket.next().await;
        if frame["joined"]["conversation"] == conversation {
            assert_eq!(next, None, "round {round}: told of the conversation twice: {frame}");
            next = Some(number(&frame["joined"]["liveAfter"]) + 1);
        }
        for event in events(&frame).filter(|event| event["conversation"] == conversation) {
            let seq = number(&event["seq"]);
            assert_eq!(Some(seq), next, "round {round}: {frame}");
            next = Some(seq + 1);
        }
    }
    // What came twice would come now.
    socket.send(json!({ "id": "2", "ping": {} })).await;
    loop {
        let frame = socket.next().await;
        let again = events(&frame).find(|event| event["conversation"] == conversation);
        assert!(again.is_none() && frame["joined"].is_null(), "round {round}: {frame}");
        if frame["id"] == "2" {
            return;
        }
    }
}

fn events(frame: &Value) -> impl Iterator<Item = &Value> {
    frame["events"]["events"].as_array().into_iter().flatten()
}

/// Protobuf's JSON leaves a zero out and writes large numbers as text.
fn number(value: &Value) -> u64 {
    value.as_str().map_or(0, |text| text.parse().expect("a number"))
}
