//! Observations of named features: what an [`Encoder`] knows of nodes and pods, the columns that were asked for.

use super::features::{NODE_FEATURES, POD_FEATURES, Wanted};
use super::places::Places;
use super::{Encoder, Observation, Observe};
use crate::lifetime::Predictor;
use plimsoll_core::framework::Cycle;
use plimsoll_core::state::NodeId;

/// Describes decisions by features of [`super::features`], with predicted lifetimes.
#[derive(Debug, Clone)]
pub struct Encoded {
    predictor: Predictor,
    encoder: Encoder,
    node_features: Vec<usize>,
    pod_features: Vec<usize>,
    places: Places,
    allowed: Vec<bool>,
}

impl Encoded {
    /// Features by their places in [`NODE_FEATURES`] and [`POD_FEATURES`].
    pub fn new(predictor: Predictor, node_features: Vec<usize>, pod_features: Vec<usize>) -> Self {
        Self {
            encoder: Encoder::new(predictor.clone(), Wanted::these(&node_features)),
            predictor,
            node_features,
            pod_features,
            places: Places::default(),
            allowed: Vec::new(),
        }
    }
}

impl Observe for Encoded {
    fn node_features(&self) -> Vec<String> {
        self.node_features.iter().map(|at| NODE_FEATURES[*at].0.to_owned()).collect()
    }

    fn pod_features(&self) -> Vec<String> {
        self.pod_features.iter().map(|at| POD_FEATURES[*at].0.to_owned()).collect()
    }

    fn begin(&mut self) {
        self.encoder = Encoder::new(self.predictor.clone(), Wanted::these(&self.node_features));
        self.places.clear();
    }

    fn observe(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId], feasible: &[NodeId], out: &mut Observation) {
        let state = cycle.state;
        self.encoder.follow(state);
        self.allowed.clear();
        self.allowed.resize(state.node_limit(), false);
        for node in feasible {
            self.allowed[node.index()] = true;
        }
        let pod = self.encoder.pod(cycle);
        out.pod.clear();
        out.pod.extend(self.pod_features.iter().map(|at| pod.row[*at]));
        out.node_width = self.node_features.len();
        out.nodes.clear();
        out.mask.clear();
        out.places.clear();
        for &id in nodes {
            let Some(node) = state.node(id) else {
                out.nodes.resize(out.nodes.len() + out.node_width, 0.0);
                out.mask.push(false);
                out.places.push([0; 2]);
                continue;
            };
            let row = self.encoder.node(cycle, &pod, node).row;
            out.nodes.extend(self.node_features.iter().map(|at| row[*at]));
            out.mask.push(self.allowed[id.index()]);
            out.places.push(self.places.of(state, node));
        }
    }
}
