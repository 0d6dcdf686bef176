//! Pods as a run sees them, and the objects that the engine is told of.

use super::felt::Felt;
use crate::workload::{PodRecord, Template, Workload};
use k8s_openapi::api::core::v1::{Container, Pod, PodResourceClaim, PodSpec, ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plimsoll_core::rng::Rng;
use plimsoll_core::telemetry::ExpectedPod;
use std::time::Duration;

/// Where a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has not come yet.
    Ahead,
    /// It waits for a machine.
    Waiting,
    /// It runs, or starts as soon as its machine is awake.
    Running {
        /// The machine.
        machine: u32,
    },
    /// It ended.
    Finished,
    /// It gave up.
    Rejected,
}

/// A pod of a run.
#[derive(Debug, Clone)]
pub struct PodRun {
    /// Where it is.
    pub stage: Stage,
    /// What is left of its lifetime; none if it runs to the end.
    pub left: Option<Duration>,
    /// Until when `left` is accounted for.
    pub counted_to: Duration,
    /// Which of its runs this is; an end that was planned for another is void.
    pub run: u32,
    /// How often it had to be made anew, having lost its machine.
    pub made_anew: u32,
    /// Whether it was placed before.
    pub was_placed: bool,
    /// Which GPUs of its machine it has.
    pub gpus: Vec<u16>,
    /// How it is felt while it runs.
    pub felt: Felt,
}

impl PodRun {
    /// A pod that is to come. Its lifetime is drawn from its own seed, so that every policy meets the same pod.
    pub fn new(record: &PodRecord, number: usize, seed: u64) -> Self {
        let left = record.lifetime.map(|lifetime| {
            let range = lifetime.most.saturating_sub(lifetime.least);
            let mixed = seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            lifetime.least + range.mul_f64(Rng::new(mixed).unit())
        });
        Self {
            stage: Stage::Ahead,
            left,
            counted_to: Duration::ZERO,
            run: 0,
            made_anew: 0,
            was_placed: false,
            gpus: Vec::new(),
            felt: Felt::default(),
        }
    }

    /// Its UID: a pod that is made anew is another pod.
    pub fn uid(&self, number: usize) -> String {
        if self.made_anew == 0 { number.to_string() } else { format!("{number}.{}", self.made_anew) }
    }
}

/// The number of the pod with this UID.
pub fn number(uid: &str) -> Option<usize> {
    uid.split('.').next()?.parse().ok()
}

/// Builds the objects of pods, template by template.
pub struct Objects {
    templates: Vec<Pod>,
}

impl Objects {
    /// Prepares every template of a workload.
    pub fn new(workload: &Workload) -> Self {
        Self { templates: workload.templates.iter().map(object).collect() }
    }

    /// The pod as the API server would show it.
    pub fn pod(&self, record: &PodRecord, uid: String) -> Pod {
        let mut pod = self.templates.get(record.template as usize).cloned().unwrap_or_default();
        if let Some(claims) = pod.spec.as_mut().and_then(|spec| spec.resource_claims.as_mut()) {
            for claim in claims {
                claim.resource_claim_name = Some(claim_name(&uid));
            }
        }
        pod.metadata.name = Some(record.name.to_string());
        pod.metadata.uid = Some(uid);
        pod
    }
}

/// The claim of a pod that asks for GPUs.
pub fn claim_name(uid: &str) -> String {
    format!("gpu-{uid}")
}

fn object(template: &Template) -> Pod {
    let mut spec = template.spec.as_deref().cloned().unwrap_or_default();
    if spec.priority.is_none() {
        spec.priority = Some(template.priority);
    }
    let requests = [("cpu", format!("{}m", template.cpu_milli)), ("memory", template.memory.to_string())];
    let requests = requests.into_iter().map(|(name, amount)| (name.to_owned(), Quantity(amount))).collect();
    let mut resources = ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() };
    if template.gpus().is_some() {
        resources.claims = Some(vec![ResourceClaim { name: "gpu".into(), request: None }]);
        spec.resource_claims = Some(vec![PodResourceClaim { name: "gpu".into(), ..PodResourceClaim::default() }]);
    }
    spec.containers = vec![Container { name: "main".into(), resources: Some(resources), ..Container::default() }];
    let mut annotations = std::collections::BTreeMap::new();
    if let Some(latency) = template.latency {
        annotations.insert("latencySoftConstraint".to_owned(), latency.soft_ms.to_string());
        annotations.insert("latencyHardConstraint".to_owned(), latency.hard_ms.to_string());
    }
    Pod {
        metadata: ObjectMeta {
            namespace: Some(template.namespace().to_owned()),
            labels: template.app.as_ref().map(|app| [("app".to_owned(), app.clone())].into()),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec { ..spec }),
        status: None,
    }
}

/// The pods to be expected: the most common templates with their shares.
pub fn expected(workload: &Workload) -> Vec<ExpectedPod> {
    let mut counts = vec![0_u64; workload.templates.len()];
    for pod in &workload.pods {
        if let Some(count) = counts.get_mut(pod.template as usize) {
            *count += 1;
        }
    }
    let mut expected: Vec<_> = workload
        .templates
        .iter()
        .zip(counts)
        .filter(|(_, count)| *count > 0)
        .map(|(template, count)| {
            let gpu = template.gpu.as_ref();
            ExpectedPod {
                share: count as f64 / workload.pods.len() as f64,
                cpu_milli: template.cpu_milli,
                memory: template.memory,
                gpu_count: gpu.map_or(0, |gpu| gpu.count),
                gpu_milli: gpu.map_or(0, |gpu| gpu.milli),
            }
        })
        .collect();
    // The rare ones make no difference and cost time: ninety-five of a hundred pods are enough.
    expected.sort_by(|a, b| b.share.total_cmp(&a.share));
    let mut covered = 0.0;
    expected.retain(|pod| {
        let keep = covered < 0.95;
        covered += pod.share;
        keep
    });
    expected
}
