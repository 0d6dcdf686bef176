//! Policies by how much is asked for, with the scores of Kubernetes' own plugins taken alone.

use super::{Policy, Ranking, Scope, each_node};
use crate::model::ResourceId;
use crate::plugins::{Strategy, balance_score, share};
use crate::state::NodeId;

const RESOURCES: [ResourceId; 2] = [ResourceId::CPU, ResourceId::MEMORY];

/// NodeResourcesFit's scoring strategies.
#[derive(Debug)]
pub struct Allocation {
    name: &'static str,
    strategy: Strategy,
}

impl Allocation {
    pub const MOST: Self = Self { name: "most-allocated", strategy: Strategy::MostAllocated };
    pub const LEAST: Self = Self { name: "least-allocated", strategy: Strategy::LeastAllocated };
}

impl Policy for Allocation {
    fn name(&self) -> &'static str {
        self.name
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        each_node(ranking, nodes, scores, |cycle, node| {
            let pod = &cycle.local().resources.scored;
            let shares = RESOURCES.into_iter().filter_map(|id| Some((share(node, pod, id, true)?, 1)));
            self.strategy.score(shares) as f64
        });
        Ok(())
    }
}

/// NodeResourcesBalancedAllocation.
#[derive(Debug)]
pub struct Balanced;

impl Policy for Balanced {
    fn name(&self) -> &'static str {
        "balanced"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        each_node(ranking, nodes, scores, |cycle, node| {
            let pod = &cycle.local().resources.taken;
            let shares: Vec<_> = RESOURCES.into_iter().filter_map(|id| share(node, pod, id, false)).collect();
            balance_score(&shares) as f64
        });
        Ok(())
    }
}
