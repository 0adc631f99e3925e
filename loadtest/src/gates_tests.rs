use std::collections::BTreeMap;

use super::*;
use crate::{
    fault::Killed, fleet::ConnectSteps, history::History, ledger::Tally, percentile::Percentiles,
    receipts::Receipts, report::Services, settle::Settled, verify::Rows,
};

fn killed(in_flight: usize) -> Option<Killed> {
    Some(Killed {
        process: "r1".into(),
        pid: 1,
        in_flight,
        at_seconds: 3.0,
        accepted_before: 50,
        ready_again_after_seconds: Some(4.0),
    })
}

fn good() -> Figures {
    let latency =
        Percentiles { count: 100, p50_ms: 5.0, p95_ms: 20.0, p99_ms: 40.0, max_ms: 60.0, mean_ms: 8.0 };
    Figures {
        run: "t-x".into(),
        scenario: "p2p ramp".into(),
        parameters: serde_json::Value::Null,
        profile: "bench".into(),
        encoding: "proto".into(),
        users: 4,
        conversations: 2,
        tally: Tally { planned: 100, acked: 100, ..Tally::default() },
        errors: BTreeMap::new(),
        rejections: BTreeMap::new(),
        send_seconds: 1.0,
        closed_loop: false,
        ack: latency,
        delivery: latency,
        receipt: latency,
        receipts: Some(Receipts { wanted: 96, told: 96, ..Receipts::default() }),
        delivered: 200,
        expected_deliveries: 200,
        incomplete: 0,
        doubled: 0,
        late: 0,
        holes: 0,
        unannounced: 0,
        wrong_content: 0,
        gaps: 0,
        disconnects: 0,
        ended: 0,
        unexpected: 0,
        mismatched: 0,
        dead_lettered: 0,
        connect_seconds: 1.0,
        connect_steps: ConnectSteps { tcp: latency, websocket: latency, first_answer: latency },
        per_gateway: vec![("a".into(), 2), ("b".into(), 2)],
        settled: Settled { deliveries_seconds: Some(0.1), lag_zero_seconds: Some(1.0), ..Settled::default() },
        rows: Some(Rows { rows: 102, messages: 100, ..Rows::default() }),
        errors_1040: Some(0),
        history: History { conversations: 2, messages: 100, ..History::default() },
        transcript: None,
        services: Some(Services::default()),
        machine: Vec::new(),
        throttled: None,
        overtaken: 0,
        names: BTreeMap::new(),
        fault_from_outside: false,
        fault_wanted: false,
        killed: None,
        details: Vec::new(),
    }
}

fn failed(change: impl FnOnce(&mut Figures)) -> Vec<&'static str> {
    let mut figures = good();
    change(&mut figures);
    judge(&figures).iter().filter(|g| g.verdict == Verdict::Fail).map(|g| g.name).collect()
}

// R-LT-8
#[test]
fn a_good_run_passes() {
    assert_eq!(failed(|_| {}), Vec::<&str>::new());
    assert!(passed(&judge(&good())));
}

// R-LT-3
#[test]
fn less_than_half_of_the_plan_fails_whatever_else_passes() {
    assert!(failed(|f| f.tally.acked = 49).contains(&"accepted of plan"));
    assert!(failed(|f| (f.tally.acked, f.tally.planned) = (0, 0)).contains(&"accepted of plan"));
}

// R-LT-8: each figure alone turns the verdict.
#[test]
fn every_gate_can_fail() {
    assert_eq!(failed(|f| f.tally.acked = 99), ["ACK success"]);
    assert_eq!(failed(|f| f.tally.unknown = 1), ["unknown after settling"]);
    assert_eq!(failed(|f| f.unexpected = 1), ["unexpected messages"]);
    assert_eq!(failed(|f| f.tally.unacked_but_observed = 1), ["unacked but observed"]);
    assert_eq!(failed(|f| f.ack.p95_ms = 500.0), ["ACK P95"]);
    assert_eq!(failed(|f| f.delivered = 199), ["delivery"]);
    assert_eq!(failed(|f| f.doubled = 1), ["doubled"]);
    assert_eq!(failed(|f| f.holes = 1), ["out of order"]);
    assert_eq!(failed(|f| f.disconnects = 1), ["disconnects"]);
    assert_eq!(failed(|f| f.delivery.p95_ms = 1000.0), ["delivery P95"]);
    assert_eq!(failed(|f| f.rows = None), ["MySQL, row by row"]);
    assert_eq!(
        failed(|f| f.rows = Some(Rows { messages: 100, missing: 1, ..Rows::default() })),
        ["MySQL, row by row"]
    );
    assert_eq!(failed(|f| f.settled.lag_zero_seconds = Some(60.1)), ["lag zero after the last send"]);
    assert_eq!(failed(|f| f.settled.lag_zero_seconds = None), ["lag zero after the last send"]);
    assert_eq!(failed(|f| f.history.wrong = 1), ["history equals the ledger"]);
    assert_eq!(failed(|f| f.errors_1040 = Some(1)), ["MySQL errors 1040"]);
    assert_eq!(failed(|f| f.dead_lettered = 1), ["new dead letters"]);
    assert_eq!(failed(|f| f.per_gateway[0].1 = 8), ["connections per node over the mean"]);
    let drops = Services { queue_drops: 1, ..Services::default() };
    assert_eq!(failed(|f| f.services = Some(drops)), ["queue drops, also at the close of all clients"]);
}

// REL: under a kill latency and disconnects are shown; messages are judged as ever; fewer than 20 in flight prove nothing.
#[test]
fn a_kill_needs_twenty_in_flight_and_excuses_no_message() {
    let with_kill = |n| {
        move |f: &mut Figures| {
            (f.fault_wanted, f.killed) = (true, killed(n));
            (f.ack.p95_ms, f.disconnects) = (4000.0, 3);
        }
    };
    assert_eq!(failed(with_kill(20)), Vec::<&str>::new());
    assert_eq!(failed(with_kill(19)), ["publishes in flight at the kill"]);
    let lost = |f: &mut Figures| {
        with_kill(50)(f);
        f.delivered = 199;
    };
    assert_eq!(failed(lost), ["delivery"]);
    assert_eq!(failed(|f| f.fault_wanted = true).len(), 2, "wanted and not done");
}

// R-ACK-3: whoever was connected all the time gets every receipt; the others' are told, not judged.
#[test]
fn a_lost_receipt_fails_unless_somebody_was_disconnected() {
    let receipts = |told, wanted, astray| Some(Receipts { told, wanted, astray, ..Receipts::default() });
    assert_eq!(failed(|f| f.receipts = receipts(95, 96, 0)), ["receipts told"]);
    assert_eq!(failed(|f| f.receipts = receipts(0, 0, 0)), ["receipts told"], "none of none proves nothing");
    assert_eq!(failed(|f| f.receipts = receipts(96, 96, 1)), ["receipts that nobody asked for"]);
    assert_eq!(failed(|f| f.receipts = None), Vec::<&str>::new(), "nobody asked");
    let cut = |f: &mut Figures| {
        (f.fault_wanted, f.killed, f.disconnects) = (true, killed(50), 3);
        f.receipts = receipts(95, 96, 0);
    };
    assert_eq!(failed(cut), Vec::<&str>::new());
    let alone = |f: &mut Figures| {
        (f.fault_wanted, f.killed) = (true, killed(50));
        f.receipts = receipts(95, 96, 0);
    };
    assert_eq!(failed(alone), ["receipts told"], "a killed router is no excuse");
}

// R-LT-4: a percentile of nothing proves nothing.
#[test]
fn an_empty_sample_fails() {
    assert_eq!(failed(|f| f.ack = Percentiles::default()), ["ACK P95"]);
}
