//! NodeResourcesFit: a pod goes where what it asks for is free, and the strategy says whether full or empty nodes are liked.

use super::scoring::{Strategy, Weighted, share, weighted};
use crate::config::{NodeResourcesFitArgs, PluginName};
use crate::framework::{Code, Cycle, Plugin, Refusal};
use crate::model::ResourceId;
use crate::model::validation::is_extended_resource;
use crate::state::{ClusterState, Node, NodeId};

#[derive(Debug)]
pub struct NodeResourcesFit {
    strategy: Strategy,
    resources: Vec<Weighted>,
    ignored: Vec<String>,
    ignored_groups: Vec<String>,
}

/// A resource there is too little of.
struct Shortage {
    id: ResourceId,
    /// More than the node has at all, so that removing pods does not help.
    unresolvable: bool,
}

impl NodeResourcesFit {
    pub fn new(args: &NodeResourcesFitArgs, state: &mut ClusterState) -> Self {
        Self {
            strategy: Strategy::new(&args.scoring_strategy),
            resources: weighted(&args.scoring_strategy.resources, &mut state.resources),
            ignored: args.ignored_resources.clone(),
            ignored_groups: args.ignored_resource_groups.clone(),
        }
    }

    /// Whether a node's own count of an extended resource is not to be looked at.
    fn is_ignored(&self, cycle: &Cycle<'_>, id: ResourceId, node_has: i64) -> bool {
        let name = cycle.state.resources.resolve(id);
        if is_extended_resource(name) {
            let group = name.split('/').next().unwrap_or_default();
            if self.ignored.iter().any(|ignored| ignored == name)
                || self.ignored_groups.iter().any(|ignored| ignored == group)
            {
                return true;
            }
        }
        // A device class serves the resource on nodes that do not count it themselves: DynamicResources decides.
        node_has <= 0 && cycle.state.dra.class_for_resource(name).is_some()
    }

    fn shortages(&self, cycle: &Cycle<'_>, node: &Node, mut each: impl FnMut(Shortage)) {
        let wanted = &cycle.local().resources.wanted;
        if node.pods.len() as i64 + 1 > node.spec.max_pods {
            each(Shortage { id: ResourceId::PODS, unresolvable: false });
        }
        for (id, want, offered, taken) in [
            (ResourceId::CPU, wanted.cpu, node.allocatable.cpu, node.requested.cpu),
            (ResourceId::MEMORY, wanted.memory, node.allocatable.memory, node.requested.memory),
            (
                ResourceId::EPHEMERAL_STORAGE,
                wanted.ephemeral_storage,
                node.allocatable.ephemeral_storage,
                node.requested.ephemeral_storage,
            ),
        ] {
            if want > 0 && want > offered.wrapping_sub(taken) {
                each(Shortage { id, unresolvable: want > offered });
            }
        }
        for &(id, want) in &wanted.scalars {
            let (offered, taken) = node.scalar(id);
            if want > offered.wrapping_sub(taken) && !self.is_ignored(cycle, id, offered) {
                each(Shortage { id, unresolvable: want > offered });
            }
        }
    }
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> PluginName {
        PluginName::NodeResourcesFit
    }

    fn is_local(&self) -> bool {
        true
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        let (mut short, mut unresolvable) = (false, false);
        self.shortages(cycle, node, |shortage| {
            short = true;
            unresolvable |= shortage.unresolvable;
        });
        let code = if unresolvable { Code::UnschedulableAndUnresolvable } else { Code::Unschedulable };
        short.then_some(Refusal::new(PluginName::NodeResourcesFit, code, 0))
    }

    fn reasons(&self, cycle: &Cycle<'_>, node: &Node, _: Refusal) -> Vec<String> {
        let mut reasons = Vec::new();
        self.shortages(cycle, node, |shortage| {
            reasons.push(match shortage.id {
                ResourceId::PODS => "Too many pods".to_owned(),
                id => format!("Insufficient {}", cycle.state.resources.resolve(id)),
            });
        });
        reasons
    }

    fn score(&self, cycle: &Cycle<'_>, nodes: &[NodeId], scores: &mut [i64]) {
        let pod = &cycle.local().resources.scored;
        for (score, node) in scores.iter_mut().zip(nodes) {
            let Some(node) = cycle.state.node(*node) else { continue };
            let shares = self.resources.iter().filter_map(|r| Some((share(node, pod, r.id, true)?, r.weight)));
            *score = self.strategy.score(shares);
        }
    }
}
