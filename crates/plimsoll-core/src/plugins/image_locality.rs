//! ImageLocality: likes nodes that have the pod's images, more so if many nodes have them.

use crate::config::PluginName;
use crate::framework::{Cycle, MAX_NODE_SCORE, Plugin};
use crate::state::{Node, NodeId};

const MB: i64 = 1024 * 1024;
/// Below this an image is pulled so fast that having it does not matter.
const MIN_THRESHOLD: i64 = 23 * MB;
/// Above this, for each container, having more does not matter.
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * MB;

#[derive(Debug, Default)]
pub struct ImageLocality;

impl ImageLocality {
    fn raw(cycle: &Cycle<'_>, node: &Node) -> i64 {
        let nodes = cycle.state.node_count() as f64;
        let mut sum = 0_i64;
        for image in &cycle.local().images {
            if let Some(&(_, size)) = node.spec.images.iter().find(|(name, _)| name == image) {
                let spread = f64::from(cycle.state.nodes_with_image(*image)) / nodes;
                sum = sum.wrapping_add((size as f64 * spread) as i64);
            }
        }
        sum
    }
}

impl Plugin for ImageLocality {
    fn name(&self) -> PluginName {
        PluginName::ImageLocality
    }

    /// The number of nodes that have an image is the same for all nodes; when it changes the state says so by
    /// [`crate::state::ClusterState::node_version`].
    fn is_local(&self) -> bool {
        true
    }

    fn score(&self, cycle: &Cycle<'_>, nodes: &[NodeId], scores: &mut [i64]) {
        let max = MAX_CONTAINER_THRESHOLD * i64::from(cycle.local().containers);
        for (score, node) in scores.iter_mut().zip(nodes) {
            let Some(node) = cycle.state.node(*node) else { continue };
            let raw = Self::raw(cycle, node);
            let bounded = if raw < MIN_THRESHOLD { MIN_THRESHOLD } else { raw.min(max) };
            *score = if max == MIN_THRESHOLD {
                0
            } else {
                MAX_NODE_SCORE * (bounded - MIN_THRESHOLD) / (max - MIN_THRESHOLD)
            };
        }
    }
}
