//! The factored network: what ships.
//!
//! A node tower looks at a node alone, so its output can be remembered until that node changes; the context is the mean of the towers, so it
//! can be kept by difference; what is left for a decision is a pod tower and a small head.

mod fast;

use super::{Architecture, Batch, Inputs, NetworkSpec, Output, Parameters, Pass, Shape, Size, apply, kernel};
use crate::error::LearnError;
use crate::model::Weights;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};

/// The sizes that may be set.
pub const SIZES: &[Size] =
    &[Size::new("tower", 24), Size::new("hidden", 24), Size { name: "tower_inputs", default: 0, least: 0 }];

/// `score = out · relu(node e + direct x + pod p + context mean(e) + bias)`, with `e = relu(tower x)` and `p = relu(pod)`.
pub struct Factored {
    node_width: usize,
    pod_width: usize,
    /// How many of a node's features, the first ones, the tower reads.
    tower_inputs: usize,
    tower: usize,
    hidden: usize,
}

impl Factored {
    /// A network with the sizes of a spec; the tower must not read more features than there are.
    pub fn new(spec: &NetworkSpec) -> Result<Self, LearnError> {
        let NetworkSpec { node_width, pod_width, .. } = *spec;
        let tower_inputs = spec.size("tower_inputs");
        if tower_inputs > node_width {
            return Err(LearnError::Invalid(format!(
                "network factored: tower_inputs is {tower_inputs}, but nodes have {node_width} features"
            )));
        }
        let tower_inputs = if tower_inputs == 0 { node_width } else { tower_inputs };
        Ok(Self { node_width, pod_width, tower_inputs, tower: spec.size("tower"), hidden: spec.size("hidden") })
    }
}

impl Architecture for Factored {
    fn shapes(&self) -> Vec<Shape> {
        let Self { node_width, pod_width, tower_inputs, tower, hidden } = *self;
        let joined = 3 * tower + node_width;
        vec![
            Shape::matrix("tower.weight", tower, tower_inputs),
            Shape::vector("tower.bias", tower, tower_inputs),
            Shape::matrix("pod.weight", tower, pod_width),
            Shape::vector("pod.bias", tower, pod_width),
            // The four parts of the head are one matrix over one long input, cut up: they share its scale.
            Shape { fan_in: joined, ..Shape::matrix("head.node", hidden, tower) },
            Shape { fan_in: joined, ..Shape::matrix("head.direct", hidden, node_width) },
            Shape { fan_in: joined, ..Shape::matrix("head.pod", hidden, tower) },
            Shape { fan_in: joined, ..Shape::matrix("head.context", hidden, tower) },
            Shape::vector("head.bias", hidden, joined),
            Shape::vector("out.weight", hidden, hidden),
            Shape::vector("out.bias", 1, hidden),
            Shape { fan_in: 2 * tower, ..Shape::matrix("value.context", hidden, tower) },
            Shape { fan_in: 2 * tower, ..Shape::matrix("value.pod", hidden, tower) },
            Shape::vector("value.bias", hidden, 2 * tower),
            Shape::vector("value.out.weight", hidden, hidden),
            Shape::vector("value.out.bias", 1, hidden),
        ]
    }

    fn forward(&self, parameters: &Parameters, inputs: &Inputs) -> Output {
        let [size, nodes, _] = inputs.nodes.dims();
        let get = |name| parameters.get(name);
        let x = inputs.nodes.clone();
        let remembered = x.clone().slice([0..size, 0..nodes, 0..self.tower_inputs]);
        let tower = relu(apply(remembered, get("tower.weight")) + row(get("tower.bias")));
        let pod = relu(apply(inputs.pod_rows(), get("pod.weight")) + row(get("pod.bias")));
        let context = inputs.mean_over_nodes(tower.clone());
        // What is the same for all nodes of a decision is added up first: it is small.
        let shared =
            apply(pod.clone(), get("head.pod")) + apply(context.clone(), get("head.context")) + row(get("head.bias"));
        let hidden = relu(apply(tower, get("head.node")) + apply(x, get("head.direct")) + shared);
        let scores = apply(hidden, get("out.weight")) + row(get("out.bias"));
        let hidden = apply(context, get("value.context")) + apply(pod, get("value.pod"));
        let hidden = relu(hidden + row(get("value.bias")));
        let values = apply(hidden, get("value.out.weight")) + row(get("value.out.bias"));
        Output { scores: inputs.masked(scores.reshape([size, nodes])), values: values.reshape([size]) }
    }

    fn fast_scores(&self, weights: &Weights, batch: &Batch) -> Option<(Vec<f32>, Vec<f32>)> {
        Some(kernel::scores(&fast::Plan::new(weights), batch))
    }

    fn fast_pass<'a>(&self, weights: &'a Weights, batch: &'a Batch) -> Option<Box<dyn Pass + 'a>> {
        Some(Box::new(kernel::Traced::new(fast::Plan::new(weights), weights, batch)))
    }
}

/// A vector that is added to every node of every decision.
pub(super) fn row(vector: Tensor<2>) -> Tensor<3> {
    vector.unsqueeze()
}

/// A matrix that picks one feature of a node.
pub(super) fn selector(width: usize, index: usize, device: &Device) -> Tensor<2> {
    let values = (0..width).map(|at| if at == index { 1.0 } else { 0.0 }).collect::<Vec<f32>>();
    Tensor::from_data(TensorData::new(values, [1, width]), device)
}
