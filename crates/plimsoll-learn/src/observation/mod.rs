//! What a network is shown of a decision: a row of numbers for each node, one for the pod, and which nodes are allowed.

mod encoded;
mod encoder;
mod exported;
pub mod features;
mod places;
mod plain;
mod rhythm;
mod tenants;
mod view;

pub use encoded::Encoded;
pub use encoder::{Encoder, NodeFacts, NodeRow, PodFacts, PodRow};
pub use exported::Exported;
pub use plain::Plain;
pub(crate) use plain::share;
pub use view::{EXPORTED, FeatureNames, PLAIN, View};

use plimsoll_core::framework::Cycle;
use plimsoll_core::state::NodeId;

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

/// Describes decisions in numbers.
pub trait Observe: Send {
    /// What describes a node, in the order of a row.
    fn node_features(&self) -> Vec<String>;

    /// What describes a pod.
    fn pod_features(&self) -> Vec<String>;

    /// Another cluster is looked at from now on: what is remembered of nodes and pods is void.
    fn begin(&mut self) {}

    /// Describes a decision: a row for each of `nodes`, in their order; of them, those in `feasible` are allowed. Whatever is in `out` is
    /// written over, its memory used again.
    fn observe(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId], feasible: &[NodeId], out: &mut Observation);
}
