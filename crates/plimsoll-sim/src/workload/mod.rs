//! What a cluster is asked to run: pods with their times, recorded or made up.
//!
//! A workload knows nothing of nodes or policies. Times count from its start. Lifetimes may be known as a range only; one is
//! drawn from it, by seed, when the workload is run, so that every policy meets the same pods.

pub mod alibaba;
pub mod azure;
mod build;
pub(crate) mod fields;
mod format;
pub mod generate;
pub mod info;
#[cfg(feature = "parquet")]
pub mod parquet;
pub(crate) mod rows;
pub mod select;
mod spec;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;

pub use build::Builder;
pub use fields::Reason;
pub use format::{Format, read, write};
pub use rows::{ReadOptions, Skipped, SkippedRows};

use k8s_openapi::api::core::v1::PodSpec;
use std::time::Duration;

/// A workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workload {
    /// What it is called in reports.
    pub name: String,
    /// What pods have in common.
    pub templates: Vec<Template>,
    /// The pods, by arrival; equal arrivals keep the order of the source.
    pub pods: Vec<PodRecord>,
    /// Which services call which, where that is known.
    pub calls: Vec<Call>,
}

/// What the pods of one template have in common: all that a scheduler sees of them beforehand.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Template {
    /// The namespace; empty is `default`.
    pub namespace: String,
    /// The label `app`, where there is one.
    pub app: Option<String>,
    /// CPU, in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory, in bytes.
    pub memory: i64,
    /// GPUs.
    pub gpu: Option<GpuRequest>,
    /// The priority.
    pub priority: i32,
    /// Latency to the user that the pod bears.
    pub latency: Option<LatencyConstraint>,
    /// Everything else that constrains it: selectors, affinity, tolerations. Requests are those above.
    pub spec: Option<Box<PodSpec>>,
}

/// What a pod asks of GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuRequest {
    /// How many.
    pub count: u32,
    /// The share of each, in thousandths; a whole one is 1000.
    pub milli: u32,
    /// The models it can use; all if empty.
    pub models: Vec<String>,
}

/// Latency to the user, in milliseconds: pleasant up to `soft`, bearable up to `hard`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyConstraint {
    /// Above this it is felt.
    pub soft_ms: f64,
    /// Above this it is broken.
    pub hard_ms: f64,
}

/// A pod of a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct PodRecord {
    /// Its name, unique in the workload.
    pub name: Box<str>,
    /// Its place in [`Workload::templates`].
    pub template: u32,
    /// Who it belongs to, as a number: pods of one owner come together, and live and die alike.
    pub owner: u32,
    /// When it comes.
    pub arrival: Duration,
    /// How long it runs once it started; without one it runs to the end.
    pub lifetime: Option<Lifetime>,
    /// The share of its CPU request that it really uses, on average, where that was recorded.
    pub usage: Option<f32>,
}

/// How long a pod runs: somewhere between two bounds, which are equal where it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// At least.
    pub least: Duration,
    /// At most.
    pub most: Duration,
}

impl Template {
    /// The namespace, `default` where none is given.
    pub fn namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }

    /// What it asks of GPUs, if it asks for any.
    pub fn gpus(&self) -> Option<&GpuRequest> {
        self.gpu.as_ref().filter(|gpu| gpu.count > 0)
    }
}

impl Lifetime {
    /// A lifetime that is known.
    pub fn exactly(lifetime: Duration) -> Self {
        Self { least: lifetime, most: lifetime }
    }
}

/// One service asks another.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The service that asks: a template's `app`.
    pub from: String,
    /// The service that is asked.
    pub to: String,
    /// How often, for each request of a user.
    pub per_request: f64,
}

impl Workload {
    /// From the first arrival's reference to the last arrival: the time over which results are measured.
    pub fn span(&self) -> Duration {
        self.pods.last().map_or(Duration::ZERO, |pod| pod.arrival)
    }
}
