//! InterPodAffinity.

use super::Waiting;
use crate::engine::change::PodView;
use crate::model::{AffinityTerm, LabelSet, NodeSpec, PodShape};
use crate::storage::Change;

/// Whether a pod is one that all terms are about. As in Kubernetes the labels of namespaces are not looked up here.
fn matches_all(waiting: &Waiting<'_>, terms: &[AffinityTerm], pod: &PodShape) -> bool {
    let (no_labels, strings) = (LabelSet::default(), &waiting.state.strings);
    !terms.is_empty()
        && terms.iter().all(|term| term.pods.matches_incoming(pod.namespace, &no_labels, &pod.labels, strings))
}

/// A pod came that this one wants to be with, or left that kept it away; or one changed its labels to that effect.
pub fn after_pod_change(waiting: &Waiting<'_>, old: Option<&PodView>, new: Option<&PodView>) -> bool {
    if old.is_some() && waiting.is(new) {
        return true;
    }
    if old.into_iter().chain(new).any(|pod| !pod.takes_room()) {
        return false;
    }
    let affinity = &waiting.shape.affinity;
    if affinity.error.is_some() {
        return true;
    }
    let wanted = |pod: &PodView| matches_all(waiting, &affinity.required, &pod.shape);
    let unwanted = |pod: &PodView| matches_all(waiting, &affinity.required_anti, &pod.shape);
    match (old, new) {
        (Some(old), Some(new)) => !wanted(old) && wanted(new) || unwanted(old) && !unwanted(new),
        (None, Some(new)) => wanted(new),
        (Some(old), None) => {
            let theirs = &old.shape.affinity;
            unwanted(old) || theirs.error.is_some() || matches_all(waiting, &theirs.required_anti, waiting.shape)
        }
        (None, None) => true,
    }
}

/// A node came, or changed its domain in a topology of the pod's terms.
pub fn after_node_change(waiting: &Waiting<'_>, node: &Change<NodeSpec>) -> bool {
    let affinity = &waiting.shape.affinity;
    let Some(new) = node.new.as_deref().filter(|_| affinity.error.is_none()) else { return true };
    let Some(old) = node.old.as_deref() else {
        let has_label = |term: &AffinityTerm| new.labels.get(term.topology_key).is_some();
        return affinity.required.iter().any(has_label) || !affinity.required_anti.is_empty();
    };
    let values = |term: &AffinityTerm| (old.labels.get(term.topology_key), new.labels.get(term.topology_key));
    let entered = |term: &AffinityTerm| matches!(values(term), (before, Some(after)) if before != Some(after));
    let left = |term: &AffinityTerm| matches!(values(term), (Some(before), after) if after != Some(before));
    affinity.required.iter().any(entered) || affinity.required_anti.iter().any(left)
}
