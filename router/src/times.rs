//! How long a record takes through ② sequence, ③ produce and ④ commit: metrics always, spans when they are exported.

use std::{
    collections::{HashMap, VecDeque},
    time::Instant,
};

use lapwing_proto::{bus::PublishBatch, record::Record};
use lapwing_runtime::{metrics, telemetry};
use tracing::{Span, debug_span};

/// Publishes in a partition's hands: beyond this their spans are not kept.
const SPANS: usize = 4096;

#[derive(Default)]
pub(crate) struct Times {
    /// Handed to the log and not released yet, by index.
    flying: VecDeque<Flight>,
    sequencing: HashMap<String, Span>,
}

struct Flight {
    index: u64,
    since: Instant,
    acknowledged: bool,
    produce: Option<Span>,
    _commit: Option<Span>,
}

impl Times {
    pub(crate) fn taken(&mut self, batch: &PublishBatch) {
        if !telemetry::otlp_on() || self.sequencing.len() > SPANS {
            return;
        }
        for item in &batch.items {
            let span = debug_span!(
                "sequence",
                tenant = batch.tenant,
                conversation = batch.conversation,
                client_mid = item.client_mid,
                device = batch.device
            );
            let span = telemetry::span_from(&item.traceparent, span);
            self.sequencing.insert(item.traceparent.clone(), span);
        }
    }

    pub(crate) fn produced(&mut self, index: u64, traceparent: &str) {
        let mut spans = (None, None);
        if telemetry::otlp_on() && !traceparent.is_empty() {
            self.sequencing.remove(traceparent);
            spans.0 = Some(telemetry::span_from(traceparent, debug_span!("produce", index)));
            spans.1 = Some(telemetry::span_from(traceparent, debug_span!("commit", index)));
        }
        self.flying.push_back(Flight {
            index,
            since: Instant::now(),
            acknowledged: false,
            produce: spans.0,
            _commit: spans.1,
        });
    }

    /// One acknowledgement tells of all before it.
    pub(crate) fn acknowledged(&mut self, index: u64) {
        let end = self.flying.partition_point(|flight| flight.index <= index);
        for flight in self.flying.range_mut(..end).rev().take_while(|flight| !flight.acknowledged) {
            metrics::stage("produce").since(flight.since).done("ok");
            flight.acknowledged = true;
            flight.produce = None;
        }
    }

    pub(crate) fn released(&mut self, record: &Record) {
        while let Some(first) = self.flying.front()
            && first.index <= record.index
        {
            if first.index == record.index {
                let kind = if record.countable { "message" } else { "state" };
                metrics::stage("commit").kind(kind).since(first.since).done("ok");
            }
            self.flying.pop_front();
        }
    }
}
