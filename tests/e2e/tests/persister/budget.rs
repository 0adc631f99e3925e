//! The connection budget: before the start, and while it runs.

use lapwing_servers::http;
use sqlx::{Executor as _, MySqlPool};

use crate::{
    feed::{created, message},
    world::{World, within},
};

fn file(replicas: u32, write: u32) -> String {
    format!(
        "[[sharer]]\nservice = \"persister\"\nreplicas = {replicas}\npools = {{ write = {write}, read = 8, control = 2 }}\n\
         [[sharer]]\nservice = \"reports\"\nreplicas = 1\npools = {{ all = 10 }}\n"
    )
}

// R-PST-7
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_does_not_fit_keeps_it_from_starting() {
    let world = World::prepare(1, &[]).await;
    let persister = world.cluster.persister(0);
    for (budget, words) in [
        (file(8, 8), "8 × persister with 18 + 1 × reports with 10 = 154, MySQL's max_connections is 170"),
        (file(2, 4), "persister wants 8 connections in its pool write, 4 are its share"),
        (file(2, 8).replace("replicas", "replica"), "LAPWING_BUDGET:"),
    ] {
        persister.set_environment(&[("LAPWING_BUDGET", &budget)]);
        let error = persister.start().await.unwrap_err().to_string();
        assert!(error.contains(words), "{words} is not in {error}");
    }
    persister.set_environment(&[("LAPWING_BUDGET", &file(7, 8))]);
    persister.start().await.unwrap();
}

// R-PST-7: over budget live, it is not ready, and its work goes on.
#[tokio::test(flavor = "multi_thread")]
async fn over_budget_live_it_says_so_and_goes_on_writing() {
    let world = World::start(1, &[("LAPWING_BUDGET", &file(2, 8))]).await;
    let address = world.cluster.persister(0).admin_address();
    let shown =
        http::request(&address, "GET", "/admin/budget", Some(world.cluster.operator_key()), None).await;
    let shown = shown.unwrap().json().unwrap();
    assert_eq!(shown["max_connections"], 170);
    assert_eq!(shown["registered"][0], serde_json::json!({ "name": "p1", "connections": 18 }));

    let others = "INSERT INTO pool_registry (name, connections, seen_at) VALUES ('other', 119, NOW(3) + INTERVAL 60 SECOND)";
    sqlx::query(others).execute(&world.sql).await.unwrap();
    let says = async |words: &str| {
        let (status, body) = world.ready(0).await;
        status == 503 && body.contains(words)
    };
    within(20, "what is registered", async || {
        says("connections: 137 connections are registered, 136 of MySQL's 170 are allowed").await
    })
    .await;
    let fewer = "UPDATE pool_registry SET connections = 19 WHERE name = 'other'";
    sqlx::query(fewer).execute(&world.sql).await.unwrap();
    within(20, "who takes more than its line", async || {
        says("2 × persister with 18 in the file, registered: other has 19").await
    })
    .await;
    let room = "grp.goes-on";
    let mut owner = world.feed.claim(room).await;
    owner.send(created(room, &["alice"])).await;
    owner.send(message(room, 2)).await;
    world.wait_for_head(room, 2, 20).await;

    sqlx::query("DELETE FROM pool_registry WHERE name = 'other'").execute(&world.sql).await.unwrap();
    within(20, "ready again", async || world.ready(0).await.0 == 200).await;

    // The file's sum against a limit that became smaller.
    let admin = MySqlPool::connect(&world.cluster.mariadb().admin_url()).await.unwrap();
    admin.execute("SET GLOBAL max_connections = 50").await.unwrap();
    within(20, "the file's sum", async || {
        says("2 × persister with 18 + 1 × reports with 10 = 46, MySQL's max_connections is 50 and 20 % stay free: 40 are").await
    })
    .await;
    admin.execute("SET GLOBAL max_connections = 170").await.unwrap();
    within(20, "ready again", async || world.ready(0).await.0 == 200).await;
}
