//! Logs and traces of a process. Logs go to standard error, one line an event; spans leave by OTLP only when an endpoint is
//! configured.
//!
//! Use `debug_span!` for stages: with the default filter and no endpoint they cost next to nothing, with an endpoint they are
//! exported whatever the log filter says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

mod format;
mod traceparent;

pub use traceparent::{
    continue_trace, current_traceparent, is_traceparent, new_traceparent, set_parent, span_from, trace_id,
};

use crate::config::{Common, LogFormat};

/// Whether spans are exported; everything about them is skipped otherwise.
static OTLP_ON: AtomicBool = AtomicBool::new(false);

/// Spans are exported: work that only serves them is done only then.
pub fn otlp_on() -> bool {
    OTLP_ON.load(Ordering::Relaxed)
}

/// Keeps the exporter; [`Telemetry::shutdown`] sends what is left.
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
}

/// Sets the process up. Call it once, inside the tokio runtime (the exporter's connection lives there).
pub fn init(service: &'static str, common: &Common) -> anyhow::Result<Telemetry> {
    let filter = EnvFilter::try_new(&common.log_filter)
        .with_context(|| format!("LAPWING_LOG_FILTER={} is not a tracing filter", common.log_filter))?;
    let lines = format::Lines::new(common.log == LogFormat::Json, service, &common.node);
    let logs = tracing_subscriber::fmt::layer()
        .fmt_fields(JsonFields::new())
        .event_format(lines)
        .with_writer(std::io::stderr)
        .with_filter(filter);
    let provider = match common.otlp_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) {
        Some(endpoint) => Some(provider(service, &common.node, endpoint, common.otlp_ratio)?),
        None => None,
    };
    let spans = provider.as_ref().map(|provider| {
        let own = Targets::new().with_target("lapwing", LevelFilter::DEBUG);
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer(service))
            .with_location(false)
            .with_threads(false)
            .with_filter(own)
    });
    Registry::default().with(logs).with(spans).try_init().context("logs were set up twice in one process")?;
    OTLP_ON.store(provider.is_some(), Ordering::Relaxed);
    log_panics();
    Ok(Telemetry { provider })
}

fn provider(
    service: &'static str,
    node: &str,
    endpoint: &str,
    ratio: f64,
) -> anyhow::Result<SdkTracerProvider> {
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(Duration::from_secs(5))
        .build()
        .with_context(|| format!("LAPWING_OTLP_ENDPOINT={endpoint}: cannot make the exporter"))?;
    let resource = Resource::builder()
        .with_service_name(format!("lapwing-{service}"))
        .with_attribute(KeyValue::new("service.instance.id", node.to_owned()))
        .build();
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio.clamp(0.0, 1.0))));
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(sampler)
        .with_resource(resource)
        .build();
    global::set_tracer_provider(provider.clone());
    Ok(provider)
}

impl Telemetry {
    /// Sends the last spans, bounded: a collector that is gone must not hold the stop.
    pub async fn shutdown(self) {
        let Some(provider) = self.provider else { return };
        OTLP_ON.store(false, Ordering::Relaxed);
        // The exporter blocks its caller while tonic works on this very runtime, so it must not be one of its workers.
        let work =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(Duration::from_secs(3)));
        match tokio::time::timeout(Duration::from_secs(4), work).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!("the last spans were not exported: {error}"),
            Ok(Err(error)) => tracing::warn!("the last spans were not exported: {error}"),
            Err(_) => tracing::warn!("the last spans were not exported within 4 s"),
        }
    }
}

fn log_panics() {
    let plain = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !tracing::enabled!(tracing::Level::ERROR) {
            return plain(info);
        }
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let text = info.payload_as_str().unwrap_or("without a text");
        tracing::error!(place, "panicked: {text}");
    }));
}
