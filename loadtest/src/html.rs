//! The report as one self-contained page.
use std::fmt::Write;

use crate::{
    gates::{Gate, Verdict},
    plot::{Line, Plot, escape, thin},
    report::{Figures, Scatter, verdict},
    timeline::Second,
};

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:920px;padding:0 1rem;color:#1c2430}\
table{border-collapse:collapse;width:100%;margin:1rem 0}td,th{padding:.25rem .6rem;border-bottom:1px solid #e3e7ec;text-align:left}\
.pass{color:#14734a}.fail{color:#b3261e;font-weight:700}.shown{color:#6b7682}\
svg{width:100%;margin:.6rem 0;background:#fbfcfd;border:1px solid #e3e7ec}polyline{fill:none;stroke-width:1.5}\
.g{stroke:#e3e7ec}.t{font-weight:600;font-size:13px}.e{text-anchor:end}.m{text-anchor:middle}.e,.m,.s{font-size:11px}\
pre{white-space:pre-wrap;background:#f5f7f9;padding:.6rem}";

pub(crate) fn page(f: &Figures, gates: &[Gate], timeline: &[Second], scatter: &Scatter) -> String {
    let verdict = verdict(gates);
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0} · {verdict}</title><style>{STYLE}</style>\
         <h1>{1} <span class=\"{verdict}\">{verdict}</span></h1><p>Run {0}, profile {2}, {3}, {4} users, {5} conversations. {6}</p>",
        escape(&f.run),
        escape(&f.scenario),
        escape(&f.profile),
        escape(&f.encoding),
        f.users,
        f.conversations,
        escape(&f.parameters.to_string()),
    );
    gate_table(&mut html, gates);
    figures(&mut html, f);
    plots(&mut html, timeline, scatter);
    details(&mut html, f);
    html
}

fn gate_table(html: &mut String, gates: &[Gate]) {
    html.push_str("<h2>Gates</h2><table><tr><th>gate<th>figure<th>limit<th>verdict<th>requirement</tr>");
    for gate in gates {
        let verdict = match gate.verdict {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Shown => "shown",
        };
        let (value, limit) = (escape(&gate.value), escape(&gate.limit));
        let _ = write!(
            html,
            "<tr><td>{}<td>{value}<td>{limit}<td class=\"{verdict}\">{verdict}<td>{}</tr>",
            gate.name, gate.requirement
        );
    }
    html.push_str("</table>");
}

fn figures(html: &mut String, f: &Figures) {
    let t = &f.tally;
    let _ = write!(
        html,
        "<h2>Figures</h2><table>\
         <tr><td>planned<td>{}</tr><tr><td>acked<td>{}</tr><tr><td>rejected<td>{}</tr><tr><td>unknown<td>{}</tr>\
         <tr><td>unacked but observed<td>{}</tr><tr><td>persisted<td>{}</tr><tr><td>went through unknown<td>{}</tr>\
         <tr><td>sending<td>{:.2} s</tr><tr><td>ACK, from the intended time<td>{}</tr><tr><td>delivery, from the intended time<td>{}</tr>\
         <tr><td>in MySQL after the answer<td>{}</tr><tr><td>deliveries<td>{} of {}</tr>\
         <tr><td>connect: TCP<td>{}</tr><tr><td>connect: WebSocket<td>{}</tr><tr><td>connect: first answer<td>{}</tr>\
         <tr><td>errors by class<td>{}</tr></table>",
        t.planned,
        t.acked,
        t.rejected,
        t.unknown,
        t.unacked_but_observed,
        t.persisted,
        t.was_unknown,
        f.send_seconds,
        f.ack,
        f.delivery,
        f.receipt,
        f.delivered,
        f.expected_deliveries,
        f.connect_steps.tcp,
        f.connect_steps.websocket,
        f.connect_steps.first_answer,
        escape(&format!("{:?}", f.errors)),
    );
    html.push_str("<table><tr><th>process<th>CPU P95, % of a core<th>mean<th>memory</tr>");
    for m in &f.machine {
        let _ = write!(
            html,
            "<tr><td>{}<td>{:.0}<td>{:.0}<td>{:.0} MiB</tr>",
            escape(&m.process),
            m.cpu_p95,
            m.cpu_mean,
            m.rss_max_mib
        );
    }
    html.push_str("</table>");
}

fn plots(html: &mut String, timeline: &[Second], scatter: &Scatter) {
    let line = |name, colour, points| Line { name, colour, points };
    let rate = |pick: fn(&Second) -> u64| -> Vec<(f64, f64)> {
        let step = |w: &[Second]| {
            (w[1].at, pick(&w[1]).saturating_sub(pick(&w[0])) as f64 / (w[1].at - w[0].at).max(0.1))
        };
        timeline.windows(2).map(step).collect()
    };
    let plot = |title, x, y| Plot { title, x, y, scatter: false };
    html.push_str("<h2>Plots</h2>");
    let mut acks = plot("ACK latency of each message", "intended second of the run", "ms");
    acks.scatter = true;
    html.push_str(&acks.svg(&[line("ACK", "#2b6cb0", thin(scatter.acks.clone(), 4000))]));
    let curves = [
        line("ACK", "#2b6cb0", distribution(&scatter.ack_sorted)),
        line("delivery", "#c05621", distribution(&scatter.delivery_sorted)),
    ];
    html.push_str(&plot("Latency distribution", "percent of samples", "ms").svg(&curves));
    let paces = [
        line("accepted/s", "#2b6cb0", rate(|s| s.accepted)),
        line("persisted/s", "#14734a", rate(|s| s.persisted.unwrap_or(0))),
    ];
    html.push_str(&plot("Pace", "s", "messages/s").svg(&paces));
    html.push_str(&plot("Deliveries", "s", "events/s").svg(&[line(
        "delivered/s",
        "#c05621",
        rate(|s| s.delivered),
    )]));
    let each = |pick: fn(&Second) -> Option<f64>| -> Vec<(f64, f64)> {
        timeline.iter().filter_map(|s| Some((s.at, pick(s)?))).collect()
    };
    let lag = each(|s| Some(s.heads.saturating_sub(s.persisted?) as f64));
    let behind = [
        line("not in MySQL", "#b3261e", lag),
        line("in flight", "#6b46c1", each(|s| Some(s.in_flight as f64))),
    ];
    html.push_str(&plot("Behind", "s", "messages").svg(&behind));
    let queues = [line("fullest queue", "#b7791f", each(|s| s.fullest_queue.map(|q| q * 100.0)))];
    html.push_str(&plot("Queues", "s", "% full").svg(&queues));
}

/// (percent, milliseconds) of sorted microseconds.
fn distribution(sorted: &[u32]) -> Vec<(f64, f64)> {
    let at = |k: u32| {
        let q = f64::from(k) / 500.0;
        crate::percentile::nearest_rank(sorted, q).map(|us| (q * 100.0, f64::from(us) / 1000.0))
    };
    (1..=500).filter_map(at).collect()
}

fn details(html: &mut String, f: &Figures) {
    if f.details.is_empty() {
        return;
    }
    html.push_str("<h2>What was not right</h2><pre>");
    for detail in &f.details {
        html.push_str(&escape(detail));
        html.push('\n');
    }
    html.push_str("</pre>");
}
