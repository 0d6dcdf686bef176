//! Packing by lifetimes that are known beforehand: a reference that no real policy reaches.

use super::energy::milliwatts_per_thread;
use super::fit::left_over;
use super::{Policy, Ranking, each_node};
use crate::state::NodeId;

/// Of the most efficient machines the node that stays busy least longer for the pod, then the best fit.
#[derive(Debug)]
pub struct LifetimeAware;

/// A thousandth of a watt weighs more than any lifetime in seconds.
const EFFICIENCY: f64 = 1e9;

impl Policy for LifetimeAware {
    fn name(&self) -> &'static str {
        "lifetime-aware"
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        let telemetry = &ranking.cycle.state.telemetry;
        let now = telemetry.now;
        // A pod whose lifetime nobody knows may run for ever: where is all the same, so the fit decides.
        let end = telemetry.pod(ranking.cycle.pod_id).lifetime.map_or(now, |lifetime| now + lifetime);
        each_node(ranking, nodes, scores, |cycle, node| {
            let busy_until = cycle.state.telemetry.node(node.id).busy_until.unwrap_or(now).max(now);
            // Whole seconds: below that the fit decides.
            let longer = end.saturating_sub(busy_until).as_secs() as f64;
            let watts = milliwatts_per_thread(cycle, node).unwrap_or_default();
            -watts * EFFICIENCY - longer - left_over(cycle, node) / 2.0
        });
        Ok(())
    }
}
