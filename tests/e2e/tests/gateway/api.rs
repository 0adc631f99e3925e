//! The server API: keys, errors, idempotent changes.

use serde_json::{Value, json};

use crate::world::{TENANT, World};

fn name(answer: &lapwing_servers::http::Answer) -> (u16, String) {
    let body: Value = answer.json().expect("JSON");
    let trace = body["error"]["trace_id"].as_str().unwrap_or_default();
    assert_eq!(trace.len(), 32, "R-GW-9: {body}");
    (answer.status, body["error"]["name"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_api() {
    let world = World::start(1, &[]).await;
    let users = json!({ "users": ["alice", "bob"] });
    // R-AUTH-2: wrong keys answer alike, whether the tenant exists or not.
    for key in ["", "x", "lwk.nobody.secret", &format!("lwk.{TENANT}.wrong")] {
        let answer = world.api("POST", "/v1/p2p", key, users.clone()).await;
        assert_eq!(name(&answer), (401, "unauthenticated".into()), "{key}");
    }
    let answer = world.api("POST", "/v1/tenants", &world.key, json!({ "tenant": "t2" })).await;
    assert_eq!(name(&answer), (401, "unauthenticated".into()), "a tenant's key is not the operator's");

    // R-PERM-2: idempotent.
    let first = world.post("/v1/p2p", users.clone()).await;
    let again = world.post("/v1/p2p", users.clone()).await;
    assert_eq!((&first["changed"], &again["changed"]), (&json!(true), &json!(false)));
    assert_eq!(first["conversation"], again["conversation"]);
    let group = world.group("team", &["alice", "bob"]).await;
    assert_eq!(world.group("team", &["alice", "bob"]).await, group, "creating again is idempotent");

    let message = |mid: &str, text: &str| json!({ "to_user": "bob", "sender": "alice", "client_mid": mid, "content": { "text": text } });
    let sent = world.api("POST", "/v1/publish", &world.key, message("m1", "hi")).await;
    assert_eq!(sent.status, 202, "{}", sent.body);
    let sent = sent.json().expect("JSON");
    assert_eq!((&sent["outcome"], &sent["conversation"]), (&json!("accepted"), &first["conversation"]));
    let twice = world.api("POST", "/v1/publish", &world.key, message("m1", "hi")).await;
    assert_eq!((twice.status, &twice.json().expect("JSON")["seq"]), (200, &sent["seq"]));
    let conflict = world.api("POST", "/v1/publish", &world.key, message("m1", "other")).await;
    assert_eq!(name(&conflict), (409, "client_mid_conflict".into()));
    let data = json!({ "conversation": group, "sender": "alice", "client_mid": "m2", "content": { "data": "AAEC" } });
    assert_eq!(world.api("POST", "/v1/publish", &world.key, data).await.status, 202);

    for (body, expected) in [
        (json!({ "client_mid": "m3", "content": { "text": "x" } }), (400, "invalid")),
        (message("a b", "x"), (400, "invalid")),
        (
            json!({ "conversation": "grp.none", "sender": "a", "client_mid": "m4", "content": { "text": "x" } }),
            (404, "not_found"),
        ),
        (
            json!({ "conversation": "what", "sender": "a", "client_mid": "m5", "content": { "text": "x" } }),
            (404, "not_found"),
        ),
        (json!({ "conversation": group, "client_mid": "m6", "content": { "data": "!" } }), (400, "invalid")),
        (message("m7", &"x".repeat((512 << 10) + 1)), (413, "too_large")),
    ] {
        let answer = world.api("POST", "/v1/publish", &world.key, body.clone()).await;
        assert_eq!(name(&answer), (expected.0, expected.1.to_owned()));
    }
    let path = format!("/v1/conversations/{group}/history?limit=1");
    let page = world.api("GET", &path, &world.key, json!({})).await.json().expect("JSON");
    assert_eq!(page["events"][0]["message"]["data"], "AAEC", "{page}");
    let answer = world.api("GET", &format!("{path}000"), &world.key, json!({})).await;
    assert_eq!(name(&answer), (400, "invalid".into()), "a page over the limit");
    let answer = world.api("GET", "/v1/nothing", &world.key, json!({})).await;
    assert_eq!(name(&answer), (404, "not_found".into()));

    // A removed key is refused at once.
    let path = format!("/v1/tenants/{TENANT}/keys/dev");
    let removed = world.api("DELETE", &path, world.cluster.operator_key(), json!({})).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let answer = world.api("POST", "/v1/p2p", &world.key, users).await;
    assert_eq!(name(&answer), (401, "unauthenticated".into()));
}

// R-PERM-5: what a node changed it sees at once, whichever router it asks next; the other nodes see it within 2 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_key_works_at_once_where_it_was_made() {
    let world = World::with_routers(2, 3, &[]).await;
    let users = json!({ "users": ["alice", "bob"] });
    for i in 0..40 {
        let key = world.cluster.tenant(&format!("fresh{i}")).await.expect("tenant");
        let answer = world.api("POST", "/v1/p2p", &key, users.clone()).await;
        assert!(answer.status == 200 || answer.status == 201, "{i}: {} {}", answer.status, answer.body);
    }
    let key = world.cluster.tenant("elsewhere").await.expect("tenant");
    let since = std::time::Instant::now();
    let there = world.cluster.gateway(1).api_address();
    let url_body = users.to_string();
    loop {
        let answer =
            lapwing_servers::http::request(&there, "POST", "/v1/p2p", Some(&key), Some(&url_body)).await;
        match answer.expect("an answer").status {
            401 => assert!(since.elapsed().as_secs() < 2, "not known on the other node"),
            status => {
                assert_eq!(status, 200);
                break;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
