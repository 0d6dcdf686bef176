//! How the best of the allowed nodes is found.
//!
//! A policy only ranks: which nodes are allowed is for the rules alone, whatever ranks them. The default profile's weighted
//! sum is one policy among others; heuristics, learned models and hybrids are further ones.

use crate::framework::Cycle;
use crate::model::ResourceId;
use crate::rng::Rng;
use crate::rules::Rules;
use crate::state::{Node, NodeId};

/// Ranks nodes.
pub trait Policy: Send {
    /// The name it is chosen by.
    fn name(&self) -> &'static str;

    /// Gives each feasible node a score; the highest is chosen, equals by lot. `scores` has one entry a node.
    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String>;
}

/// What a policy may look at.
pub struct Ranking<'a> {
    /// The pod and the cluster.
    pub cycle: Cycle<'a>,
    /// The rules of the profile, for policies that build on their scores.
    pub rules: &'a mut Rules,
    /// Seeded random numbers.
    pub rng: &'a mut Rng,
    /// Memory for totals.
    pub totals: &'a mut Vec<i64>,
}

/// The policies that can be chosen by name, with what each does.
pub const POLICIES: &[(&str, &str)] = &[
    ("default", "the weighted sum of the profile's score plugins, exactly as kube-scheduler"),
    ("round-robin", "the node after the last one chosen"),
    ("random", "any node, by lot"),
    ("first-fit", "the first node in order of name"),
    ("best-fit", "the node with the least left over, so that others stay empty"),
    ("worst-fit", "the node with the most left over"),
    ("dot-product", "the node whose free resources point the same way as the pod's requests"),
];

/// A policy by its name; none if there is no such policy.
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    Some(match name {
        "default" => Box::new(WeightedSum),
        "round-robin" => Box::new(RoundRobin::default()),
        "random" => Box::new(Random),
        "first-fit" => Box::new(FirstFit),
        "best-fit" => Box::new(Fit { name: "best-fit", sign: -1.0 }),
        "worst-fit" => Box::new(Fit { name: "worst-fit", sign: 1.0 }),
        "dot-product" => Box::new(DotProduct),
        _ => return None,
    })
}

/// The default profile's weighted sum of scores.
#[derive(Debug, Default)]
pub struct WeightedSum;

impl Policy for WeightedSum {
    fn name(&self) -> &'static str {
        "default"
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        ranking.rules.totals(&ranking.cycle, nodes, ranking.totals)?;
        for (score, total) in scores.iter_mut().zip(&*ranking.totals) {
            *score = *total as f64;
        }
        Ok(())
    }
}

/// The node after the last one chosen, in order of index.
#[derive(Debug, Default)]
struct RoundRobin {
    last: Option<NodeId>,
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
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
struct Random;

impl Policy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn rank(&mut self, _: &mut Ranking<'_>, _: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        // Equals are chosen by lot.
        scores.fill(0.0);
        Ok(())
    }
}

/// The first node by name.
#[derive(Debug)]
struct FirstFit;

impl Policy for FirstFit {
    fn name(&self) -> &'static str {
        "first-fit"
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        let state = ranking.cycle.state;
        scores.fill(0.0);
        let first = (0..nodes.len()).min_by_key(|at| state.node_name(nodes[*at]));
        if let Some(at) = first {
            scores[at] = 1.0;
        }
        Ok(())
    }
}

/// What would be left free, as a share of what the node has, averaged over the resources the pod asks for.
fn left_over(cycle: &Cycle<'_>, node: &Node) -> f64 {
    let shares = shares(cycle, node);
    let (sum, count) = shares.fold((0.0, 0.0), |(sum, count), (free, wanted)| (sum + free - wanted, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// For CPU, memory and each further resource the pod asks for: what is free and what it wants, as shares of the node.
fn shares<'a>(cycle: &Cycle<'a>, node: &'a Node) -> impl Iterator<Item = (f64, f64)> + use<'a> {
    let wanted = &cycle.local().resources.wanted;
    let basic = [
        (node.allocatable.cpu, node.requested.cpu, wanted.cpu),
        (node.allocatable.memory, node.requested.memory, wanted.memory),
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
struct Fit {
    name: &'static str,
    sign: f64,
}

impl Policy for Fit {
    fn name(&self) -> &'static str {
        self.name
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        for (score, node) in scores.iter_mut().zip(nodes) {
            let node = ranking.cycle.state.node(*node);
            *score = node.map_or(f64::NEG_INFINITY, |node| self.sign * left_over(&ranking.cycle, node));
        }
        Ok(())
    }
}

/// The alignment of what is free with what is wanted.
#[derive(Debug)]
struct DotProduct;

impl Policy for DotProduct {
    fn name(&self) -> &'static str {
        "dot-product"
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        for (score, node) in scores.iter_mut().zip(nodes) {
            let node = ranking.cycle.state.node(*node);
            *score = node.map_or(f64::NEG_INFINITY, |node| {
                shares(&ranking.cycle, node).map(|(free, wanted)| free * wanted).sum()
            });
        }
        Ok(())
    }
}

/// The place of the highest score, equals by lot; none if no score is a number.
pub fn choose(scores: &[f64], rng: &mut Rng) -> Option<usize> {
    let (mut best, mut equals) = (f64::NEG_INFINITY, 0);
    for &score in scores {
        if score > best {
            (best, equals) = (score, 1);
        } else if score == best {
            equals += 1;
        }
    }
    if equals == 0 {
        return None;
    }
    let lot = if equals > 1 { rng.below(equals) } else { 0 };
    scores.iter().enumerate().filter(|(_, score)| **score == best).nth(lot).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_policy_exists_under_its_name() {
        for (name, _) in POLICIES {
            assert_eq!(by_name(name).map(|policy| policy.name()), Some(*name));
        }
        assert!(by_name("guess").is_none());
    }

    #[test]
    fn ties_are_broken_by_lot_and_nan_never_wins() {
        let mut rng = Rng::new(1);
        let scores = [f64::NAN, 3.0, 1.0, 3.0];
        let chosen: std::collections::BTreeSet<_> = (0..50).filter_map(|_| choose(&scores, &mut rng)).collect();
        assert_eq!(chosen.into_iter().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(choose(&[f64::NAN], &mut rng), None);
    }
}
