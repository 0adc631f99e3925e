//! A transcript as it was: per conversation the next line goes out when the line before is accepted.
use std::{collections::HashMap, time::Duration};

use serde_json::json;

use crate::{
    ledger::Ledger,
    options::{Common, Replay},
    run::{Plan, Run, prepare},
    send::Sender,
    target::Target,
    transcript::{self, Talk},
};

pub(crate) async fn run(common: &Common, options: &Replay, target: &Target) -> anyhow::Result<bool> {
    let mut common = common.clone();
    common.ack_every = common.ack_every.or(options.speed.is_none().then_some(10.0));
    let common = &common;
    let mut file = transcript::read(&options.file)?;
    file.talks.truncate(options.conversations.unwrap_or(usize::MAX));
    let mut numbers = HashMap::new();
    let mut users = Vec::new();
    for member in file.talks.iter().flat_map(|talk| &talk.members) {
        numbers.entry(member.clone()).or_insert_with(|| {
            users.push(member.clone());
            users.len() as u32 - 1
        });
    }
    let (setup, tokens) = prepare(target, &users).await?;
    let groups: Vec<(String, Vec<String>)> =
        file.talks.iter().map(|talk| (talk.name.clone(), talk.members.clone())).collect();
    let ids = crate::progress::step(&format!("{} groups", groups.len()), setup.groups(&groups)).await?;
    let mut ledger = Ledger::new(&setup.run, users);
    let mut scripts = Vec::new();
    for (talk, id) in file.talks.iter().zip(&ids) {
        let conversation =
            ledger.conversation(id, talk.members.iter().map(|member| numbers[member]).collect());
        let plan = |line: &transcript::Line| {
            let kind = transcript::kind_of(&line.second);
            ledger.plan(conversation, numbers[&line.sender], line.text.clone(), kind, false)
        };
        scripts.push(talk.lines.iter().map(plan).collect::<Vec<u32>>());
    }
    let deliveries: usize = file.talks.iter().map(|talk| talk.lines.len() * talk.members.len()).sum();
    crate::progress::say(&format!(
        "  {} messages of {} people in {} groups: {deliveries} deliveries to make",
        ledger.entries.len(),
        ledger.users.len(),
        ids.len()
    ));
    let parameters = json!({
        "file": options.file.file_name().map(|name| name.to_string_lossy()), "speed": options.speed,
        "messages": ledger.entries.len(), "deliveries": deliveries, "kill": common.kill, "ack_every_s": common.ack_every,
    });
    let (warm, scenario) = (Vec::new(), "replay".to_owned());
    let (open_end, closed_loop) = (false, true);
    let plan = Plan { scenario, parameters, ledger, warm, open_end, closed_loop, receipts: false };
    let run = Run { common, target, plan, tokens };
    let pauses: Vec<Vec<Duration>> = file.talks.iter().map(|talk| clock(talk, options.speed)).collect();
    let send = |sender: Sender| async move {
        let talks = scripts.into_iter().zip(pauses).map(|(script, at)| play(&sender, script, at));
        let broken: usize = futures::future::join_all(talks).await.into_iter().sum();
        if broken > 0 {
            crate::progress::say(&format!("  {broken} lines were not accepted; their conversations went on"));
        }
        Ok(())
    };
    run.go(send, &|ledger, histories| {
        let histories: Vec<_> =
            (0..ledger.conversations.len() as u32).map(|index| histories.get(&index)).collect();
        Some(transcript::compare(&file.talks, &histories))
    })
    .await
}

/// Number of lines that were not accepted.
async fn play(sender: &Sender, script: Vec<u32>, at: Vec<Duration>) -> usize {
    let (begin, mut refused) = (tokio::time::Instant::now(), 0);
    for (entry, at) in script.into_iter().zip(at) {
        tokio::time::sleep_until(begin + at).await;
        // Closed loop by the contract: the line is due when the one before was accepted.
        refused += usize::from(!sender.publish(entry, sender.ledger.now()).await);
    }
    refused
}

/// When each line is due by the transcript's own clock; where the second runs backwards the order stands.
fn clock(talk: &Talk, speed: Option<f64>) -> Vec<Duration> {
    let Some(speed) = speed.filter(|speed| *speed > 0.0) else {
        return vec![Duration::ZERO; talk.lines.len()];
    };
    let second = |line: &transcript::Line| line.second.parse::<f64>().unwrap_or(0.0);
    let first = talk.lines.first().map_or(0.0, second);
    talk.lines.iter().map(|line| Duration::from_secs_f64((second(line) - first).max(0.0) / speed)).collect()
}
