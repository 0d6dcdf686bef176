//! What Prometheus is told of all runs together. Names of requests come from callers and are not among the labels, which therefore stay few.

use crate::figures::Outcome;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failed {
    kind: String,
}

/// The counters.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Counter,
    errors: Family<Failed, Counter>,
    latency: Histogram,
    pub running: Gauge,
}

impl Metrics {
    pub fn new() -> Self {
        let metrics = Self {
            registry: Registry::default(),
            requests: Counter::default(),
            errors: Family::default(),
            // From a millisecond to half a minute, doubling.
            latency: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            running: Gauge::default(),
        };
        let mut registry = Registry::default();
        registry.register("plimsoll_load_requests", "Requests that were answered or failed", metrics.requests.clone());
        registry.register("plimsoll_load_errors", "Requests that failed, by kind", metrics.errors.clone());
        let words = "How long expected answers took until their end";
        registry.register("plimsoll_load_latency_seconds", words, metrics.latency.clone());
        registry.register("plimsoll_load_running", "Whether a run is under way", metrics.running.clone());
        Self { registry, ..metrics }
    }

    pub fn count(&self, outcome: Outcome) {
        self.requests.inc();
        match (outcome, outcome.error()) {
            (Outcome::Good(took), _) => self.latency.observe(took.as_secs_f64()),
            (_, kind) => drop(self.errors.get_or_create(&Failed { kind: kind.unwrap_or_default() }).inc()),
        }
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
