//! What a simulation measures. Everything is integrated over simulated time, from the end of the warm-up to the last arrival.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The measures of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measures {
    /// Hours over which it was measured.
    pub hours: f64,
    /// Machines that ran at least one pod, on average over time.
    pub active_nodes: f64,
    /// Hours for which machines were awake, summed over machines.
    pub node_hours: f64,
    /// Machines without a pod, as a share of those that were there, on average over time.
    pub empty_node_share: f64,
    /// Energy, in kWh.
    pub kwh: f64,
    /// Power, in kW, on average over time.
    pub mean_kw: f64,
    /// Carbon dioxide, in kg; none without a carbon intensity.
    pub co2_kg: Option<f64>,
    /// Money, for machines and for traffic between clusters; none without prices.
    pub cost: Option<f64>,
    /// Money for traffic between clusters, a part of the cost; none without prices of traffic.
    pub transfer_cost: Option<f64>,
    /// Share of the running pods that are not in the cluster they come from, on average over pods and time; none without clusters.
    pub away_share: Option<f64>,
    /// Share of CPU allocated on awake machines, on average over time.
    pub cpu_utilization: f64,
    /// Share of memory allocated on awake machines, on average over time.
    pub memory_utilization: f64,
    /// Standard deviation of CPU allocation across all machines, on average over time.
    pub cpu_spread: f64,
    /// Standard deviation of memory allocation across all machines, on average over time.
    pub memory_spread: f64,
    /// Share of the free CPU on awake machines that the mean pod of the workload cannot use, on average over time.
    pub fragmentation: f64,
    /// Share of free GPU capacity that the GPU pods of the workload cannot use, on average over time; none without GPUs.
    pub gpu_fragmentation: Option<f64>,
    /// Share of GPU capacity allocated, on average over time; none without GPUs.
    pub gpu_utilization: Option<f64>,
    /// Minutes for which a machine's usage exceeded what it has, summed over machines.
    pub overload_minutes: f64,
    /// Minutes for which a machine's power was above its thermal limit, summed over machines.
    pub thermal_minutes: f64,
    /// Pods that arrived.
    pub arrived: u64,
    /// Pods that were placed, counted once a pod.
    pub placed: u64,
    /// Pods running at the end.
    pub running: u64,
    /// Pods that ended.
    pub finished: u64,
    /// Pods that gave up waiting.
    pub rejected: u64,
    /// Pods still waiting at the end.
    pub waiting: u64,
    /// Pods removed for more important ones.
    pub preemptions: u64,
    /// Pods that lost their machine to failure or drain.
    pub evictions: u64,
    /// Seconds from arrival to start, on average over placed pods.
    pub wait_mean_s: f64,
    /// Seconds from arrival to start, half of the pods wait less.
    pub wait_p50_s: f64,
    /// Seconds from arrival to start, 95 % of the pods wait less.
    pub wait_p95_s: f64,
    /// Seconds from arrival to start, 99 % of the pods wait less.
    pub wait_p99_s: f64,
    /// Latency to the user in milliseconds, on average over running pods and time; none without a latency model.
    pub latency_mean_ms: Option<f64>,
    /// 95th percentile of the latency to the user over running pods and time; none without a latency model.
    pub latency_p95_ms: Option<f64>,
    /// Pod-minutes above the soft latency constraint.
    pub soft_violation_minutes: f64,
    /// Pod-minutes above the hard latency constraint.
    pub hard_violation_minutes: f64,
    /// Latency of calls between services for a request in milliseconds, on average over time; none without a call graph.
    pub call_latency_ms: Option<f64>,
    /// Machines that were woken.
    pub wakes: u64,
}

/// What the best possible policy could not beat, over the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Active machines, on average over time.
    pub active_nodes: f64,
    /// Power, in kW, on average over time.
    pub mean_kw: f64,
}

/// One run: a policy on a window of a workload with a seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The scenario's name.
    pub scenario: String,
    /// The policy.
    pub policy: String,
    /// The window of the workload, as `from..to` in seconds of the source.
    pub window: String,
    /// The seed.
    pub seed: u64,
    /// What was measured.
    pub measures: Measures,
    /// What nobody can beat.
    pub bounds: Bounds,
    /// Active machines as a multiple of their bound.
    pub active_nodes_ratio: f64,
    /// Power as a multiple of its bound.
    pub kw_ratio: f64,
    /// A checksum over every placement: equal runs have equal ones.
    pub placements_checksum: String,
}

/// How a run went over time: what plots show. Every list has one entry a sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Hours from the start.
    pub hours: Vec<f64>,
    /// Machines with at least one pod.
    pub active_nodes: Vec<f64>,
    /// Kilowatts.
    pub kw: Vec<f64>,
    /// Running pods.
    pub running: Vec<f64>,
    /// Waiting pods.
    pub waiting: Vec<f64>,
    /// Mean latency to the user in milliseconds; empty without a latency model.
    pub latency_ms: Vec<f64>,
    /// Names of the machines whose pods are drawn one by one: all of a small fleet, none of a large one.
    pub nodes: Vec<String>,
    /// Pods on each of those machines; one list a machine.
    pub pods_per_node: Vec<Vec<u32>>,
    /// Seconds that placed pods waited, as a histogram: upper ends and counts.
    pub wait_upper_s: Vec<f64>,
    /// Pods in each class of the histogram.
    pub wait_count: Vec<u64>,
}

/// A run with its course.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The figures.
    pub row: Row,
    /// The course.
    pub series: Series,
}
