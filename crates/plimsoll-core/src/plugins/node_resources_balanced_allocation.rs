//! NodeResourcesBalancedAllocation: likes nodes whose resources are used up evenly with the pod.

use super::scoring::{Weighted, balance_score, share, weighted};
use crate::config::{NodeResourcesBalancedAllocationArgs, PluginName};
use crate::framework::{Cycle, Plugin, PreScore};
use crate::state::{ClusterState, NodeId};

#[derive(Debug)]
pub struct NodeResourcesBalancedAllocation {
    resources: Vec<Weighted>,
}

impl NodeResourcesBalancedAllocation {
    pub fn new(args: &NodeResourcesBalancedAllocationArgs, state: &mut ClusterState) -> Self {
        Self { resources: weighted(&args.resources, &mut state.resources) }
    }
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> PluginName {
        PluginName::NodeResourcesBalancedAllocation
    }

    fn is_local(&self) -> bool {
        true
    }

    fn pre_score(&mut self, cycle: &Cycle<'_>, _: &[NodeId]) -> PreScore {
        let taken = &cycle.local().resources.taken;
        if self.resources.iter().all(|resource| taken.get(resource.id) == 0) {
            PreScore::Skip
        } else {
            PreScore::Continue
        }
    }

    fn score(&self, cycle: &Cycle<'_>, nodes: &[NodeId], scores: &mut [i64]) {
        let pod = &cycle.local().resources.taken;
        let mut shares = Vec::with_capacity(self.resources.len());
        for (score, node) in scores.iter_mut().zip(nodes) {
            let Some(node) = cycle.state.node(*node) else { continue };
            shares.clear();
            shares.extend(self.resources.iter().filter_map(|resource| share(node, pod, resource.id, false)));
            *score = balance_score(&shares);
        }
    }
}
