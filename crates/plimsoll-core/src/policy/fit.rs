//! Policies by what would be left over: best fit, worst fit, dot product.

use super::{Policy, Ranking, Scope, each_node};
use crate::framework::Cycle;
use crate::model::ResourceId;
use crate::state::{Node, NodeId};

/// What would be left free, as a share of what the node has, averaged over CPU, memory and what else the pod asks for.
pub fn left_over(cycle: &Cycle<'_>, node: &Node) -> f64 {
    let shares = shares(cycle, node);
    let (sum, count) = shares.fold((0.0, 0.0), |(sum, count), (free, wanted)| (sum + free - wanted, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// For CPU, memory and each further resource the pod asks for: what is free and what it wants, as shares of the node.
fn shares<'a>(cycle: &Cycle<'a>, node: &'a Node) -> impl Iterator<Item = (f64, f64)> + use<'a> {
    let wanted = &cycle.local().resources.wanted;
    let elsewhere = cycle.state.telemetry.node(node.id).taken_elsewhere();
    let basic = [
        (node.allocatable.cpu, node.requested.cpu + elsewhere.0, wanted.cpu),
        (node.allocatable.memory, node.requested.memory + elsewhere.1, wanted.memory),
    ];
    let scalars = wanted.scalars.iter().map(|&(id, amount): &(ResourceId, i64)| {
        let (offered, taken) = node.scalar(id);
        (offered, taken, amount)
    });
    basic
        .into_iter()
        .chain(scalars)
        .filter(|(offered, ..)| *offered > 0)
        .map(|(offered, taken, want)| ((offered as f64 - taken as f64) / offered as f64, want as f64 / offered as f64))
}

/// Best fit and worst fit: by what is left over.
#[derive(Debug)]
pub struct Fit {
    name: &'static str,
    sign: f64,
}

impl Fit {
    pub const BEST: Self = Self { name: "best-fit", sign: -1.0 };
    pub const WORST: Self = Self { name: "worst-fit", sign: 1.0 };
}

impl Policy for Fit {
    fn name(&self) -> &'static str {
        self.name
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        each_node(ranking, nodes, scores, |cycle, node| self.sign * left_over(cycle, node));
        Ok(())
    }
}

/// The alignment of what is free with what is wanted.
#[derive(Debug)]
pub struct DotProduct;

impl Policy for DotProduct {
    fn name(&self) -> &'static str {
        "dot-product"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        each_node(ranking, nodes, scores, |cycle, node| shares(cycle, node).map(|(free, wanted)| free * wanted).sum());
        Ok(())
    }
}
