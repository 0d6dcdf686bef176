//! How resources on a node become a score: the strategies of NodeResourcesFit and the balance of
//! NodeResourcesBalancedAllocation.

use crate::config::{ResourceSpec, ScoringStrategy, ScoringStrategyType, UtilizationShapePoint};
use crate::framework::MAX_NODE_SCORE;
use crate::model::{Requests, ResourceId, ResourceNames};
use crate::state::Node;

/// A resource with its weight in a strategy.
#[derive(Debug, Clone, Copy)]
pub struct Weighted {
    pub id: ResourceId,
    pub weight: i64,
}

/// The resources of a strategy that any object can have; names the scheduler does not account for never score.
pub fn weighted(resources: &[ResourceSpec], names: &mut ResourceNames) -> Vec<Weighted> {
    resources.iter().filter_map(|spec| Some(Weighted { id: names.intern(&spec.name)?, weight: spec.weight })).collect()
}

/// What a node offers, what is taken, and what would be taken with the pod.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    pub allocatable: i64,
    pub allocated: i64,
    pub requested: i64,
}

/// A resource's share for a pod on a node; none where it does not count: the node has none, or it is an extended resource
/// the pod does not ask for.
///
/// `nonzero` counts default amounts for containers that ask for none.
pub fn share(node: &Node, pod: &Requests, id: ResourceId, nonzero: bool) -> Option<Share> {
    let wanted = pod.get(id);
    if wanted == 0 && id.is_scalar() {
        return None;
    }
    let (allocatable, allocated) = match id {
        ResourceId::CPU => (node.allocatable.cpu, if nonzero { node.nonzero_cpu } else { node.requested.cpu }),
        ResourceId::MEMORY => {
            (node.allocatable.memory, if nonzero { node.nonzero_memory } else { node.requested.memory })
        }
        ResourceId::EPHEMERAL_STORAGE => (node.allocatable.ephemeral_storage, node.requested.ephemeral_storage),
        _ => node.scalar(id),
    };
    (allocatable != 0).then(|| Share { allocatable, allocated, requested: allocated.wrapping_add(wanted) })
}

/// A scoring strategy.
#[derive(Debug)]
pub enum Strategy {
    LeastAllocated,
    MostAllocated,
    /// Points of utilisation (0..=100) and score (0..=100).
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

impl Strategy {
    pub fn new(strategy: &ScoringStrategy) -> Self {
        match &strategy.kind {
            ScoringStrategyType::LeastAllocated => Self::LeastAllocated,
            ScoringStrategyType::MostAllocated => Self::MostAllocated,
            ScoringStrategyType::RequestedToCapacityRatio(shape) => {
                // Configuration counts to 10, scores to 100.
                let point = |p: &UtilizationShapePoint| (i64::from(p.utilization), i64::from(p.score) * 10);
                Self::RequestedToCapacityRatio(shape.iter().map(point).collect())
            }
        }
    }

    /// The score of a node from its shares, each with its weight.
    pub fn score(&self, shares: impl Iterator<Item = (Share, i64)>) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for (share, weight) in shares {
            let score = match self {
                Self::LeastAllocated => least(share.requested, share.allocatable),
                Self::MostAllocated => most(share.requested, share.allocatable),
                Self::RequestedToCapacityRatio(points) => {
                    let score = ratio(points, share.requested, share.allocatable);
                    if score <= 0 {
                        continue;
                    }
                    score
                }
            };
            // Absurd amounts give absurd scores, as in Kubernetes, never a crash.
            sum = sum.wrapping_add(score.wrapping_mul(weight));
            weights = weights.wrapping_add(weight);
        }
        if weights == 0 {
            return 0;
        }
        match self {
            Self::RequestedToCapacityRatio(_) => (sum as f64 / weights as f64).round() as i64,
            _ => sum.wrapping_div(weights),
        }
    }
}

fn least(requested: i64, capacity: i64) -> i64 {
    if requested > capacity {
        0
    } else {
        capacity.wrapping_sub(requested).wrapping_mul(MAX_NODE_SCORE).wrapping_div(capacity)
    }
}

fn most(requested: i64, capacity: i64) -> i64 {
    requested.min(capacity).wrapping_mul(MAX_NODE_SCORE).wrapping_div(capacity)
}

fn ratio(points: &[(i64, i64)], requested: i64, capacity: i64) -> i64 {
    let utilization = if requested > capacity { 100 } else { requested.wrapping_mul(100).wrapping_div(capacity) };
    broken_line(points, utilization)
}

fn broken_line(points: &[(i64, i64)], at: i64) -> i64 {
    let mut before: Option<(i64, i64)> = None;
    for &(x, y) in points {
        if at <= x {
            return match before {
                None => y,
                Some((x0, y0)) => y0 + (y - y0) * (at - x0) / (x - x0),
            };
        }
        before = Some((x, y));
    }
    before.map_or(0, |(_, y)| y)
}

/// How evenly a node's resources are used: 100 when all are used to the same degree.
fn balance(fractions: impl Iterator<Item = f64> + Clone) -> i64 {
    let count = fractions.clone().count();
    let deviation = match count {
        0 | 1 => 0.0,
        2 => {
            let mut pair = fractions;
            let (a, b) = (pair.next().unwrap_or(0.0), pair.next().unwrap_or(0.0));
            ((a - b) / 2.0).abs()
        }
        _ => {
            let mean = fractions.clone().sum::<f64>() / count as f64;
            let squares: f64 = fractions.map(|fraction| (fraction - mean) * (fraction - mean)).sum();
            (squares / count as f64).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}

/// The score of NodeResourcesBalancedAllocation: how the pod changes the balance of the node, above or below 75.
pub fn balance_score(shares: &[Share]) -> i64 {
    let fraction = |amount: i64, share: &Share| (amount as f64 / share.allocatable as f64).min(1.0);
    let with = balance(shares.iter().map(|share| fraction(share.requested, share)));
    let without = balance(shares.iter().map(|share| fraction(share.allocated, share)));
    MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2).wrapping_add(with).wrapping_sub(without) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(allocated: i64, requested: i64, allocatable: i64) -> Share {
        Share { allocatable, allocated, requested }
    }

    #[test]
    fn strategies_score_as_documented() {
        let shares = || [(share(0, 250, 1000), 1), (share(0, 500, 1000), 1)].into_iter();
        assert_eq!(Strategy::LeastAllocated.score(shares()), (75 + 50) / 2);
        assert_eq!(Strategy::MostAllocated.score(shares()), (25 + 50) / 2);
        let ratio = Strategy::RequestedToCapacityRatio(vec![(0, 0), (100, 100)]);
        assert_eq!(ratio.score(shares()), 38, "37.5 is rounded");
        assert_eq!(Strategy::LeastAllocated.score([(share(0, 2000, 1000), 1)].into_iter()), 0);
        assert_eq!(Strategy::MostAllocated.score([(share(0, 2000, 1000), 1)].into_iter()), 100);
        assert_eq!(Strategy::MostAllocated.score(std::iter::empty()), 0);
    }

    #[test]
    fn broken_line_interpolates_and_ends_flat() {
        let points = [(10, 100), (50, 0), (90, 40)];
        for (at, expected) in [(0, 100), (10, 100), (30, 50), (50, 0), (70, 20), (100, 40)] {
            assert_eq!(broken_line(&points, at), expected, "at {at}");
        }
    }

    #[test]
    fn balance_rewards_a_pod_that_evens_out() {
        let evens = [share(0, 50, 100), share(50, 50, 100)];
        let tilts = [share(50, 90, 100), share(50, 50, 100)];
        assert_eq!(balance_score(&evens), 50 + (50 + 100 - 75) / 2);
        assert!(balance_score(&tilts) < 75);
    }
}
