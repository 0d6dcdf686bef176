//! What a network is shown of a decision: a row of numbers for each node, one for the pod, and which nodes are allowed.

mod encoder;
pub mod features;
mod tenants;

pub use encoder::{Encoder, NodeFacts, NodeRow, PodFacts, PodRow};

/// One decision, laid out for a network. Rows may be in any order: a network must not care.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// How many numbers describe a node.
    pub node_width: usize,
    /// The nodes, row by row.
    pub nodes: Vec<f32>,
    /// The pod.
    pub pod: Vec<f32>,
    /// Which nodes the rules allow; one entry a node. Padding is never allowed.
    pub mask: Vec<bool>,
    /// The zone and the region of each node, as small numbers, for networks that know of topology.
    pub places: Vec<[u32; 2]>,
}

impl Observation {
    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.mask.len()
    }

    /// The row of a node.
    pub fn node(&self, index: usize) -> &[f32] {
        &self.nodes[index * self.node_width..(index + 1) * self.node_width]
    }
}
