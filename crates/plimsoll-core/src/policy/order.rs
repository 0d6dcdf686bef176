//! Policies that do not look at load: round robin, random, first fit.

use super::{Policy, Ranking, Scope};
use crate::state::NodeId;

/// The node after the last one chosen, in order of index.
#[derive(Debug, Default)]
pub struct RoundRobin {
    last: Option<NodeId>,
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn is_steady(&self) -> bool {
        false
    }

    fn rank(&mut self, _: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        let next = nodes.iter().position(|node| Some(*node) > self.last).unwrap_or(0);
        scores.fill(0.0);
        if let (Some(score), Some(node)) = (scores.get_mut(next), nodes.get(next)) {
            *score = 1.0;
            self.last = Some(*node);
        }
        Ok(())
    }
}

/// Any node, by lot.
#[derive(Debug)]
pub struct Random;

impl Policy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn rank(&mut self, _: &mut Ranking<'_>, _: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        // Equals are chosen by lot.
        scores.fill(0.0);
        Ok(())
    }
}

/// The first node, in the order in which they joined.
#[derive(Debug)]
pub struct FirstFit;

impl Policy for FirstFit {
    fn name(&self) -> &'static str {
        "first-fit"
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn rank(&mut self, _: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        for (score, node) in scores.iter_mut().zip(nodes) {
            *score = -(node.index() as f64);
        }
        Ok(())
    }
}
