//! The node that is awake longest: those woken last are the first to fall asleep again.

use super::fit::left_over;
use super::{Policy, Ranking, Scope, each_node};
use crate::state::NodeId;

/// The node that is awake longest, then the best fit; one that sleeps only if no other is right.
#[derive(Debug)]
pub struct LongestAwake;

/// Nodes that sleep come after every one that is awake: thirty years, in milliseconds.
const ASLEEP: f64 = -1e12;

impl Policy for LongestAwake {
    fn name(&self) -> &'static str {
        "longest-awake"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        each_node(ranking, nodes, scores, |cycle, node| {
            let since = cycle.state.telemetry.node(node.id).awake_since;
            since.map_or(ASLEEP, |since| -(since.as_millis() as f64)) - left_over(cycle, node) / 2.0
        });
        Ok(())
    }
}
