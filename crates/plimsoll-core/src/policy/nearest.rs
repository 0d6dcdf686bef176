//! The node nearest to the user. A node whose latency is not known is chosen last, never first.

use super::fit::left_over;
use super::{Policy, Ranking, Scope, each_node};
use crate::state::NodeId;

/// The node with the lowest latency to the user, to the millisecond, then the best fit.
#[derive(Debug)]
pub struct Nearest;

impl Policy for Nearest {
    fn name(&self) -> &'static str {
        "nearest"
    }

    fn scope(&self) -> Scope {
        Scope::Home
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        each_node(ranking, nodes, scores, |cycle, node| {
            let latency = cycle.state.telemetry.latency_ms(cycle.pod_id, node.id);
            latency.map_or(f64::MIN, |ms| -ms.round() - left_over(cycle, node) / 2.0)
        });
        Ok(())
    }
}
