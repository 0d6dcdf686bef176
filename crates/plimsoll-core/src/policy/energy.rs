//! Policies by what machines draw. A node whose power is not known is chosen last, never first.

use super::fit::left_over;
use super::{Policy, Ranking, Scope, each_node};
use crate::framework::Cycle;
use crate::state::{Node, NodeId};

/// The share of CPU asked for on a node, without and with the pod.
fn loads(cycle: &Cycle<'_>, node: &Node) -> (f64, f64) {
    let offered = node.allocatable.cpu as f64;
    if offered <= 0.0 {
        return (0.0, 0.0);
    }
    let (taken, wanted) = (node.requested.cpu as f64, cycle.local().resources.wanted.cpu as f64);
    (taken / offered, (taken + wanted) / offered)
}

/// The node whose power rises least.
#[derive(Debug)]
pub struct MarginalWatts {
    name: &'static str,
    counts_waking: bool,
}

impl MarginalWatts {
    pub const PEAKS: Self = Self { name: "peaks", counts_waking: false };
    pub const WITH_WAKING: Self = Self { name: "marginal-watts", counts_waking: true };

    fn rise(&self, cycle: &Cycle<'_>, node: &Node) -> Option<f64> {
        let known = cycle.state.telemetry.node(node.id);
        let curve = known.power.as_ref()?;
        let (before, after) = loads(cycle, node);
        let sleeps = self.counts_waking && node.pods.is_empty();
        Some(curve.at(after) - if sleeps { known.sleep_watts } else { curve.at(before) })
    }
}

impl Policy for MarginalWatts {
    fn name(&self) -> &'static str {
        self.name
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        each_node(ranking, nodes, scores, |cycle, node| self.rise(cycle, node).map_or(f64::MIN, |watts| -watts));
        Ok(())
    }
}

/// The watts a node needs for a thread when run at its best load, in thousandths: kinds of machines differ by more.
pub fn milliwatts_per_thread(cycle: &Cycle<'_>, node: &Node) -> Option<f64> {
    let threads = node.allocatable.cpu as f64 / 1000.0;
    let curve = cycle.state.telemetry.node(node.id).power.as_ref().filter(|_| threads > 0.0)?;
    Some((curve.least_watts_per_load() / threads * 1e3).round())
}

/// The machine that needs the fewest watts for a thread, then the best fit.
#[derive(Debug)]
pub struct EfficientFirst;

impl Policy for EfficientFirst {
    fn name(&self) -> &'static str {
        "efficient-first"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        each_node(ranking, nodes, scores, |cycle, node| {
            milliwatts_per_thread(cycle, node).map_or(f64::MIN, |watts| -watts - left_over(cycle, node) / 2.0)
        });
        Ok(())
    }
}
