//! TaintToleration: taints keep pods away that do not tolerate them, or make the node less liked.

use crate::config::PluginName;
use crate::framework::{Code, Cycle, Plugin, Refusal, default_normalize};
use crate::model::{Effect, LocalShape};
use crate::state::{Node, NodeId};

#[derive(Debug, Default)]
pub struct TaintToleration;

const REFUSAL: Refusal = Refusal::new(PluginName::TaintToleration, Code::UnschedulableAndUnresolvable, 0);

/// Whether no taint of the node keeps the pod away.
pub fn tolerates_node(pod: &LocalShape, node: &Node) -> bool {
    node.spec
        .taints
        .iter()
        .all(|taint| !taint.effect.forbids() || pod.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

impl Plugin for TaintToleration {
    fn name(&self) -> PluginName {
        PluginName::TaintToleration
    }

    fn is_local(&self) -> bool {
        true
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        (!tolerates_node(cycle.local(), node)).then_some(REFUSAL)
    }

    fn reasons(&self, _: &Cycle<'_>, _: &Node, _: Refusal) -> Vec<String> {
        vec!["node(s) had untolerated taint(s)".into()]
    }

    fn score(&self, cycle: &Cycle<'_>, nodes: &[NodeId], scores: &mut [i64]) {
        let tolerations = &cycle.local().tolerations;
        for (score, node) in scores.iter_mut().zip(nodes) {
            let taints = cycle.state.node(*node).map(|node| &*node.spec.taints).unwrap_or_default();
            *score = taints
                .iter()
                .filter(|taint| taint.effect == Effect::PreferNoSchedule)
                .filter(|taint| !tolerations.iter().any(|t| t.covers_prefer_no_schedule() && t.tolerates(taint)))
                .count() as i64;
        }
    }

    fn normalizes(&self) -> bool {
        true
    }

    fn normalize(&self, _: &Cycle<'_>, _: &[NodeId], scores: &mut [i64]) {
        default_normalize(true, scores);
    }
}
