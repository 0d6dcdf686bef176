//! The extension points through which the rules take part in a decision.
//!
//! As in Kubernetes a plugin may look at the pod first (pre-filter), refuse nodes (filter), and rank those that are left
//! (pre-score, score, normalise). Unlike there a plugin is asked about all nodes in one call, so that its loop over dense
//! arrays is its own; what it prepares for a decision it keeps in itself, so that its memory is used again.

use crate::config::PluginName;
use crate::dra::plugin::PostFilter;
use crate::model::{LocalShape, PodShape};
use crate::state::{ClusterState, Node, NodeId, Pod, PodId, ShapeEntry};
use std::fmt;

/// The best score a plugin gives, as in Kubernetes.
pub const MAX_NODE_SCORE: i64 = 100;

/// How a plugin answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Code {
    /// Yes.
    Success,
    /// Something is broken; the attempt ends.
    Error,
    /// No, but removing pods might help.
    Unschedulable,
    /// No, and removing pods does not help.
    UnschedulableAndUnresolvable,
    /// Not yet.
    Wait,
    /// The plugin has nothing to say about this pod.
    Skip,
    /// Not before something outside happens.
    Pending,
}

impl Code {
    /// The name Kubernetes gives it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Error => "Error",
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Self::Wait => "Wait",
            Self::Skip => "Skip",
            Self::Pending => "Pending",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An answer with its reasons.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The answer.
    pub code: Code,
    /// Who gave it; none when it is the sum of several.
    pub plugin: Option<PluginName>,
    /// Why.
    pub reasons: Vec<String>,
}

impl Status {
    /// An answer with one reason.
    pub fn new(code: Code, plugin: PluginName, reason: impl Into<String>) -> Self {
        Self { code, plugin: Some(plugin), reasons: vec![reason.into()] }
    }

    /// The reasons in one line.
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}

/// A node that was refused. The reasons are worded on demand, by [`Plugin::reasons`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Who refused.
    pub plugin: PluginName,
    /// The answer.
    pub code: Code,
    /// Which of the plugin's reasons; its meaning is the plugin's own.
    pub detail: u16,
}

impl Refusal {
    /// A refusal.
    pub const fn new(plugin: PluginName, code: Code, detail: u16) -> Self {
        Self { plugin, code, detail }
    }
}

/// What a plugin says before nodes are looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PreFilter {
    /// The plugin's filter need not run for this pod.
    Skip,
    /// Go on.
    Continue,
    /// Go on, but only these nodes (by name) can be right.
    Restrict(Vec<String>),
    /// No node can be right.
    Reject(Status),
}

/// What a plugin says before nodes are ranked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PreScore {
    /// The plugin's score need not run for this pod.
    Skip,
    /// Go on.
    Continue,
    /// The pod cannot be ranked.
    Error(String),
}

/// One decision: the pod and the cluster it looks at.
#[derive(Clone, Copy)]
pub struct Cycle<'a> {
    /// The cluster.
    pub state: &'a ClusterState,
    /// The pod to place.
    pub pod_id: PodId,
    /// The same.
    pub pod: &'a Pod,
    /// What it shares with its template.
    pub entry: &'a ShapeEntry,
}

impl<'a> Cycle<'a> {
    /// A decision about a pod the state knows.
    pub fn new(state: &'a ClusterState, pod_id: PodId) -> Option<Self> {
        let pod = state.pod(pod_id)?;
        Some(Self { state, pod_id, pod, entry: state.shape_of(pod) })
    }

    /// The pod's shape.
    pub fn shape(&self) -> &'a PodShape {
        &self.entry.shape
    }

    /// The part of it that one node alone decides.
    pub fn local(&self) -> &'a LocalShape {
        &self.entry.shape.local
    }
}

/// Nodes that no plugin has refused yet, and those that one has.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Still in.
    pub nodes: Vec<NodeId>,
    /// Out, with the first that refused.
    pub refused: Vec<(NodeId, Refusal)>,
}

impl Candidates {
    /// Keeps the nodes that `refusal` finds nothing against.
    pub fn retain(&mut self, mut refusal: impl FnMut(NodeId) -> Option<Refusal>) {
        let refused = &mut self.refused;
        self.nodes.retain(|&node| match refusal(node) {
            None => true,
            Some(why) => {
                refused.push((node, why));
                false
            }
        });
    }
}

/// A rule of the scheduler.
///
/// Only the points a plugin takes part in need an implementation. `filter` and `score` see the node they are given, which
/// in a what-if differs from the one the state has.
pub trait Plugin: Send {
    /// Its name.
    fn name(&self) -> PluginName;

    /// Whether its answer about a node depends on that node and the pod's [`LocalShape`] alone, so that it may be
    /// remembered until the node changes.
    fn is_local(&self) -> bool {
        false
    }

    /// Looks at the pod before nodes are looked at.
    fn pre_filter(&mut self, _cycle: &Cycle<'_>) -> PreFilter {
        PreFilter::Continue
    }

    /// Judges one node.
    fn filter(&self, _cycle: &Cycle<'_>, _node: &Node) -> Option<Refusal> {
        None
    }

    /// Judges all candidates.
    fn filter_all(&self, cycle: &Cycle<'_>, candidates: &mut Candidates) {
        candidates.retain(|id| cycle.state.node(id).and_then(|node| self.filter(cycle, node)));
    }

    /// Words a refusal.
    fn reasons(&self, _cycle: &Cycle<'_>, _node: &Node, _refusal: Refusal) -> Vec<String> {
        Vec::new()
    }

    /// What if `pod` were on `node`, too: changes what `pre_filter` prepared.
    fn add_pod(&mut self, _cycle: &Cycle<'_>, _pod: &Pod, _node: &Node) {}

    /// What if `pod` were not on `node`: changes what `pre_filter` prepared.
    fn remove_pod(&mut self, _cycle: &Cycle<'_>, _pod: &Pod, _node: &Node) {}

    /// Takes back all `add_pod` and `remove_pod` since `pre_filter`.
    fn end_what_if(&mut self) {}

    /// What the plugin has to say when no node is feasible, and what it would do about it.
    fn post_filter(&self, _cycle: &Cycle<'_>) -> Option<PostFilter> {
        None
    }

    /// Looks at the pod and the feasible nodes before they are ranked.
    fn pre_score(&mut self, _cycle: &Cycle<'_>, _nodes: &[NodeId]) -> PreScore {
        PreScore::Continue
    }

    /// Whether it may score nodes differently for this pod; if not, adding its scores up is spared. Asked after the
    /// pre-filter, and cheap.
    fn has_preference(&self, _cycle: &Cycle<'_>) -> bool {
        true
    }

    /// Gives each node a raw score.
    fn score(&self, _cycle: &Cycle<'_>, _nodes: &[NodeId], _scores: &mut [i64]) {}

    /// Whether [`Self::normalize`] does anything, so that raw scores cannot be summed as they are.
    fn normalizes(&self) -> bool {
        false
    }

    /// Brings raw scores into 0..=100.
    fn normalize(&self, _cycle: &Cycle<'_>, _nodes: &[NodeId], _scores: &mut [i64]) {}
}

/// The common normalisation: the largest raw score becomes 100, or 0 when `reverse`.
pub fn default_normalize(reverse: bool, scores: &mut [i64]) {
    let max = scores.iter().copied().max().unwrap_or(0).max(0);
    if max == 0 {
        if reverse {
            scores.fill(MAX_NODE_SCORE);
        }
        return;
    }
    for score in scores {
        let scaled = MAX_NODE_SCORE.wrapping_mul(*score) / max;
        *score = if reverse { MAX_NODE_SCORE.wrapping_sub(scaled) } else { scaled };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalisation_scales_to_the_largest() {
        let mut scores = [0, 5, 10];
        default_normalize(false, &mut scores);
        assert_eq!(scores, [0, 50, 100]);
        let mut scores = [0, 1, 3];
        default_normalize(true, &mut scores);
        assert_eq!(scores, [100, 67, 0]);
        let mut scores = [0, 0];
        default_normalize(true, &mut scores);
        assert_eq!(scores, [100, 100]);
    }

    #[test]
    fn a_refusal_takes_four_bytes() {
        assert_eq!(size_of::<Option<Refusal>>(), 4, "it is kept for every node and remembered shape");
    }
}
