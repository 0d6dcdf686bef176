//! The node that is used least, as it was measured: requests say what pods may need, not what they do.

use super::{Policy, Ranking, Scope, each_node};
use crate::framework::Cycle;
use crate::state::{Node, NodeId};

/// The node whose busier resource, CPU or memory, would be used least with the pod.
#[derive(Debug)]
pub struct LeastUsed;

impl Policy for LeastUsed {
    fn name(&self) -> &'static str {
        "least-used"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        each_node(ranking, nodes, scores, |cycle, node| -used(cycle, node));
        Ok(())
    }
}

/// The share of the busier resource that would be in use with the pod. What was not measured is taken to be as requested.
fn used(cycle: &Cycle<'_>, node: &Node) -> f64 {
    let wanted = &cycle.local().resources.wanted;
    let known = cycle.state.telemetry.node(node.id);
    let (usage, elsewhere) = (known.usage.unwrap_or_default(), known.taken_elsewhere());
    let share = |measured: Option<(f64, i64)>, requested: i64, wanted: i64, offered: i64| {
        let offered = offered.max(1) as f64;
        // Pods that came since the measurement are not in it: they count with what they ask for.
        let now = match measured {
            Some((share, then)) => share + requested.saturating_sub(then).max(0) as f64 / offered,
            None => requested as f64 / offered,
        };
        now + wanted as f64 / offered
    };
    let cpu = share(usage.cpu, node.requested.cpu + elsewhere.0, wanted.cpu, node.allocatable.cpu);
    let memory = share(usage.memory, node.requested.memory + elsewhere.1, wanted.memory, node.allocatable.memory);
    cpu.max(memory)
}
