//! The plugins that look at one node and its pods alone: NodeAffinity, NodeUnschedulable, TaintToleration,
//! NodeDeclaredFeatures and NodePorts.

use super::Waiting;
use crate::engine::change::PodView;
use crate::model::{Effect, NodeSpec, Sym, Taint};
use crate::storage::Change;

/// NodeAffinity: the node is one the pod asks for, and was not before.
pub fn affinity_after_node_change(waiting: &Waiting<'_>, node: &Change<NodeSpec>) -> bool {
    let Some(new) = node.new.as_deref() else { return false };
    let strings = &waiting.state.strings;
    let added = waiting.profile.and_then(|profile| profile.added_affinity.as_ref());
    if added.is_some_and(|added| !added.accepts(new.name, &new.labels, strings)) {
        return false;
    }
    let accepts = |node: &NodeSpec| waiting.shape.local.node_affinity.accepts(node.name, &node.labels, strings);
    accepts(new) && !node.old.as_deref().is_some_and(accepts)
}

/// NodeUnschedulable: the node takes pods, and did not before.
pub fn unschedulable_after_node_change(node: &Change<NodeSpec>) -> bool {
    let was = node.old.as_ref().is_none_or(|old| old.unschedulable);
    was && node.new.as_ref().is_some_and(|new| !new.unschedulable)
}

/// NodeUnschedulable: the pod now tolerates nodes that take no pods.
pub fn unschedulable_after_toleration(waiting: &Waiting<'_>, new: Option<&PodView>) -> bool {
    let taint = Taint { key: waiting.state.well_known.unschedulable, value: Sym::EMPTY, effect: Effect::NoSchedule };
    let Some(new) = new.filter(|new| waiting.is(Some(new))) else { return false };
    new.shape.local.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
}

/// TaintToleration: the pod tolerates the node, and did not before.
pub fn taints_after_node_change(waiting: &Waiting<'_>, node: &Change<NodeSpec>) -> bool {
    let tolerations = &waiting.shape.local.tolerations;
    let tolerates = |node: &NodeSpec| {
        let tolerated = |taint: &Taint| tolerations.iter().any(|toleration| toleration.tolerates(taint));
        node.taints.iter().all(|taint| !taint.effect.forbids() || tolerated(taint))
    };
    node.new.as_deref().is_some_and(tolerates) && !node.old.as_deref().is_some_and(tolerates)
}

/// NodeDeclaredFeatures: the node declares other features than before.
pub fn features_after_node_change(node: &Change<NodeSpec>) -> bool {
    let Some(new) = &node.new else { return false };
    node.old.as_ref().is_none_or(|old| old.features != new.features)
}

/// NodeDeclaredFeatures: the pod needs other features than before.
pub fn features_after_pod_update(waiting: &Waiting<'_>, old: Option<&PodView>, new: Option<&PodView>) -> bool {
    let features = |pod: &PodView| pod.shape.local.features.clone();
    waiting.is(new) && old.map(features) != new.map(features)
}

/// NodePorts: the pod that left had a port that this one wants.
pub fn ports_after_pod_deleted(waiting: &Waiting<'_>, deleted: &PodView) -> bool {
    let wanted = &waiting.shape.local.ports;
    deleted.takes_room()
        && deleted.shape.local.ports.iter().any(|port| wanted.iter().any(|wanted| wanted.conflicts(port)))
}
