//! `percentageOfNodesToScore`: rank only some of the feasible nodes, as kube-scheduler does to save time.
//!
//! We look at every node unless the configuration asks for less. Where it does, the nodes are visited as kube-scheduler
//! visits them: zones in turn, starting where the last decision stopped.

use crate::state::{ClusterState, NodeId};
use std::collections::BTreeMap;

/// Clusters and samples smaller than this are not worth cutting.
const MIN_FEASIBLE_NODES: usize = 100;

/// Where a profile stands in its rounds over the nodes.
#[derive(Debug)]
pub struct Sampling {
    percentage: usize,
    next_start: usize,
    /// All nodes, zones in turn.
    order: Vec<NodeId>,
    version: u64,
}

impl Sampling {
    /// Samples this percentage of nodes; none if that is all of them.
    pub fn new(percentage: u32) -> Option<Self> {
        (1..100).contains(&percentage).then(|| Self {
            percentage: percentage as usize,
            next_start: 0,
            order: Vec::new(),
            version: u64::MAX,
        })
    }

    fn wanted(&self, nodes: usize) -> usize {
        if nodes < MIN_FEASIBLE_NODES { nodes } else { (nodes * self.percentage / 100).max(MIN_FEASIBLE_NODES) }
    }

    /// Leaves as many feasible nodes (sorted by index) as are to be ranked.
    pub fn cut(&mut self, state: &ClusterState, feasible: &mut Vec<NodeId>) {
        if self.version != state.node_version() {
            self.order = zones_in_turn(state);
            self.version = state.node_version();
            self.next_start %= self.order.len().max(1);
        }
        let wanted = self.wanted(self.order.len());
        let mut kept = Vec::with_capacity(wanted.min(feasible.len()));
        let mut visited = 0;
        for step in 0..self.order.len() {
            if kept.len() == wanted {
                break;
            }
            visited += 1;
            let node = self.order[(self.next_start + step) % self.order.len()];
            if feasible.binary_search(&node).is_ok() {
                kept.push(node);
            }
        }
        self.next_start = (self.next_start + visited) % self.order.len().max(1);
        kept.sort_unstable();
        *feasible = kept;
    }
}

/// One node of each zone, then the next of each, until all are listed.
fn zones_in_turn(state: &ClusterState) -> Vec<NodeId> {
    let mut zones: BTreeMap<_, Vec<NodeId>> = BTreeMap::new();
    for node in state.nodes() {
        let label = |key| node.spec.labels.get(key);
        zones.entry((label(state.well_known.region), label(state.well_known.zone))).or_default().push(node.id);
    }
    let longest = zones.values().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|turn| zones.values().filter_map(move |zone| zone.get(turn).copied())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(nodes: usize) -> ClusterState {
        let mut state = ClusterState::default();
        for at in 0..nodes {
            let labels = json!({"topology.kubernetes.io/zone": format!("z{}", at % 3)});
            let node = json!({"metadata": {"name": format!("n{at}"), "labels": labels}});
            state.apply_node(&serde_json::from_value(node).unwrap()).unwrap();
        }
        state
    }

    #[test]
    fn a_sample_moves_on_and_covers_the_zones_evenly() {
        let state = cluster(300);
        let mut sampling = Sampling::new(40).unwrap();
        let all: Vec<_> = state.nodes().map(|node| node.id).collect();
        let mut sample = || {
            let mut nodes = all.clone();
            sampling.cut(&state, &mut nodes);
            nodes
        };
        let (first, second) = (sample(), sample());
        assert_eq!((first.len(), second.len()), (120, 120));
        assert!(first.iter().all(|node| !second.contains(node)), "the next decision starts where this one stopped");
        for zone in 0..3 {
            assert_eq!(first.iter().filter(|node| node.index() % 3 == zone).count(), 40);
        }
    }

    #[test]
    fn small_clusters_and_full_percentages_are_not_cut() {
        assert!(Sampling::new(0).is_none() && Sampling::new(100).is_none());
        let state = cluster(50);
        let mut nodes: Vec<_> = state.nodes().map(|node| node.id).collect();
        Sampling::new(5).unwrap().cut(&state, &mut nodes);
        assert_eq!(nodes.len(), 50);
    }
}
