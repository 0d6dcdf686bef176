//! Metrics with the names and labels of kube-scheduler's, so that dashboards people have keep working.

use plimsoll_core::engine::{Attempt, Counts, Figures};
use plimsoll_core::policy::Counters;
use plimsoll_core::queue::Place;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets, linear_buckets};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
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

/// The content type of figures as OpenMetrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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
    algorithm: Histogram,
    steps: Family<Step, Histogram>,
    tries: Histogram,
    waits: Family<Tries, Histogram>,
    binding: Family<Operation, Gauge>,
    rewards: Histogram,
    models: Arc<Mutex<BTreeMap<String, Counted>>>,
    /// What was measured last about the queue and the cluster.
    figures: Arc<Mutex<Figures>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Step {
    extension_point: &'static str,
    status: &'static str,
    profile: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tries {
    attempts: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
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
            algorithm: seconds(),
            // The finest bucket is 0.1 ms, as with kube-scheduler.
            steps: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0001, 2.0, 12))),
            tries: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
            waits: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.01, 2.0, 20))),
            binding: Family::default(),
            rewards: Histogram::new(linear_buckets(0.1, 0.1, 10)),
            models: Arc::default(),
            figures: Arc::default(),
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
        let words = "Scheduling algorithm latency in seconds";
        to.register("scheduler_scheduling_algorithm_duration_seconds", words, self.algorithm.clone());
        let words = "Latency for running all plugins of a specific extension point";
        to.register("scheduler_framework_extension_point_duration_seconds", words, self.steps.clone());
        let words = "Number of attempts to successfully schedule a pod";
        to.register("scheduler_pod_scheduling_attempts", words, self.tries.clone());
        let words = "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve \
                     multiple scheduling attempts";
        to.register("scheduler_pod_scheduling_sli_duration_seconds", words, self.waits.clone());
        let words = "Number of running tasks split by the work they do such as binding";
        to.register("scheduler_goroutines", words, self.binding.clone());
        // Under the names that learning schedulers before us had, too.
        to.register("drl_scheduler_schedule_attempts", "Attempts to schedule pods", self.attempts.clone());
        to.register("drl_scheduler_schedule_duration_seconds", "How long attempts took", self.durations.clone());
        let words = "What placements are worth by the weights of objectives in force";
        to.register("drl_scheduler_schedule_reward", words, self.rewards.clone());
        to.register_collector(Box::new(Models(Arc::clone(&self.models))));
        to.register_collector(Box::new(Queued(Arc::clone(&self.figures))));
        self
    }

    /// A placement was made that is worth so much, if anybody says so.
    pub fn rewarded(&self, reward: Option<f64>) {
        if let Some(reward) = reward {
            self.rewards.observe(reward);
        }
    }

    /// A pod was bound by another scheduler, where this one would have bound it or elsewhere.
    pub fn compared(&self, same: bool) {
        self.shadow.get_or_create(&Same { same: if same { "true" } else { "false" } }).inc();
    }

    /// From now on a policy ranks for a profile that counts like this, if it is a model.
    pub fn ranks(&self, profile: &str, counters: Option<Arc<Counters>>) {
        let mut all = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        // A profile that never had a model is not told of.
        if counters.is_some() || all.contains_key(profile) {
            let counted = all.entry(profile.to_owned()).or_default();
            counted.before = counted.sums();
            counted.now = counters;
        }
    }

    /// A pod was tried. One that has a node counts when it is bound.
    pub fn attempted(&self, attempt: &Attempt, took: Duration) {
        self.algorithm.observe(took.as_secs_f64());
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

    /// A pod was bound after so many attempts, so long after it could be tried first.
    pub fn scheduled(&self, attempts: u32, waited: Duration) {
        self.tries.observe(f64::from(attempts));
        // As kube-scheduler has it: from fifteen on they are one.
        let attempts = if attempts >= 15 { "15+".to_owned() } else { attempts.to_string() };
        self.waits.get_or_create(&Tries { attempts }).observe(waited.as_secs_f64());
    }

    /// A step of a binding is done: what it is in the scheduling framework, whether it went well, and how long it took.
    pub fn step(&self, extension_point: &'static str, went_well: bool, profile: &str, took: Duration) {
        let status = if went_well { "Success" } else { "Error" };
        let step = Step { extension_point, status, profile: profile.to_owned() };
        self.steps.get_or_create(&step).observe(took.as_secs_f64());
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

    /// It was looked for pods to make room, whether any were found or not.
    pub fn looked_for_victims(&self) {
        self.preemption_attempts.inc();
    }

    /// Pods were chosen to make room.
    pub fn preempted(&self, victims: usize) {
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
        self.binding.get_or_create(&Operation { operation: "binding" }).set(counts.in_flight as i64);
    }

    /// What was measured about the queue and the cluster.
    pub fn measured(&self, figures: Figures) {
        if let Ok(mut known) = self.figures.lock() {
            *known = figures;
        }
    }

    /// All figures, as Prometheus reads them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// What the models of a profile counted: those that ranked before, and the one that does.
#[derive(Debug, Default)]
struct Counted {
    before: [u64; 4],
    now: Option<Arc<Counters>>,
}

/// The kinds of decisions that are counted, in the order of [`Counted::sums`].
const KINDS: [&str; 4] = ["all", "unlike-training", "not-a-number", "late"];

impl Counted {
    fn sums(&self) -> [u64; 4] {
        let mut sums = self.before;
        if let Some(now) = &self.now {
            let each = [&now.decisions, &now.outside, &now.not_finite, &now.late];
            sums.iter_mut().zip(each).for_each(|(sum, count)| *sum += count.load(Ordering::Relaxed));
        }
        sums
    }
}

/// The counters of models by profile, read when somebody asks.
#[derive(Debug)]
struct Models(Arc<Mutex<BTreeMap<String, Counted>>>);

impl Collector for Models {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let words = "Decisions of models: all of them, and those that their heuristic took alone, by the reason";
        let mut metric = encoder.encode_descriptor("plimsoll_model_decisions", words, None, MetricType::Counter)?;
        for (profile, counted) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            for (kind, count) in KINDS.into_iter().zip(counted.sums()) {
                let labels = [("profile", profile.as_str()), ("kind", kind)];
                ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// What was measured about the queue and the cluster.
#[derive(Debug)]
struct Queued(Arc<Mutex<Figures>>);

impl Collector for Queued {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Ok(figures) = self.0.lock() else { return Ok(()) };
        let words = "Number of pods added to scheduling queues by event and queue type";
        let mut metric =
            encoder.encode_descriptor("scheduler_queue_incoming_pods", words, None, MetricType::Counter)?;
        for (place, cause, count) in &figures.incoming {
            let queue = match place {
                Place::Active => "active",
                Place::Backoff => "backoff",
                Place::Unschedulable | Place::InFlight => "unschedulable",
            };
            let labels = [("queue", queue), ("event", &cause.label())];
            ConstCounter::new(*count).encode(metric.encode_family(&labels)?)?;
        }
        let words = "The number of unschedulable pods broken down by plugin name";
        let mut metric = encoder.encode_descriptor("scheduler_unschedulable_pods", words, None, MetricType::Gauge)?;
        for ((profile, plugin), count) in &figures.rejected {
            let labels = [("plugin", plugin.as_str()), ("profile", profile.as_str())];
            ConstGauge::new(*count as i64).encode(metric.encode_family(&labels)?)?;
        }
        let words = "Number of nodes, pods, and assumed (bound) pods in the scheduler cache";
        let mut metric = encoder.encode_descriptor("scheduler_cache_size", words, None, MetricType::Gauge)?;
        for (kind, count) in [("nodes", figures.nodes), ("pods", figures.pods), ("assumed_pods", figures.assumed)] {
            ConstGauge::new(count as i64).encode(metric.encode_family(&[("type", kind)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_attempts_are_one_label_from_fifteen_on() {
        let metrics = Metrics::new();
        for attempts in [14, 15, 16, 99] {
            metrics.scheduled(attempts, Duration::from_secs(1));
        }
        let text = metrics.text();
        let count = |label: &str| {
            let line = format!("scheduler_pod_scheduling_sli_duration_seconds_count{{attempts=\"{label}\"}} ");
            text.lines().find_map(|found| found.strip_prefix(&line).map(str::to_owned))
        };
        assert_eq!([count("14"), count("15+"), count("15")], [Some("1".into()), Some("3".into()), None]);
    }

    #[test]
    fn looking_for_victims_counts_without_finding_any() {
        let metrics = Metrics::new();
        metrics.looked_for_victims();
        metrics.looked_for_victims();
        metrics.preempted(3);
        let text = metrics.text();
        assert!(text.contains("scheduler_preemption_attempts_total 2"), "{text}");
        assert!(text.contains("scheduler_preemption_victims_count 1"), "{text}");
    }
}
