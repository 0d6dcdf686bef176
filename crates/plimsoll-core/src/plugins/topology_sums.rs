//! Sums of pods by topology domain, as arrays that are used again from decision to decision.

use crate::state::{ClusterState, NO_DOMAIN, Node, NodeCounts, TopologyId};

/// Sums for the domains of one topology.
#[derive(Debug)]
pub struct DomainSums {
    pub topology: TopologyId,
    by_domain: Vec<i64>,
    /// Whether any amount was ever added, be it zero.
    pub touched: bool,
}

impl DomainSums {
    /// The sum in a node's domain; none if the node is in no domain.
    pub fn of(&self, state: &ClusterState, node: &Node) -> Option<i64> {
        let domain = state.topologies.get(self.topology).domain(node.id);
        (domain != NO_DOMAIN).then(|| self.by_domain[domain as usize])
    }

    /// The sums by domain.
    pub fn by_domain(&self) -> &[i64] {
        &self.by_domain
    }

    /// The sum of all domains.
    pub fn total(&self) -> i64 {
        self.by_domain.iter().sum()
    }

    fn change(&mut self, domain: u32, amount: i64) {
        if domain != NO_DOMAIN {
            self.by_domain[domain as usize] += amount;
            self.touched = true;
        }
    }
}

/// Sums for several topologies.
#[derive(Debug, Default)]
pub struct TopologySums {
    sums: Vec<DomainSums>,
    used: usize,
    /// What-if changes since the sums were made: which sum, which domain, how much.
    undo: Vec<(usize, u32, i64)>,
}

impl TopologySums {
    /// Starts anew, keeping the memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.undo.clear();
    }

    /// The topologies summed over so far.
    pub fn iter(&self) -> impl Iterator<Item = &DomainSums> {
        self.sums[..self.used].iter()
    }

    /// Whether anything was added at all.
    pub fn is_touched(&self) -> bool {
        self.iter().any(|sums| sums.touched)
    }

    fn slot(&mut self, state: &ClusterState, topology: TopologyId) -> usize {
        if let Some(at) = self.sums[..self.used].iter().position(|sums| sums.topology == topology) {
            return at;
        }
        let limit = state.topologies.get(topology).domain_limit();
        if self.used == self.sums.len() {
            self.sums.push(DomainSums { topology, by_domain: Vec::new(), touched: false });
        }
        let sums = &mut self.sums[self.used];
        sums.topology = topology;
        sums.touched = false;
        sums.by_domain.clear();
        sums.by_domain.resize(limit, 0);
        self.used += 1;
        self.used - 1
    }

    /// Makes room for a topology, so that it is there even if nothing is added.
    pub fn ensure(&mut self, state: &ClusterState, topology: TopologyId) {
        self.slot(state, topology);
    }

    /// Adds `weight` for each pod counted.
    pub fn add_counts(&mut self, state: &ClusterState, topology: TopologyId, counts: &NodeCounts, weight: i64) {
        if counts.entries().is_empty() {
            return;
        }
        let at = self.slot(state, topology);
        let sums = &mut self.sums[at];
        let domains = state.topologies.get(topology).domains();
        for &(node, count) in counts.entries() {
            sums.change(domains[node.index()], weight * i64::from(count));
        }
    }

    /// What if there were `amount` more in a node's domain.
    pub fn what_if(&mut self, state: &ClusterState, topology: TopologyId, node: &Node, amount: i64) {
        let at = self.slot(state, topology);
        let domain = state.topologies.get(topology).domain(node.id);
        if domain != NO_DOMAIN {
            self.sums[at].by_domain[domain as usize] += amount;
            self.undo.push((at, domain, amount));
        }
    }

    /// Takes back every what-if.
    pub fn end_what_if(&mut self) {
        for (at, domain, amount) in self.undo.drain(..) {
            self.sums[at].by_domain[domain as usize] -= amount;
        }
    }
}
