//! Fragmentation gradient descent: pods go where they spoil the fewest free GPUs for the pods to come.
//!
//! A node's fragmentation is the share of its free GPU capacity that a pod, drawn from those to be expected, cannot use; a pod
//! goes where it raises that least. After Weng et al., "Beware of Fragmentation", USENIX ATC 2023.

use super::fit::left_over;
use super::{Policy, Ranking, Scope, each_node};
use crate::framework::Cycle;
use crate::state::{Node, NodeId};
use crate::telemetry::ExpectedPod;

/// A whole GPU, in thousandths.
const WHOLE: u32 = 1000;

/// What is free on a node.
#[derive(Clone)]
struct Free<'a> {
    cpu: i64,
    memory: i64,
    gpus: std::borrow::Cow<'a, [u32]>,
}

impl Free<'_> {
    /// Free GPU thousandths that pods to come cannot use, on average over them.
    fn fragmentation(&self, expected: &[ExpectedPod]) -> f64 {
        let stranded = |pod: &ExpectedPod| pod.stranded(self.cpu, self.memory, &self.gpus);
        expected.iter().map(|pod| pod.share * f64::from(stranded(pod))).sum()
    }

    /// What is left once a pod took its GPUs, the fullest that suffice first.
    fn after(&self, cpu: i64, memory: i64, count: u32, milli: u32) -> Self {
        let mut after = Self { cpu: self.cpu - cpu, memory: self.memory - memory, gpus: self.gpus.clone() };
        let gpus = after.gpus.to_mut();
        for _ in 0..count {
            let fitting = gpus.iter_mut().filter(|free| **free >= milli && milli > 0);
            if let Some(free) = fitting.min_by_key(|free| **free) {
                *free -= milli;
            }
        }
        after
    }
}

/// See the description of the module.
#[derive(Debug)]
pub struct FragmentationGradient;

impl FragmentationGradient {
    /// By how many thousandths of a GPU a node's fragmentation rises with the pod.
    pub fn rise(cycle: &Cycle<'_>, node: &Node) -> f64 {
        let telemetry = &cycle.state.telemetry;
        let wanted = &cycle.local().resources.wanted;
        let (count, milli) = telemetry.pod(cycle.pod_id).gpus.unwrap_or_default();
        let before = Free {
            cpu: node.allocatable.cpu - node.requested.cpu,
            memory: node.allocatable.memory - node.requested.memory,
            gpus: telemetry.node(node.id).gpus.as_slice().into(),
        };
        let after = before.after(wanted.cpu, wanted.memory, count, milli.min(WHOLE));
        after.fragmentation(&telemetry.expected) - before.fragmentation(&telemetry.expected)
    }
}

impl Policy for FragmentationGradient {
    fn name(&self) -> &'static str {
        "fgd"
    }

    fn scope(&self) -> Scope {
        // What a pod asks of GPUs is told of the pod, not of its template.
        Scope::Cluster
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        // Where it makes no difference to GPUs, best fit.
        each_node(ranking, nodes, scores, |cycle, node| -Self::rise(cycle, node) - left_over(cycle, node) / 1000.0);
        Ok(())
    }
}
