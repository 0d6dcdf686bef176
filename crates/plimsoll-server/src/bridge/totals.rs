//! Figures of a whole cluster.

use super::Totals;
use plimsoll_kube::survey::NodeView;
use plimsoll_kube::twin::{Part, Whole};

impl Totals {
    /// What nodes come to together, and what they would draw under the default policy.
    pub fn of<'a>(nodes: impl Iterator<Item = &'a NodeView> + Clone, watts_default: Option<f64>) -> Self {
        let part = |node: &NodeView| Part {
            pods: node.pods[0] as usize,
            cpu_m: node.cpu_m,
            watts: node.watts,
            latency_ms: node.latency_ms,
            is_virtual: node.is_virtual,
        };
        let whole = Whole::of(nodes.clone().map(part));
        let mut totals = Self {
            active_nodes: whole.active_nodes,
            watts: whole.watts,
            watts_default,
            balance: whole.balance,
            latency_ms: whole.latency_ms,
            ..Self::default()
        };
        for node in nodes {
            totals.nodes += 1;
            totals.pods += node.pods[0];
            totals.cpu_m[0] += node.cpu_m[0];
            totals.memory[0] += node.memory[0];
            // What several virtual nodes offer is there once.
            let among = i64::from(node.among.max(1));
            totals.cpu_m[1] += node.cpu_m[1] / among;
            totals.memory[1] += node.memory[1] / among;
        }
        totals
    }

    /// The same, as far as two clusters are compared.
    pub fn whole(&self) -> Whole {
        let Self { watts, active_nodes, balance, latency_ms, .. } = *self;
        Whole { watts, active_nodes, balance, latency_ms }
    }
}
