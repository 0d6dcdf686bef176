//! Figures about what is asked and answered.

use crate::Shared;
use crate::process::Process;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use plimsoll_kube::driver::Question;
use plimsoll_kube::metrics::OPEN_METRICS;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    path: String,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Path {
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct By {
    decided_by: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    reason: &'static str,
}

/// The figures of a server.
pub struct Metrics {
    registry: Registry,
    answers: Family<Answer, Counter>,
    durations: Family<Path, Histogram>,
    decisions: Family<By, Counter>,
    refused: Family<Why, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let (answers, decisions, refused) = (Family::default(), Family::default(), Family::default());
        let durations: Family<Path, Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_1, 2.0, 16)));
        registry.register("plimsoll_server_requests", "Requests answered, by path and status", Family::clone(&answers));
        registry.register("plimsoll_server_request_duration_seconds", "How long they took", Family::clone(&durations));
        registry.register("plimsoll_suggestions", "Pods judged, by who judged", Family::clone(&decisions));
        registry.register(
            "plimsoll_server_refused",
            "Requests refused before they were read, or late",
            Family::clone(&refused),
        );
        registry.register_collector(Box::new(Process));
        Self { registry, answers, durations, decisions, refused }
    }
}

impl Metrics {
    pub(crate) fn answered(&self, path: &str, status: StatusCode, took: Duration) {
        self.answers.get_or_create(&Answer { path: path.to_owned(), code: status.as_u16() }).inc();
        self.durations.get_or_create(&Path { path: path.to_owned() }).observe(took.as_secs_f64());
    }

    pub(crate) fn decided(&self, decided_by: &'static str) {
        self.decisions.get_or_create(&By { decided_by }).inc();
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&Why { reason }).inc();
    }
}

/// All figures, for Prometheus.
pub async fn text(State(app): Shared) -> Response {
    let mut text = String::new();
    if let Some(engine) = &app.engine_metrics {
        // One that has ended is measured no more; what is known of it is still told.
        let _ = app.bridge.ask(Question::Measure).await;
        text = engine.text();
        // Only the last part ends it.
        text.truncate(text.trim_end().trim_end_matches("# EOF").len());
    }
    app.bridge.write_figures(&app, &mut text);
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &app.metrics.registry);
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}
