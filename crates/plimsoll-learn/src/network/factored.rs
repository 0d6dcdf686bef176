//! The factored network: what ships.
//!
//! A node tower looks at a node alone, so its output can be remembered until that node changes; the context is the mean of the towers, so it
//! can be kept by difference; what is left for a decision is a pod tower and a small head.

use super::{Architecture, Inputs, NetworkSpec, Output, Parameters, Shape, Size, apply};
use burn::tensor::activation::relu;
use burn::tensor::{Tensor, TensorData};

/// The sizes that may be set.
pub const SIZES: &[Size] = &[Size::new("tower", 24), Size::new("pod", 24), Size::new("hidden", 24)];

/// `score = out · relu(node e + direct x + pod p + context mean(e) + bias)`, with `e = relu(tower x)` and `p = relu(pod)`.
pub struct Factored {
    node_width: usize,
    pod_width: usize,
    tower: usize,
    pod: usize,
    hidden: usize,
}

impl Factored {
    /// A network with the sizes of a spec.
    pub fn new(spec: &NetworkSpec) -> Self {
        Self {
            node_width: spec.node_width,
            pod_width: spec.pod_width,
            tower: spec.size("tower"),
            pod: spec.size("pod"),
            hidden: spec.size("hidden"),
        }
    }

    fn values(&self, parameters: &Parameters, context: Tensor<3>, pod: Tensor<3>) -> Tensor<1> {
        let size = context.dims()[0];
        let hidden = apply(context, parameters.get("value.context")) + apply(pod, parameters.get("value.pod"));
        let hidden = relu(hidden + row(parameters.get("value.bias")));
        (apply(hidden, parameters.get("value.out.weight")) + row(parameters.get("value.out.bias"))).reshape([size])
    }
}

impl Architecture for Factored {
    fn shapes(&self) -> Vec<Shape> {
        let Self { node_width, pod_width, tower, pod, hidden } = *self;
        let joined = 2 * tower + node_width + pod;
        vec![
            Shape::matrix("tower.weight", tower, node_width),
            Shape::vector("tower.bias", tower, node_width),
            Shape::matrix("pod.weight", pod, pod_width),
            Shape::vector("pod.bias", pod, pod_width),
            // The four parts of the head are one matrix over one long input, cut up: they share its scale.
            Shape { fan_in: joined, ..Shape::matrix("head.node", hidden, tower) },
            Shape { fan_in: joined, ..Shape::matrix("head.direct", hidden, node_width) },
            Shape { fan_in: joined, ..Shape::matrix("head.pod", hidden, pod) },
            Shape { fan_in: joined, ..Shape::matrix("head.context", hidden, tower) },
            Shape::vector("head.bias", hidden, joined),
            Shape::vector("out.weight", hidden, hidden),
            Shape::vector("out.bias", 1, hidden),
            Shape { fan_in: tower + pod, ..Shape::matrix("value.context", hidden, tower) },
            Shape { fan_in: tower + pod, ..Shape::matrix("value.pod", hidden, pod) },
            Shape::vector("value.bias", hidden, tower + pod),
            Shape::vector("value.out.weight", hidden, hidden),
            Shape::vector("value.out.bias", 1, hidden),
        ]
    }

    fn forward(&self, parameters: &Parameters, inputs: &Inputs, values: bool) -> Output {
        let [size, nodes, _] = inputs.nodes.dims();
        let x = inputs.nodes.clone();
        let tower = relu(apply(x.clone(), parameters.get("tower.weight")) + row(parameters.get("tower.bias")));
        let pod = relu(apply(inputs.pod_rows(), parameters.get("pod.weight")) + row(parameters.get("pod.bias")));
        let context = inputs.mean_over_nodes(tower.clone());
        // What is the same for all nodes of a decision is added up first: it is small.
        let shared = apply(pod.clone(), parameters.get("head.pod"))
            + apply(context.clone(), parameters.get("head.context"))
            + row(parameters.get("head.bias"));
        let hidden = relu(apply(tower, parameters.get("head.node")) + apply(x, parameters.get("head.direct")) + shared);
        let scores = apply(hidden, parameters.get("out.weight")) + row(parameters.get("out.bias"));
        Output {
            scores: inputs.masked(scores.reshape([size, nodes])),
            values: values.then(|| self.values(parameters, context, pod)),
        }
    }
}

/// A vector that is added to every node of every decision.
pub(super) fn row(vector: Tensor<2>) -> Tensor<3> {
    vector.unsqueeze()
}

/// A vector of ones and zeros by position: picks one feature of a node as a matrix of one output.
pub(super) fn selector(width: usize, index: usize, device: &burn::tensor::Device) -> Tensor<2> {
    let values = (0..width).map(|at| if at == index { 1.0 } else { 0.0 }).collect::<Vec<f32>>();
    Tensor::from_data(TensorData::new(values, [1, width]), device)
}
