//! Metrics with the names and labels of kube-scheduler's, so that dashboards people have keep working.

use plimsoll_core::engine::{Attempt, Counts};
use plimsoll_core::policy::Counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
    profile: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queue {
    queue: &'static str,
}

/// The figures of a live scheduler.
pub struct Metrics {
    registry: Registry,
    attempts: Family<Outcome, Counter>,
    durations: Family<Outcome, Histogram>,
    to_bound: Histogram,
    pending: Family<Queue, Gauge>,
    preemption_attempts: Counter,
    victims: Histogram,
    /// Preemptions whose victims could not be removed.
    pub preemption_failures: Counter,
    /// Objects that could not be read.
    pub unreadable: Counter,
    /// Events and conditions that were not written.
    pub unsaid: Counter,
    shadow: Family<Same, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Same {
    same: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Figures of a scheduler that has just started.
    pub fn new() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let metrics = Self {
            registry: Registry::default(),
            attempts: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 15))),
            to_bound: seconds(),
            pending: Family::default(),
            preemption_attempts: Counter::default(),
            victims: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            preemption_failures: Counter::default(),
            unreadable: Counter::default(),
            unsaid: Counter::default(),
            shadow: Family::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let to = &mut self.registry;
        let words = "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, \
                     while 'error' means an internal scheduler problem";
        to.register("scheduler_schedule_attempts", words, self.attempts.clone());
        let words = "Scheduling attempt latency in seconds (scheduling algorithm + binding)";
        to.register("scheduler_scheduling_attempt_duration_seconds", words, self.durations.clone());
        to.register(
            "plimsoll_time_to_bound_seconds",
            "From taking a pod from the queue to its binding",
            self.to_bound.clone(),
        );
        to.register("scheduler_pending_pods", "Number of pending pods, by the queue type", self.pending.clone());
        let words = "Total preemption attempts in the cluster till now";
        to.register("scheduler_preemption_attempts", words, self.preemption_attempts.clone());
        to.register("scheduler_preemption_victims", "Number of selected preemption victims", self.victims.clone());
        let words = "Preemptions whose victims could not be removed";
        to.register("plimsoll_preemption_failures", words, self.preemption_failures.clone());
        to.register("plimsoll_unreadable_objects", "Objects that could not be read", self.unreadable.clone());
        to.register("plimsoll_unsaid", "Events and conditions that were not written", self.unsaid.clone());
        let words = "Pods that another scheduler bound, by whether it was where this one would have bound them";
        to.register("plimsoll_shadow_pods", words, self.shadow.clone());
        self
    }

    /// A pod was bound by another scheduler, where this one would have bound it or elsewhere.
    pub fn compared(&self, same: bool) {
        self.shadow.get_or_create(&Same { same: if same { "true" } else { "false" } }).inc();
    }

    /// With how often models decided, and what fell back on their heuristics.
    pub fn with_models(mut self, counters: Vec<(String, Arc<Counters>)>) -> Self {
        if !counters.is_empty() {
            self.registry.register_collector(Box::new(Models(counters)));
        }
        self
    }

    /// A pod was tried. One that has a node counts when it is bound.
    pub fn attempted(&self, attempt: &Attempt, took: Duration) {
        let (result, pod) = match attempt {
            Attempt::Bind { .. } => return,
            Attempt::Wait { pod, .. } => ("unschedulable", pod),
            Attempt::Failed { pod, .. } => ("error", pod),
        };
        self.count(result, &pod.scheduler, took);
    }

    /// A pod was bound, so long after it was taken from the queue.
    pub fn bound(&self, profile: &str, took: Duration) {
        self.count("scheduled", profile, took);
        self.to_bound.observe(took.as_secs_f64());
    }

    /// A binding failed, so long after the pod was taken from the queue.
    pub fn bind_failed(&self, profile: &str, took: Duration) {
        self.count("error", profile, took);
    }

    fn count(&self, result: &'static str, profile: &str, took: Duration) {
        let outcome = Outcome { result, profile: profile.to_owned() };
        self.attempts.get_or_create(&outcome).inc();
        self.durations.get_or_create(&outcome).observe(took.as_secs_f64());
    }

    /// Pods were chosen to make room.
    pub fn preempted(&self, victims: usize) {
        self.preemption_attempts.inc();
        if victims > 0 {
            self.victims.observe(victims as f64);
        }
    }

    /// How many pods are where.
    pub fn pending(&self, counts: &Counts) {
        let set = |queue, count: usize| {
            self.pending.get_or_create(&Queue { queue }).set(count as i64);
        };
        set("active", counts.active);
        set("backoff", counts.backoff);
        set("unschedulable", counts.unschedulable);
        set("gated", counts.gated);
    }

    /// All figures, as Prometheus reads them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// The counters of models, read when somebody asks.
#[derive(Debug)]
struct Models(Vec<(String, Arc<Counters>)>);

impl Collector for Models {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let words = "Decisions of models: all of them, and those that their heuristic took alone, by the reason";
        let mut metric = encoder.encode_descriptor("plimsoll_model_decisions", words, None, MetricType::Counter)?;
        for (profile, counters) in &self.0 {
            let counts = [
                ("all", &counters.decisions),
                ("unlike-training", &counters.outside),
                ("not-a-number", &counters.not_finite),
                ("late", &counters.late),
            ];
            for (kind, count) in counts {
                let count = ConstCounter::new(count.load(Ordering::Relaxed));
                let labels = [("profile", profile.as_str()), ("kind", kind)];
                count.encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
