//! PodTopologySpread.

use super::Waiting;
use crate::engine::change::PodView;
use crate::model::{LabelSet, NodeSpec, Selector, SpreadConstraint};
use crate::storage::Change;

/// The constraints that refuse nodes, each with the selector in force; none if they cannot be read.
fn constraints<'a>(waiting: &Waiting<'a>) -> Option<Vec<(&'a SpreadConstraint, Selector)>> {
    let own = &waiting.shape.spread;
    if own.hard_error.is_some() {
        return None;
    }
    if own.is_stated {
        let hard = own.constraints.iter().filter(|constraint| constraint.hard);
        return Some(hard.map(|constraint| (constraint, constraint.selector.clone())).collect());
    }
    let defaults = waiting.profile.map(|profile| profile.default_spread.as_slice()).unwrap_or_default();
    if defaults.is_empty() {
        return Some(Vec::new());
    }
    let selector = waiting.state.controllers.default_selector(waiting.shape, &waiting.state.strings);
    // A pod that no service or controller selects has no kind to spread.
    if selector.is_everything() {
        return Some(Vec::new());
    }
    Some(defaults.iter().map(|constraint| (constraint, selector.clone())).collect())
}

/// Whether what happens to a pod changes what is counted for the one that waits.
fn is_involved(waiting: &Waiting<'_>, pod: &PodView) -> bool {
    waiting.is(Some(pod)) || pod.takes_room() && pod.shape.namespace == waiting.shape.namespace
}

/// A pod came, changed its labels, or left: it helps if it is, or was, among those counted.
pub fn after_pod_change(waiting: &Waiting<'_>, old: Option<&PodView>, new: Option<&PodView>) -> bool {
    if old.into_iter().chain(new).any(|pod| !is_involved(waiting, pod)) {
        return false;
    }
    let Some(constraints) = constraints(waiting) else { return true };
    let strings = &waiting.state.strings;
    let counts = |selector: &Selector, labels: &LabelSet| selector.matches(labels, strings);
    match (old, new) {
        (Some(old), Some(new)) => {
            let tolerates_more = old.shape.local.tolerations != new.shape.local.tolerations;
            if waiting.is(Some(new)) && tolerates_more && constraints.iter().any(|(c, _)| c.honor_taints) {
                return true;
            }
            let differs = |selector| counts(selector, &old.shape.labels) != counts(selector, &new.shape.labels);
            constraints.iter().any(|(_, selector)| differs(selector))
        }
        (old, new) => {
            let labels = old.or(new).map(|pod| &pod.shape.labels);
            labels.is_some_and(|labels| constraints.iter().any(|(_, selector)| counts(selector, labels)))
        }
    }
}

/// A node came, changed or left: it helps if it is, or was, in a domain of every constraint.
pub fn after_node_change(waiting: &Waiting<'_>, node: &Change<NodeSpec>) -> bool {
    let Some(constraints) = constraints(waiting) else { return true };
    let takes_part =
        |node: &NodeSpec| constraints.iter().all(|(constraint, _)| node.labels.get(constraint.topology_key).is_some());
    match (node.old.as_deref(), node.new.as_deref()) {
        (Some(old), Some(new)) => {
            let moved = constraints.iter().any(|(constraint, _)| {
                old.labels.get(constraint.topology_key) != new.labels.get(constraint.topology_key)
            });
            takes_part(old) != takes_part(new) || takes_part(new) && (moved || old.taints != new.taints)
        }
        (old, new) => old.or(new).is_some_and(takes_part),
    }
}
