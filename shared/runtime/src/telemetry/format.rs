//! One log line: R-OBS-2's fields (tenant, conversation, seq, device, node, trace_id) stand at the top level, whether the event
//! or one of its spans gave them.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::traceparent::{Carried, trace_id};

pub(super) struct Lines {
    json: bool,
    service: &'static str,
    node: String,
}

impl Lines {
    pub(super) fn new(json: bool, service: &'static str, node: &str) -> Self {
        Self { json, service, node: node.to_owned() }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Map::new();
        let mut stage = None;
        for span in ctx.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            stage = Some(span.name());
            let extensions = span.extensions();
            if let Some(Carried(traceparent)) = extensions.get::<Carried>() {
                fields.insert("trace_id".to_owned(), trace_id(traceparent).into());
            }
            if let Some(formatted) = extensions.get::<FormattedFields<N>>()
                && let Ok(Value::Object(of_span)) = serde_json::from_str(&formatted.fields)
            {
                fields.extend(of_span);
            }
        }
        event.record(&mut Collect(&mut fields));
        let message = match fields.remove("message") {
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let metadata = event.metadata();
        if !self.json {
            let (service, node, level, target) =
                (self.service, &self.node, metadata.level(), metadata.target());
            // One event is one line, whatever text from outside stands in it.
            let message = message.replace('\r', "\\r").replace('\n', "\\n");
            write!(writer, "{time} {level:>5} {service}/{node} {target}: {message}")?;
            for (name, value) in &fields {
                match value {
                    Value::String(text) => write!(writer, " {name}={text:?}")?,
                    other => write!(writer, " {name}={other}")?,
                }
            }
            return writeln!(writer);
        }
        fields.insert("time".to_owned(), time.into());
        fields.insert("level".to_owned(), metadata.level().as_str().into());
        fields.insert("service".to_owned(), self.service.into());
        fields.insert("node".to_owned(), self.node.as_str().into());
        fields.insert("target".to_owned(), metadata.target().into());
        fields.insert("message".to_owned(), message.into());
        if let Some(stage) = stage {
            fields.insert("span".to_owned(), stage.into());
        }
        writeln!(writer, "{}", Value::Object(fields))
    }
}

struct Collect<'a>(&'a mut Map<String, Value>);

impl Collect<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().trim_start_matches("r#").to_owned(), value);
    }
}

impl Visit for Collect<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::format::JsonFields;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::telemetry::{new_traceparent, span_from};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn lines(json: bool, work: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(Lines::new(json, "router", "r1"))
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        let bytes = sink.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    // R-OBS-2
    #[test]
    fn a_json_line_carries_the_fields_of_its_spans_and_its_trace() {
        let incoming = new_traceparent();
        let text = lines(true, || {
            let span = tracing::info_span!(
                "admit",
                tenant = "demo",
                conversation = "grp.a",
                seq = tracing::field::Empty
            );
            let span = span_from(&incoming, span);
            span.record("seq", 7);
            span.in_scope(|| tracing::warn!(device = "d1", "lane is \"full\""));
        });
        let line: Value = serde_json::from_str(text.trim()).unwrap();
        for (name, value) in [
            ("tenant", Value::from("demo")),
            ("conversation", "grp.a".into()),
            ("seq", 7.into()),
            ("device", "d1".into()),
            ("node", "r1".into()),
            ("service", "router".into()),
            ("level", "WARN".into()),
            ("span", "admit".into()),
            ("message", "lane is \"full\"".into()),
            ("trace_id", trace_id(&incoming).into()),
        ] {
            assert_eq!(line[name], value, "{name} in {text}");
        }
    }

    #[test]
    fn a_human_line_is_one_line() {
        let text = lines(false, || tracing::info!(seq = 3, tenant = "demo", "said\nso"));
        assert!(text.contains(" INFO router/r1 lapwing_runtime::telemetry::format::tests: said"), "{text}");
        assert!(text.ends_with("seq=3 tenant=\"demo\"\n"), "{text}");
        assert_eq!(text.matches('\n').count(), 1, "{text}");
    }
}
