//! The schema, changed while it is worked with.

use crate::{
    feed::{created, message},
    world::{World, within},
};

// R-PST-6
#[tokio::test(flavor = "multi_thread")]
async fn a_change_while_it_runs_is_named_and_the_work_goes_on() {
    let world = World::start(1, &[("LAPWING_SCHEMA_EVERY_MS", "300")]).await;
    let alter = async |statement: &'static str| {
        sqlx::query(statement).execute(&world.sql).await.unwrap();
    };
    let says = async |words: &str| {
        let (status, body) = world.ready(0).await;
        status == 503 && body.contains(words)
    };
    for (wrong, words, right) in [
        (
            "ALTER TABLE messages_05 MODIFY seq INT NOT NULL",
            "schema: table messages_05, column seq: found INT(11) NOT NULL, expected BIGINT NOT NULL",
            "ALTER TABLE messages_05 MODIFY seq BIGINT NOT NULL",
        ),
        (
            "ALTER TABLE dead_letters MODIFY replayed_at DATETIME NULL",
            "table dead_letters, column replayed_at: found DATETIME NULL, expected DATETIME(3) NULL",
            "ALTER TABLE dead_letters MODIFY replayed_at DATETIME(3) NULL",
        ),
        (
            "ALTER TABLE conversations DROP KEY by_bucket",
            "table conversations, column KEY by_bucket: found nothing, expected (kind, bucket)",
            "ALTER TABLE conversations ADD KEY by_bucket (kind, bucket)",
        ),
    ] {
        alter(wrong).await;
        within(10, words, async || says(words).await).await;
        if wrong.contains("messages_05") {
            let room = "grp.goes-on";
            let mut owner = world.feed.claim(room).await;
            owner.send(created(room, &["alice"])).await;
            owner.send(message(room, 2)).await;
            world.wait_for_head(room, 2, 20).await;
            assert_eq!(world.held_by("p1").await, 34, "no lease was given up");
        }
        alter(right).await;
        within(10, "ready again", async || world.ready(0).await.0 == 200).await;
    }
    let log = std::fs::read_to_string(world.cluster.persister(0).log()).unwrap();
    assert_eq!(log.matches("ALARM: the schema has changed").count(), 1, "once a minute at most");
}
