//! A count a node, kept for the nodes where it is not zero.

use super::node::NodeId;
use rustc_hash::FxHashMap;

/// Up to this many entries a scan is faster than a hash map, and most counts stay this small.
const SCAN_LIMIT: usize = 16;

/// How many of something each node has. Nodes without any take no memory.
#[derive(Debug, Clone, Default)]
pub struct NodeCounts {
    entries: Vec<(NodeId, u32)>,
    /// Where a node's entry is, once there are many.
    positions: Option<FxHashMap<NodeId, u32>>,
    total: u64,
}

impl NodeCounts {
    /// The nodes with a count, in no particular order: sums over them are fine, choices are not.
    pub fn entries(&self) -> &[(NodeId, u32)] {
        &self.entries
    }

    /// The sum over all nodes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The count of one node.
    pub fn get(&self, node: NodeId) -> u32 {
        self.position(node).map_or(0, |at| self.entries[at].1)
    }

    fn position(&self, node: NodeId) -> Option<usize> {
        match &self.positions {
            Some(positions) => positions.get(&node).map(|at| *at as usize),
            None => self.entries.iter().position(|entry| entry.0 == node),
        }
    }

    /// Adds `more` to a node's count.
    pub fn add(&mut self, node: NodeId, more: u32) {
        if more == 0 {
            return;
        }
        self.total += u64::from(more);
        if let Some(at) = self.position(node) {
            self.entries[at].1 += more;
            return;
        }
        let at = self.entries.len() as u32;
        self.entries.push((node, more));
        if let Some(positions) = &mut self.positions {
            positions.insert(node, at);
        } else if self.entries.len() > SCAN_LIMIT {
            self.positions = Some(self.entries.iter().zip(0..).map(|(entry, at)| (entry.0, at)).collect());
        }
    }

    /// Takes `less` from a node's count, which must be that large.
    pub fn remove(&mut self, node: NodeId, less: u32) {
        let Some(at) = self.position(node) else {
            debug_assert!(less == 0, "removing {less} from a node without a count");
            return;
        };
        let less = less.min(self.entries[at].1);
        self.total -= u64::from(less);
        self.entries[at].1 -= less;
        if self.entries[at].1 == 0 {
            self.entries.swap_remove(at);
            if let Some(positions) = &mut self.positions {
                positions.remove(&node);
                if let Some(moved) = self.entries.get(at) {
                    positions.insert(moved.0, at as u32);
                }
            }
        }
    }

    /// Adds all of another's counts.
    pub fn merge(&mut self, other: &Self) {
        for &(node, count) in &other.entries {
            self.add(node, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_array(steps in prop::collection::vec((0_u32..60, 1_u32..4, any::<bool>()), 1..400)) {
            let (mut counts, mut model) = (NodeCounts::default(), vec![0_u32; 60]);
            for (node, amount, add) in steps {
                let (id, at) = (NodeId::new(node), node as usize);
                if add {
                    counts.add(id, amount);
                    model[at] += amount;
                } else if model[at] >= amount {
                    counts.remove(id, amount);
                    model[at] -= amount;
                }
            }
            for node in 0..60 {
                prop_assert_eq!(counts.get(NodeId::new(node)), model[node as usize]);
            }
            prop_assert_eq!(counts.total(), model.iter().map(|c| u64::from(*c)).sum::<u64>());
            prop_assert_eq!(counts.entries().len(), model.iter().filter(|c| **c > 0).count());
        }
    }
}
