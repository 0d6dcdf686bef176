//! Traces of attempts, sent to an OpenTelemetry collector (OTLP over HTTP).

use anyhow::{Context, Result};
use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer as _, TracerProvider};
use opentelemetry::{Context as Trace, KeyValue};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use plimsoll_kube::trace::{Traced, Tracer};
use std::time::SystemTime;

/// Sends attempts as spans: one for the attempt, and in it one for the decision and one for the binding.
struct Collector {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// A tracer, where the environment names a collector. The usual variables count: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`,
/// `OTEL_TRACES_SAMPLER`.
pub fn tracer() -> Result<Option<Box<dyn Tracer>>> {
    if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_none() {
        return Ok(None);
    }
    let exporter = SpanExporter::builder().with_http().build();
    let exporter = exporter.context("OTEL_EXPORTER_OTLP_ENDPOINT: traces cannot be sent there")?;
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("plimsoll");
    }
    // Spans are sent many at a time, by a thread of their own; those that find no room are lost, not waited for.
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
    let tracer = provider.tracer("plimsoll");
    Ok(Some(Box::new(Collector { provider, tracer })))
}

impl Tracer for Collector {
    fn trace(&mut self, attempt: &Traced<'_>) {
        let end = SystemTime::now();
        let start = end.checked_sub(attempt.took).unwrap_or(end);
        let decided = start + attempt.decided.min(attempt.took);
        let mut attributes = vec![
            KeyValue::new("k8s.namespace.name", attempt.namespace.to_owned()),
            KeyValue::new("k8s.pod.name", attempt.name.to_owned()),
            KeyValue::new("scheduler.profile", attempt.profile.to_owned()),
            KeyValue::new("scheduler.result", attempt.result),
        ];
        attributes.extend(attempt.node.map(|node| KeyValue::new("k8s.node.name", node.to_owned())));
        let builder = self.tracer.span_builder("schedule").with_kind(SpanKind::Internal);
        let mut span = builder.with_start_time(start).with_attributes(attributes).start(&self.tracer);
        if attempt.result == "error" {
            span.set_status(Status::error("the attempt failed"));
        }
        let within = Trace::current().with_span(span);
        self.part("decide", start, decided, &within);
        if attempt.node.is_some() {
            self.part("bind", decided, end, &within);
        }
        within.span().end_with_timestamp(end);
    }
}

impl Collector {
    fn part(&self, name: &'static str, start: SystemTime, end: SystemTime, within: &Trace) {
        let builder = self.tracer.span_builder(name).with_start_time(start);
        builder.start_with_context(&self.tracer, within).end_with_timestamp(end);
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}
