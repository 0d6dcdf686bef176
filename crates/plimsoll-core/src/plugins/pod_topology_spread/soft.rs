//! Soft spread constraints: the fewer matching pods in a node's domains, the better.

use super::{ABSENT, InForce, count_of};
use crate::framework::{Cycle, MAX_NODE_SCORE};
use crate::state::{NO_DOMAIN, NodeId, TopologyId};

/// The soft constraints of the pod under decision; memory is kept from one decision to the next.
#[derive(Debug, Default)]
pub struct SoftConstraints {
    list: Vec<Counted>,
    used: usize,
    /// Feasible nodes that lack the label of some constraint, by node index; empty if there are none.
    ignored: Vec<bool>,
}

#[derive(Debug)]
struct Counted {
    topology: TopologyId,
    /// Where every node is its own domain, its pods are counted without further ado.
    is_hostname: bool,
    /// What the skew adds to every score.
    base: f64,
    /// What a matching pod adds: more where there are many domains, since each then has few.
    weight: f64,
    /// Matching pods by domain; [`ABSENT`] for domains without a feasible node.
    by_domain: Vec<i64>,
    /// Matching pods by node.
    by_node: Vec<u32>,
}

impl SoftConstraints {
    /// Counts the matching pods in the domains of the feasible nodes.
    ///
    /// `require_all`: nodes that lack the label of any constraint take no part.
    pub fn prepare(&mut self, cycle: &Cycle<'_>, constraints: &[InForce<'_>], nodes: &[NodeId], require_all: bool) {
        let lacks_label = |node: NodeId| constraints.iter().any(|c| c.domain(cycle, node) == NO_DOMAIN);
        self.ignored.clear();
        let mut taking_part = nodes.len();
        if require_all && !constraints.iter().all(|c| c.labels_every_node(cycle)) {
            self.ignored.resize(cycle.state.node_limit(), false);
            for &node in nodes.iter().filter(|node| lacks_label(**node)) {
                self.ignored[node.index()] = true;
                taking_part -= 1;
            }
        }
        self.used = constraints.len();
        for (at, in_force) in constraints.iter().enumerate() {
            if at == self.list.len() {
                self.list.push(Counted {
                    topology: in_force.topology,
                    is_hostname: false,
                    base: 0.0,
                    weight: 0.0,
                    by_domain: Vec::new(),
                    by_node: Vec::new(),
                });
            }
            let (slot, ignored) = (&mut self.list[at], &self.ignored);
            slot.topology = in_force.topology;
            slot.is_hostname = in_force.constraint.topology_key == cycle.state.well_known.hostname;
            slot.base = f64::from(in_force.constraint.max_skew.wrapping_sub(1));
            let domains = if slot.is_hostname {
                slot.count_by_node(cycle, in_force);
                taking_part
            } else {
                let domains = slot.mark_domains(cycle, nodes, ignored);
                slot.count_by_domain(cycle, in_force, |node| require_all && lacks_label(node));
                domains
            };
            slot.weight = ((domains + 2) as f64).ln();
        }
    }

    fn is_ignored(&self, node: NodeId) -> bool {
        !self.ignored.is_empty() && self.ignored[node.index()]
    }

    /// Raw scores: the more matching pods, the higher.
    pub fn score(&self, cycle: &Cycle<'_>, nodes: &[NodeId], scores: &mut [i64]) {
        for (score, &node) in scores.iter_mut().zip(nodes) {
            let mut sum = 0.0;
            if !self.is_ignored(node) {
                for slot in &self.list[..self.used] {
                    let domain = cycle.state.topologies.get(slot.topology).domain(node);
                    if domain != NO_DOMAIN {
                        let count = if slot.is_hostname {
                            i64::from(slot.by_node[node.index()])
                        } else {
                            count_of(&slot.by_domain, domain)
                        };
                        sum += count as f64 * slot.weight + slot.base;
                    }
                }
            }
            *score = sum.round() as i64;
        }
    }

    /// Turns raw scores around: the emptiest domain gets 100.
    pub fn normalize(&self, nodes: &[NodeId], scores: &mut [i64]) {
        let (mut min, mut max) = (i64::MAX, 0);
        for (score, node) in scores.iter().zip(nodes) {
            if !self.is_ignored(*node) {
                min = min.min(*score);
                max = max.max(*score);
            }
        }
        for (score, node) in scores.iter_mut().zip(nodes) {
            *score = if self.is_ignored(*node) {
                0
            } else if max == 0 {
                MAX_NODE_SCORE
            } else {
                MAX_NODE_SCORE * (max + min - *score) / max
            };
        }
    }
}

impl Counted {
    fn count_by_node(&mut self, cycle: &Cycle<'_>, in_force: &InForce<'_>) {
        self.by_node.clear();
        self.by_node.resize(cycle.state.node_limit(), 0);
        if let Some(counter) = in_force.counter {
            for &(node, count) in cycle.state.classes.counts(counter).entries() {
                self.by_node[node.index()] = count;
            }
        }
    }

    /// Finds the domains that feasible nodes are in, and how many; all nodes without the label count as one more.
    fn mark_domains(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId], ignored: &[bool]) -> usize {
        let topology = cycle.state.topologies.get(self.topology);
        let of_node = topology.domains();
        self.by_domain.clear();
        self.by_domain.resize(topology.domain_limit(), ABSENT);
        let mut without_label = false;
        for node in nodes.iter().filter(|node| ignored.is_empty() || !ignored[node.index()]) {
            match self.by_domain.get_mut(of_node[node.index()] as usize) {
                Some(count) => *count = 0,
                None => without_label = true,
            }
        }
        self.by_domain.iter().filter(|count| **count != ABSENT).count() + usize::from(without_label)
    }

    fn count_by_domain(&mut self, cycle: &Cycle<'_>, in_force: &InForce<'_>, excluded: impl Fn(NodeId) -> bool) {
        let Some(counter) = in_force.counter else { return };
        let of_node = cycle.state.topologies.get(self.topology).domains();
        let includes_all = in_force.includes_every_node(cycle);
        for &(id, matching) in cycle.state.classes.counts(counter).entries() {
            let includes = || includes_all || cycle.state.node(id).is_some_and(|node| in_force.includes(cycle, node));
            if let Some(count) = self.by_domain.get_mut(of_node[id.index()] as usize)
                && *count != ABSENT
                && !excluded(id)
                && includes()
            {
                *count += i64::from(matching);
            }
        }
    }
}
