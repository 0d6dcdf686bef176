//! A decision laid open, in names: what is printed and what JSON output holds.

use crate::explain::Explanation;
use crate::framework::Status;
use crate::plugins::Preemption;
use crate::state::{ClusterState, NodeId};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Why a pod goes where it goes, or nowhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// `namespace/name`
    pub pod: String,
    /// How many nodes there are.
    pub nodes: usize,
    /// Set when a rule refused the pod for every node at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_filter: Option<Refusal>,
    /// The nodes that no rule refuses, the best first.
    pub feasible: Vec<Scored>,
    /// The others, by name.
    pub refused: Vec<RefusedNode>,
    /// Set when nothing is feasible: what kube-scheduler says then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Set when nothing is feasible, but a node can be cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Cleared>,
}

/// A feasible node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The node.
    pub node: String,
    /// The sum of scores.
    pub total: i64,
    /// What each plugin gives, weighted.
    pub scores: BTreeMap<String, i64>,
}

/// Who refused, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// The plugin; empty where several together left the node out.
    pub plugin: String,
    /// The reasons.
    pub reasons: Vec<String>,
}

/// A refused node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefusedNode {
    /// The node.
    pub node: String,
    /// The first plugin that refused it.
    #[serde(flatten)]
    pub refusal: Refusal,
}

/// A node to be cleared for a pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cleared {
    /// The node.
    pub node: String,
    /// The pods to remove.
    pub victims: Vec<String>,
    /// How many of them a disruption budget protects.
    pub broken_budgets: usize,
}

impl Account {
    /// Puts an explanation into names.
    pub fn new(pod: String, explanation: &Explanation, state: &ClusterState) -> Self {
        let name = |node: NodeId| state.node_name(node).to_owned();
        let nodes = state.node_count();
        let scores_at = |at: usize| {
            let each = explanation.scores.iter();
            each.filter_map(|(plugin, scores)| Some((plugin.as_str().to_owned(), *scores.get(at)?))).collect()
        };
        let ranked = explanation.feasible.iter().zip(&explanation.totals).enumerate();
        let mut feasible: Vec<_> = ranked
            .map(|(at, (node, total))| Scored { node: name(*node), total: *total, scores: scores_at(at) })
            .collect();
        feasible.sort_by(|a, b| (Reverse(a.total), &a.node).cmp(&(Reverse(b.total), &b.node)));
        let mut refused: Vec<_> = explanation
            .refused
            .iter()
            .map(|(node, status)| RefusedNode { node: name(*node), refusal: Refusal::new(status) })
            .collect();
        refused.sort_by(|a, b| a.node.cmp(&b.node));
        Self {
            pod,
            nodes,
            pre_filter: explanation.pre_filter.as_ref().map(Refusal::new),
            message: feasible.is_empty().then(|| explanation.message(nodes)),
            preemption: explanation.preemption.as_ref().map(|found| Cleared::new(found, state)),
            feasible,
            refused,
        }
    }

    /// How many nodes each plugin refused, the most first.
    pub fn refusals(&self) -> Vec<(usize, &str)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for node in &self.refused {
            *counts.entry(node.refusal.plugin.as_str()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().map(|(plugin, count)| (count, plugin)).collect();
        counts.sort_by_key(|(count, _)| Reverse(*count));
        counts
    }
}

impl Refusal {
    fn new(status: &Status) -> Self {
        let plugin = status.plugin.map_or("", |plugin| plugin.as_str());
        Self { plugin: plugin.to_owned(), reasons: status.reasons.clone() }
    }
}

impl Cleared {
    /// Puts a preemption into names; its victims must still be known.
    pub fn new(preemption: &Preemption, state: &ClusterState) -> Self {
        let victims = preemption.victims.iter().filter_map(|id| state.pod(*id));
        Self {
            node: state.node_name(preemption.node).to_owned(),
            victims: victims.map(|pod| state.pod_name(pod)).collect(),
            broken_budgets: preemption.violations,
        }
    }
}

/// How a node won: against whom, and by which plugins' scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The sum of scores of the node chosen.
    pub total: i64,
    /// What each plugin gives it, weighted.
    pub scores: BTreeMap<String, i64>,
    /// The best of the other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<RunnerUp>,
    /// How many other nodes have the same total: the choice among them was by lot.
    pub equals: usize,
}

/// The best of the nodes that were not chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerUp {
    /// The node.
    pub node: String,
    /// Its sum of scores.
    pub total: i64,
    /// Where the node chosen has another score: by how much it is higher.
    pub advantage: BTreeMap<String, i64>,
}

impl Choice {
    /// How `chosen` won; none if it is not feasible.
    pub fn new(explanation: &Explanation, chosen: NodeId, state: &ClusterState) -> Option<Self> {
        let at = explanation.feasible.iter().position(|node| *node == chosen)?;
        let total = *explanation.totals.get(at)?;
        let others = || explanation.totals.iter().enumerate().filter(|(other, _)| *other != at);
        let next = others().max_by_key(|(other, total)| (**total, Reverse(*other))).map(|(other, total)| {
            let each = explanation.scores.iter();
            let advantage = each
                .filter_map(|(plugin, scores)| Some((plugin.as_str().to_owned(), scores.get(at)? - scores.get(other)?)))
                .filter(|(_, difference)| *difference != 0)
                .collect();
            let node = explanation.feasible.get(other).map_or("", |node| state.node_name(*node));
            RunnerUp { node: node.to_owned(), total: *total, advantage }
        });
        Some(Self {
            total,
            scores: explanation
                .scores
                .iter()
                .filter_map(|(name, all)| Some((name.as_str().to_owned(), *all.get(at)?)))
                .collect(),
            next,
            equals: others().filter(|(_, other)| **other == total).count(),
        })
    }

    /// In one line.
    pub fn in_words(&self) -> String {
        match &self.next {
            None => "the only feasible node".to_owned(),
            Some(_) if self.equals > 0 => {
                let nodes = if self.equals == 1 { "another node" } else { "other nodes" };
                let number = if self.equals == 1 { String::new() } else { format!("{} ", self.equals) };
                format!("{}, equal to {number}{nodes}: chosen by lot", self.total)
            }
            Some(next) => {
                let mut parts: Vec<_> = next.advantage.iter().collect();
                parts.sort_by(|(a, left), (b, right)| right.cmp(left).then_with(|| a.cmp(b)));
                let parts: Vec<_> = parts.iter().map(|(name, difference)| format!("{name} {difference:+}")).collect();
                format!("{} against {} on {}: {}", self.total, next.total, next.node, parts.join(", "))
            }
        }
    }
}
