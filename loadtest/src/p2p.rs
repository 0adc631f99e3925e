//! Pairs of users: `--messages` a user, both taking turns (ramp) or all in the same instant (burst).
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    ledger::Ledger,
    options::{Common, Mode, P2p},
    run::{Plan, Run, prepare},
    send::{schedule, text},
    target::Target,
};

pub(crate) async fn run(common: &Common, options: &P2p, target: &Target) -> anyhow::Result<bool> {
    let user = |pair: u32, side: char| format!("p{pair:04}{side}");
    let pairs: Vec<(String, String)> = (0..options.pairs).map(|p| (user(p, 'a'), user(p, 'b'))).collect();
    let users: Vec<String> = pairs.iter().flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
    let (setup, tokens) = prepare(target, &users).await?;
    let ids = crate::progress::step(&format!("{} pairs", pairs.len()), setup.pairs(&pairs)).await?;
    let mut ledger = Ledger::new(&setup.run, users);
    let pace = &options.pace;
    let (mut warm, mut by_pair, mut by_user) = (Vec::new(), Vec::new(), Vec::new());
    for (pair, id) in ids.iter().enumerate() {
        let sides = [2 * pair as u32, 2 * pair as u32 + 1];
        let conversation = ledger.conversation(id, sides.to_vec());
        let mut plan = |sender: u32, tag: String, is_warm| {
            ledger.plan(conversation, sender, text(pace.bytes, &tag), String::new(), is_warm)
        };
        for k in 0..pace.warmup {
            warm.extend(sides.map(|sender| plan(sender, format!("warm {pair} {k}"), true)));
        }
        let turns: Vec<[u32; 2]> = (0..options.messages)
            .map(|k| sides.map(|sender| plan(sender, format!("{pair} {sender} {k}"), false)))
            .collect();
        by_user.extend([0, 1].map(|side| turns.iter().map(|turn| turn[side]).collect::<Vec<_>>()));
        by_pair.push(turns.into_iter().flatten().collect());
    }
    let times = schedule(pace.mode, by_pair, by_user, options.rate, pace);
    let parameters = json!({
        "pairs": options.pairs, "messages_a_user": options.messages, "rate": options.rate,
        "mode": pace.mode.name(), "ramp_s": pace.ramp, "bytes": pace.bytes, "kill": common.kill,
    });
    let mode = match pace.mode {
        Mode::Ramp => "p2p ramp",
        Mode::Burst => "p2p burst",
    };
    let open_end = false;
    let plan = Plan {
        scenario: mode.into(),
        parameters,
        ledger,
        warm,
        open_end,
        closed_loop: false,
        receipts: true,
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
