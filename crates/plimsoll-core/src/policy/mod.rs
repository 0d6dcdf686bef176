//! How the best of the allowed nodes is found.
//!
//! A policy only ranks: which nodes are allowed is for the rules alone, whatever ranks them. The default profile's weighted
//! sum is one policy among others; heuristics, learned models and hybrids are further ones.

mod allocation;
mod awake;
mod energy;
mod fit;
mod fragmentation;
mod home;
mod lifetime;
mod nearest;
mod order;
mod used;
mod weighted_sum;

use crate::framework::Cycle;
use crate::rng::Rng;
use crate::rules::Rules;
use crate::state::NodeId;
use allocation::{Allocation, Balanced};
use awake::LongestAwake;
use energy::{EfficientFirst, MarginalWatts};
use fit::{DotProduct, Fit};
pub use fragmentation::FragmentationGradient;
use home::Cheapest;
use lifetime::LifetimeAware;
use nearest::Nearest;
use order::{FirstFit, Random, RoundRobin};
use used::LeastUsed;
pub use weighted_sum::WeightedSum;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a policy's score of a node depends on. The less it is, the more of it can be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// That node, what is known of it, and what the pod shares with its template.
    Node,
    /// The same, and the cluster that the pod comes from.
    Home,
    /// The profile's total for the node, and nothing else.
    Totals,
    /// Anything.
    Cluster,
}

/// Tells the time since some moment, for deadlines.
pub type Clock = Box<dyn Fn() -> Duration + Send>;

/// What was decided by whom.
#[derive(Debug, Default)]
pub struct Counters {
    /// Decisions.
    pub decisions: AtomicU64,
    /// Decisions that the heuristic took alone, the pod being unlike any in training.
    pub outside: AtomicU64,
    /// Nodes that only the heuristic judged, being unlike any in training.
    pub nodes_outside: AtomicU64,
    /// Decisions that the heuristic took alone, the network's answer not being a number.
    pub not_finite: AtomicU64,
    /// Decisions that the heuristic took alone, the time being over.
    pub late: AtomicU64,
}

impl Counters {
    /// How often the heuristic took a decision alone.
    pub fn fallbacks(&self) -> u64 {
        [&self.outside, &self.not_finite, &self.late].map(|counter| counter.load(Ordering::Relaxed)).iter().sum()
    }

    fn each(&self) -> [&AtomicU64; 5] {
        [&self.decisions, &self.outside, &self.nodes_outside, &self.not_finite, &self.late]
    }

    /// Does something that is not to be counted. Nobody else may count meanwhile.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.each().map(|counter| counter.load(Ordering::Relaxed));
        let result = work();
        self.each().iter().zip(before).for_each(|(counter, before)| counter.store(before, Ordering::Relaxed));
        result
    }

    /// Counts.
    pub fn count(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

/// Ranks nodes.
pub trait Policy: Send {
    /// The name it is chosen by.
    fn name(&self) -> &'static str;

    /// What its scores depend on. With [`Scope::Node`], `rank` may be asked about a few of the feasible nodes only, and its
    /// answer is remembered until a node changes.
    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    /// How many pods of the queue it looks at, the one to be placed included. More than one has the engine tell of those that come next.
    fn lookahead(&self) -> usize {
        1
    }

    /// Who decided how often, for a policy that falls back on another. It goes on counting.
    fn counters(&self) -> Option<Arc<Counters>> {
        None
    }

    /// Whether it may be asked more often than it decides: the question changes nothing, and its answer is the same once more.
    fn is_steady(&self) -> bool {
        true
    }

    /// Whether its score of a node is the same whichever other nodes it is asked about.
    fn judges_apart(&self) -> bool {
        matches!(self.scope(), Scope::Node | Scope::Home)
    }

    /// Has a policy that may take long fall back on another where it takes longer than this. Those that are always quick pass over it.
    fn set_deadline(&mut self, _clock: Clock, _after: Duration) {}

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
    ("most-allocated", "the node most of whose CPU and memory is asked for, as NodeResourcesFit's MostAllocated"),
    ("least-allocated", "the node least of whose CPU and memory is asked for, as NodeResourcesFit's LeastAllocated"),
    ("least-used", "the node least of whose CPU and memory is in use as measured; as asked for where nothing was"),
    ("balanced", "the node whose CPU and memory are asked for alike, as NodeResourcesBalancedAllocation"),
    ("round-robin", "the node after the last one chosen"),
    ("random", "any node, by lot"),
    ("first-fit", "the node that joined first"),
    ("best-fit", "the node with the least left over, so that others stay empty"),
    ("worst-fit", "the node with the most left over"),
    ("dot-product", "the node whose free resources point the same way as the pod's requests"),
    ("fgd", "the node whose free GPUs lose least of their use to pods to come (fragmentation gradient descent)"),
    ("peaks", "the node whose power rises least, as the Peaks plugin counts it: waking is free"),
    ("marginal-watts", "the node whose power rises least, waking counted"),
    ("efficient-first", "the machine that needs the fewest watts for a thread, then the best fit"),
    ("longest-awake", "the node that is awake longest, then the best fit"),
    (
        "home-first",
        "a node of the pod's own cluster, the best fit; if none is right, the cheapest elsewhere, then the nearest",
    ),
    ("cheapest", "the node where an hour of a core costs least, traffic between clusters included, then the nearest"),
    ("nearest", "the node with the lowest latency to the user, then the best fit"),
    (
        "lifetime-aware",
        "the node that stays busy least longer; it must be told how long pods run, which no real policy is",
    ),
];

/// A policy by its name; none if there is no such policy.
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    Some(match name {
        "default" => Box::new(WeightedSum),
        "most-allocated" => Box::new(Allocation::MOST),
        "least-allocated" => Box::new(Allocation::LEAST),
        "least-used" => Box::new(LeastUsed),
        "balanced" => Box::new(Balanced),
        "round-robin" => Box::new(RoundRobin::default()),
        "random" => Box::new(Random),
        "first-fit" => Box::new(FirstFit),
        "best-fit" => Box::new(Fit::BEST),
        "worst-fit" => Box::new(Fit::WORST),
        "dot-product" => Box::new(DotProduct),
        "fgd" => Box::new(FragmentationGradient),
        "peaks" => Box::new(MarginalWatts::PEAKS),
        "marginal-watts" => Box::new(MarginalWatts::WITH_WAKING),
        "efficient-first" => Box::new(EfficientFirst),
        "longest-awake" => Box::new(LongestAwake),
        "home-first" => Box::new(Cheapest::HOME_FIRST),
        "cheapest" => Box::new(Cheapest::ANYWHERE),
        "nearest" => Box::new(Nearest),
        "lifetime-aware" => Box::new(LifetimeAware),
        _ => return None,
    })
}

/// Scores node by node, for policies that look at one node at a time. A node that is gone is never chosen.
fn each_node(
    ranking: &Ranking<'_>,
    nodes: &[NodeId],
    scores: &mut [f64],
    mut score: impl FnMut(&Cycle<'_>, &crate::state::Node) -> f64,
) {
    let cycle = &ranking.cycle;
    for (slot, node) in scores.iter_mut().zip(nodes) {
        *slot = cycle.state.node(*node).map_or(f64::NEG_INFINITY, |node| score(cycle, node));
    }
}

/// What was chosen, and how many were as good, itself included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen<T> {
    /// What was chosen.
    pub of: T,
    /// How many were as good.
    pub ties: usize,
}

/// The place of the highest score, equals by lot; none if no score is a number.
pub fn choose(scores: &[f64], rng: &mut Rng) -> Option<Chosen<usize>> {
    let (mut best, mut equals) = (f64::NEG_INFINITY, 0);
    for &score in scores {
        if score > best {
            (best, equals) = (score, 1);
        } else if score == best && equals > 0 {
            equals += 1;
        }
    }
    if equals == 0 {
        return None;
    }
    let lot = if equals > 1 { rng.below(equals) } else { 0 };
    scores.iter().enumerate().filter(|(_, score)| **score == best).nth(lot).map(|(of, _)| Chosen { of, ties: equals })
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
        let chosen: std::collections::BTreeSet<_> =
            (0..50).filter_map(|_| choose(&scores, &mut rng)).map(|chosen| (chosen.of, chosen.ties)).collect();
        assert_eq!(chosen.into_iter().collect::<Vec<_>>(), [(1, 2), (3, 2)]);
        assert_eq!(choose(&[f64::NAN], &mut rng), None);
    }
}
