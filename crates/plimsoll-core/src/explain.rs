//! Why a pod goes where it goes, or nowhere: every node with the first rule that refused it, or every rule's score.

use crate::config::PluginName;
use crate::framework::Status;
use crate::plugins::Preemption;
use crate::state::NodeId;
use std::collections::BTreeMap;

/// A decision laid open.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// Set when a rule refused the pod for every node.
    pub pre_filter: Option<Status>,
    /// The nodes that no rule refuses, by index.
    pub feasible: Vec<NodeId>,
    /// The others, with the first rule that refused; no plugin where the pod itself ruled the node out.
    pub refused: Vec<(NodeId, Status)>,
    /// The rules by which the pod itself rules nodes out, if any do.
    pub restricted_by: Vec<PluginName>,
    /// Each rule's weighted scores, in the order of `feasible`; rules with nothing to say are left out.
    pub scores: Vec<(PluginName, Vec<i64>)>,
    /// The sum of scores, in the order of `feasible`.
    pub totals: Vec<i64>,
    /// When nothing is feasible: whether giving back devices may help, in the words of DynamicResources.
    pub claims_message: Option<String>,
    /// When nothing is feasible: the node that could be cleared.
    pub preemption: Option<Preemption>,
    /// When nothing is feasible: why clearing a node does not help.
    pub preemption_message: Option<String>,
}

/// The reason given for nodes that a pre-filter result leaves out.
pub const NOT_IN_PRE_FILTER_RESULT: &str = "node is filtered out by the prefilter result";

impl Explanation {
    /// The message of a failed attempt, worded as kube-scheduler words it.
    pub fn message(&self, nodes: usize) -> String {
        let mut message = match &self.pre_filter {
            Some(status) => format!("0/{nodes} nodes are available: {}.", status.message()),
            None => {
                let mut reasons = BTreeMap::new();
                let names = self.restricted_by.iter().map(|plugin| plugin.as_str()).collect::<Vec<_>>().join(" ");
                for reason in self.refused.iter().flat_map(|(_, status)| &status.reasons) {
                    let reason = match reason.as_str() {
                        NOT_IN_PRE_FILTER_RESULT => format!("node(s) didn't satisfy plugin(s) [{names}]"),
                        _ => reason.clone(),
                    };
                    *reasons.entry(reason).or_default() += 1;
                }
                unavailable_message(nodes, &reasons)
            }
        };
        let preemption = self.preemption_message.as_ref().map(|more| format!("preemption: {more}"));
        let more: Vec<_> = self.claims_message.iter().cloned().chain(preemption).collect();
        // Where a node can be cleared, that is all there is to say.
        if !more.is_empty() && self.preemption.is_none() {
            message.push(' ');
            message.push_str(&more.join(", "));
        }
        message
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`
pub fn unavailable_message(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    let mut lines: Vec<_> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    lines.sort_unstable();
    match lines.is_empty() {
        true => format!("0/{nodes} nodes are available:"),
        false => format!("0/{nodes} nodes are available: {}.", lines.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_sorted_as_text() {
        let reasons = [("Too many pods".to_owned(), 10), ("Insufficient cpu".to_owned(), 2)].into();
        assert_eq!(
            unavailable_message(12, &reasons),
            "0/12 nodes are available: 10 Too many pods, 2 Insufficient cpu."
        );
    }
}
