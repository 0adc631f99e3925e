//! W3C trace context as the text `00-<trace>-<span>-<flags>`: carried in client frames, NATS and Kafka headers.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use rand::Rng;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan;

use super::otlp_on;

/// What a tracing span keeps in its extensions, so that it is known even with OTLP off.
#[derive(Clone)]
pub(super) struct Carried(pub(super) String);

/// A traceparent of a new trace, with random ids, marked as sampled.
pub fn new_traceparent() -> String {
    let mut rng = rand::rng();
    let trace: u128 = rng.random_range(1..=u128::MAX);
    let span: u64 = rng.random_range(1..=u64::MAX);
    format!("00-{trace:032x}-{span:016x}-01")
}

/// Whether a text (from a client, a header) is a traceparent that may be carried on.
pub fn is_traceparent(text: &str) -> bool {
    parts(text).is_some()
}

/// The 32 hex digits of the trace; empty if the text is no traceparent.
pub fn trace_id(traceparent: &str) -> &str {
    parts(traceparent).map_or("", |(trace, _, _)| trace)
}

fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let bytes = text.as_bytes();
    let version_fits =
        bytes.len() == 55 || (bytes.len() > 55 && !text.starts_with("00") && bytes[55] == b'-');
    let dashes = bytes.get(2) == Some(&b'-') && bytes.get(35) == Some(&b'-') && bytes.get(52) == Some(&b'-');
    if !version_fits || !dashes || !text.is_char_boundary(55) || text.starts_with("ff") {
        return None;
    }
    let (trace, span, flags) = (text.get(3..35)?, text.get(36..52)?, text.get(53..55)?);
    let hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let all_hex = hex(text.get(0..2)?) && hex(trace) && hex(span) && hex(flags);
    let nonzero = trace.bytes().any(|b| b != b'0') && span.bytes().any(|b| b != b'0');
    (all_hex && nonzero).then_some((trace, span, flags))
}

fn remote(traceparent: &str) -> Option<SpanContext> {
    let (trace, span, flags) = parts(traceparent)?;
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some(SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(flags & 1),
        true,
        TraceState::default(),
    ))
}

fn text_of(context: &SpanContext) -> String {
    let flags = u8::from(context.is_sampled());
    format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id())
}

/// Hangs a span into the trace that came with a request. An invalid or empty traceparent changes nothing.
pub fn set_parent(span: &Span, traceparent: &str) {
    let Some(context) = remote(traceparent) else { return };
    if otlp_on() {
        let _ = span.set_parent(Context::new().with_remote_span_context(context));
    }
    keep(span, traceparent);
}

/// `span_from(&request.traceparent, debug_span!("admit", …))`
pub fn span_from(traceparent: &str, span: Span) -> Span {
    set_parent(&span, traceparent);
    span
}

/// [`set_parent`], and the traceparent to hand on to the next hop: the span's own when it is exported, otherwise what came in,
/// or a new one if nothing valid came in. Never empty, so that each error can carry a trace id.
pub fn continue_trace(span: &Span, incoming: &str) -> String {
    set_parent(span, incoming);
    if let Some(own) = exported(span) {
        return own;
    }
    if is_traceparent(incoming) { incoming.to_owned() } else { kept_or_new(span) }
}

/// The traceparent of the current span; always valid, with random ids when there is no span or OTLP is off.
pub fn current_traceparent() -> String {
    let span = Span::current();
    exported(&span).unwrap_or_else(|| kept_or_new(&span))
}

fn exported(span: &Span) -> Option<String> {
    if !otlp_on() || span.is_none() {
        return None;
    }
    let context = span.context();
    let span_context = context.span().span_context().clone();
    span_context.is_valid().then(|| text_of(&span_context))
}

fn keep(span: &Span, traceparent: &str) {
    span.with_subscriber(|(id, dispatch)| {
        if let Some(span) = dispatch.downcast_ref::<Registry>().and_then(|registry| registry.span(id)) {
            span.extensions_mut().replace(Carried(traceparent.to_owned()));
        }
    });
}

/// What the nearest span of this scope carries; otherwise a new one, kept at the root so that the whole scope agrees.
fn kept_or_new(span: &Span) -> String {
    span.with_subscriber(|(id, dispatch)| {
        let leaf = dispatch.downcast_ref::<Registry>()?.span(id)?;
        let mut root = None;
        for span in leaf.scope() {
            if let Some(Carried(text)) = span.extensions().get::<Carried>() {
                return Some(text.clone());
            }
            root = Some(span);
        }
        let new = new_traceparent();
        root?.extensions_mut().replace(Carried(new.clone()));
        Some(new)
    })
    .flatten()
    .unwrap_or_else(new_traceparent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn only_well_formed_traceparents_pass() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(is_traceparent(good));
        assert_eq!(trace_id(good), "0af7651916cd43dd8448eb211c80319c");
        assert!(is_traceparent(&new_traceparent()));
        for bad in [
            "",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ä",
            "ääääääääääääääääääääääääääääääääääääääääääääääääääääää",
        ] {
            assert!(!is_traceparent(bad), "{bad} passed");
            assert_eq!(trace_id(bad), "");
        }
    }

    // R-OBS-1, R-GW-9
    #[test]
    fn a_trace_goes_through_a_span_with_otlp_off() {
        tracing::subscriber::with_default(Registry::default().with(tracing_subscriber::fmt::layer()), || {
            let incoming = new_traceparent();
            let span = span_from(&incoming, tracing::info_span!("admit"));
            let inner = span.in_scope(|| tracing::info_span!("sequence").in_scope(current_traceparent));
            assert_eq!(trace_id(&inner), trace_id(&incoming));
            assert_eq!(continue_trace(&tracing::info_span!("x"), &incoming), incoming);

            let root = tracing::info_span!("root");
            let (first, second) = root.in_scope(|| (current_traceparent(), current_traceparent()));
            assert_eq!(first, second, "a scope without a parent agrees on one trace");
            assert!(is_traceparent(&continue_trace(&tracing::info_span!("y"), "garbage")));
        });
        assert!(is_traceparent(&current_traceparent()), "also without any subscriber");
    }
}
