//! DeepSets: three permutation-equivariant layers, each `Lambda(x) - Gamma(max over nodes of x)`, with ReLU between.
//!
//! The pod's numbers stand beside those of every node; since they are the same for all nodes, they are multiplied once a decision.

mod fast;

use super::{Architecture, Batch, Inputs, NetworkSpec, Output, Parameters, Pass, Shape, Size};
use super::{apply, factored::row, kernel};
use crate::model::Weights;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;

/// The sizes that may be set.
pub const SIZES: &[Size] = &[Size::new("first", 120), Size::new("second", 84)];

/// Inputs -> `first` -> `second` -> a score.
pub struct DeepSets {
    node_width: usize,
    pod_width: usize,
    first: usize,
    second: usize,
}

impl DeepSets {
    /// A network with the sizes of a spec.
    pub fn new(spec: &NetworkSpec) -> Self {
        let NetworkSpec { node_width, pod_width, .. } = *spec;
        Self { node_width, pod_width, first: spec.size("first"), second: spec.size("second") }
    }

    fn first_layer(&self, parameters: &Parameters, inputs: &Inputs) -> Tensor<3> {
        let (lambda, gamma) = (parameters.get("layer1.lambda.weight"), parameters.get("layer1.gamma.weight"));
        let nodes = 0..self.node_width;
        let of_nodes = apply(inputs.nodes.clone(), lambda.clone().slice([0..self.first, nodes.clone()]));
        let most = inputs.max_over_nodes(inputs.nodes.clone());
        let mut shared =
            row(parameters.get("layer1.lambda.bias")) - apply(most, gamma.clone().slice([0..self.first, nodes]));
        if self.pod_width > 0 {
            let pod = [0..self.first, self.node_width..self.node_width + self.pod_width];
            shared = shared + apply(inputs.pod_rows(), lambda.slice(pod.clone()) - gamma.slice(pod));
        }
        relu(of_nodes + shared)
    }
}

/// A layer after the first; also the maximum that it subtracted, before its matrix.
fn layer(parameters: &Parameters, inputs: &Inputs, name: &str, x: Tensor<3>) -> (Tensor<3>, Tensor<3>) {
    let most = inputs.max_over_nodes(x.clone());
    let shared = row(parameters.get(&format!("{name}.lambda.bias")))
        - apply(most.clone(), parameters.get(&format!("{name}.gamma.weight")));
    (apply(x, parameters.get(&format!("{name}.lambda.weight"))) + shared, most)
}

impl Architecture for DeepSets {
    fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        let widths = [self.node_width + self.pod_width, self.first, self.second, 1];
        for (index, pair) in widths.windows(2).enumerate() {
            let name = format!("layer{}", index + 1);
            shapes.push(Shape::matrix(&format!("{name}.lambda.weight"), pair[1], pair[0]));
            shapes.push(Shape::vector(&format!("{name}.lambda.bias"), pair[1], pair[0]));
            shapes.push(Shape::matrix(&format!("{name}.gamma.weight"), pair[1], pair[0]));
        }
        shapes.push(Shape::matrix("value.weight", 1, self.second));
        shapes.push(Shape::vector("value.bias", 1, self.second));
        shapes
    }

    fn forward(&self, parameters: &Parameters, inputs: &Inputs) -> Output {
        let [size, nodes, _] = inputs.nodes.dims();
        let first = self.first_layer(parameters, inputs);
        let second = relu(layer(parameters, inputs, "layer2", first).0);
        let (scores, most) = layer(parameters, inputs, "layer3", second);
        let values = apply(most, parameters.get("value.weight")) + row(parameters.get("value.bias"));
        Output { scores: inputs.masked(scores.reshape([size, nodes])), values: values.reshape([size]) }
    }

    fn fast_scores(&self, weights: &Weights, batch: &Batch) -> Option<(Vec<f32>, Vec<f32>)> {
        Some(kernel::scores(&fast::Plan::new(weights, self.node_width), batch))
    }

    fn fast_pass<'a>(&self, weights: &'a Weights, batch: &'a Batch) -> Option<Box<dyn Pass + 'a>> {
        Some(Box::new(kernel::Traced::new(fast::Plan::new(weights, self.node_width), weights, batch)))
    }
}
