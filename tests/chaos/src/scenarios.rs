//! All scenarios; one file a part of the system.

mod deploy;
mod gateway;
mod kafka;
mod links;
mod mysql;
mod nats;
mod pauses;
mod persister;
mod rebuild;
mod receipts;
mod redis;
mod router;
mod tour;

use anyhow::Context;
use futures::future::BoxFuture;
use lapwing_loadtest::drive::Shape;

use crate::{stack::Stack, world::World};

pub struct Scenario {
    pub name: &'static str,
    /// One sentence.
    pub shows: &'static str,
    pub stack: Stack,
    pub shape: fn(quick: bool) -> Shape,
    /// Without a fault it proves nothing.
    pub faulty: bool,
    /// Takes many minutes: played only by its name.
    pub long: bool,
    pub(crate) play: for<'a> fn(&'a mut World) -> BoxFuture<'a, anyhow::Result<()>>,
}

impl Scenario {
    const fn new(
        name: &'static str,
        shows: &'static str,
        play: for<'a> fn(&'a mut World) -> BoxFuture<'a, anyhow::Result<()>>,
    ) -> Self {
        Self { name, shows, stack: Stack::PLAIN, shape: crate::play::usual, faulty: true, long: false, play }
    }
}

/// In the order in which `all` plays them.
pub fn all() -> Vec<&'static Scenario> {
    let families: [&'static [Scenario]; 13] = [
        &tour::SCENARIOS,
        &router::SCENARIOS,
        &receipts::SCENARIOS,
        &redis::SCENARIOS,
        &kafka::SCENARIOS,
        &nats::SCENARIOS,
        &gateway::SCENARIOS,
        &persister::SCENARIOS,
        &mysql::SCENARIOS,
        &deploy::SCENARIOS,
        &links::SCENARIOS,
        &pauses::SCENARIOS,
        &rebuild::SCENARIOS,
    ];
    families.into_iter().flatten().collect()
}

pub fn find(name: &str) -> anyhow::Result<&'static Scenario> {
    let found = all().into_iter().find(|scenario| scenario.name == name);
    found.with_context(|| format!("no scenario {name:?}: `./dev chaos list` names them"))
}
