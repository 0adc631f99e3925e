//! Groups of many members in which some send.
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    ledger::Ledger,
    options::{Common, Group, Mode},
    run::{Plan, Run, prepare},
    send::{schedule, text},
    target::Target,
};

pub(crate) async fn run(common: &Common, options: &Group, target: &Target) -> anyhow::Result<bool> {
    anyhow::ensure!(
        options.senders <= options.members,
        "{} senders of {} members",
        options.senders,
        options.members
    );
    let user = |group: u32, member: u32| format!("g{group:02}m{member:05}");
    let groups: Vec<(String, Vec<String>)> = (0..options.groups)
        .map(|g| (format!("load{g:02}"), (0..options.members).map(|m| user(g, m)).collect()))
        .collect();
    let users: Vec<String> = groups.iter().flat_map(|(_, members)| members.clone()).collect();
    let (setup, tokens) = prepare(target, &users).await?;
    let ids = crate::progress::step(
        &format!("{} groups of {}", groups.len(), options.members),
        setup.groups(&groups),
    )
    .await?;
    let mut ledger = Ledger::new(&setup.run, users);
    let pace = &options.pace;
    let (mut warm, mut by_user) = (Vec::new(), Vec::new());
    for (group, id) in ids.iter().enumerate() {
        let first = group as u32 * options.members;
        let conversation = ledger.conversation(id, (first..first + options.members).collect());
        // Senders spread over the members, so that they are on all gateways.
        let stride = (options.members / options.senders.max(1)).max(1);
        for s in 0..options.senders {
            let sender = first + (s * stride + s % 2) % options.members;
            let mut plan = |tag: String, is_warm| {
                ledger.plan(conversation, sender, text(pace.bytes, &tag), String::new(), is_warm)
            };
            warm.extend((0..pace.warmup).map(|k| plan(format!("warm {group} {s} {k}"), true)));
            by_user.push(
                (0..options.messages).map(|k| plan(format!("{group} {s} {k}"), false)).collect::<Vec<_>>(),
            );
        }
    }
    // Each sender keeps its own rate, so in ramp mode a "conversation" of the schedule is one sender.
    let times = schedule(pace.mode, by_user.clone(), by_user, options.rate, pace);
    let parameters = json!({
        "groups": options.groups, "members": options.members, "senders": options.senders,
        "messages_a_sender": options.messages, "rate_a_sender": options.rate, "mode": pace.mode.name(),
        "ramp_s": pace.ramp, "bytes": pace.bytes, "kill": common.kill,
    });
    let mode = match pace.mode {
        Mode::Ramp => "group ramp",
        Mode::Burst => "group burst",
    };
    let open_end = false;
    let plan = Plan {
        scenario: mode.into(),
        parameters,
        ledger,
        warm,
        open_end,
        closed_loop: false,
        receipts: false,
    };
    let run = Run { common, target, plan, tokens };
    run.go(
        |sender| async move {
            sender.open_loop(&times, &CancellationToken::new()).await;
            Ok(())
        },
        &|_, _| None,
    )
    .await
}
