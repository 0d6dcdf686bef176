//! Attention: the pod asks the nodes, with several heads; what they answer is the context in which each node is scored.

use super::{Architecture, Inputs, NetworkSpec, Output, Parameters, Shape, Size, apply, factored::row};
use crate::error::LearnError;
use burn::tensor::activation::{relu, softmax};

/// The sizes that may be set.
pub const SIZES: &[Size] = &[Size::new("width", 32), Size::new("heads", 4), Size::new("hidden", 32)];

/// Embeddings of nodes and pod, multi-head attention between them, and a head that sees all of it.
pub struct Attention {
    node_width: usize,
    pod_width: usize,
    width: usize,
    heads: usize,
    hidden: usize,
}

impl Attention {
    /// A network with the sizes of a spec; the width must be a multiple of the heads.
    pub fn new(spec: &NetworkSpec) -> Result<Self, LearnError> {
        let (width, heads, hidden) = (spec.size("width"), spec.size("heads"), spec.size("hidden"));
        if !width.is_multiple_of(heads) {
            return Err(LearnError::Invalid(format!(
                "network attention: width {width} is not a multiple of {heads} heads"
            )));
        }
        Ok(Self { node_width: spec.node_width, pod_width: spec.pod_width, width, heads, hidden })
    }
}

impl Architecture for Attention {
    fn shapes(&self) -> Vec<Shape> {
        let Self { node_width, pod_width, width, heads, hidden } = *self;
        let joined = 3 * width + heads;
        vec![
            Shape::matrix("node.weight", width, node_width),
            Shape::vector("node.bias", width, node_width),
            Shape::matrix("pod.weight", width, pod_width),
            Shape::vector("pod.bias", width, pod_width),
            Shape::matrix("query", width, width),
            Shape::matrix("key", width, width),
            Shape::matrix("answer", width, width),
            Shape { fan_in: joined, ..Shape::matrix("head.node", hidden, width) },
            Shape { fan_in: joined, ..Shape::matrix("head.pod", hidden, width) },
            Shape { fan_in: joined, ..Shape::matrix("head.context", hidden, width) },
            Shape { fan_in: joined, ..Shape::matrix("head.match", hidden, heads) },
            Shape::vector("head.bias", hidden, joined),
            Shape::vector("out.weight", hidden, hidden),
            Shape::vector("out.bias", 1, hidden),
            Shape { fan_in: 2 * width, ..Shape::matrix("value.context", hidden, width) },
            Shape { fan_in: 2 * width, ..Shape::matrix("value.pod", hidden, width) },
            Shape::vector("value.bias", hidden, 2 * width),
            Shape::vector("value.out.weight", hidden, hidden),
            Shape::vector("value.out.bias", 1, hidden),
        ]
    }

    fn forward(&self, parameters: &Parameters, inputs: &Inputs) -> Output {
        let Self { width, heads, .. } = *self;
        let [size, nodes, _] = inputs.nodes.dims();
        let each = width / heads;
        let get = |name| parameters.get(name);
        let node = relu(apply(inputs.nodes.clone(), get("node.weight")) + row(get("node.bias")));
        let pod = relu(apply(inputs.pod_rows(), get("pod.weight")) + row(get("pod.bias")));
        let query = apply(pod.clone(), get("query")).reshape([size, 1, heads, each]).swap_dims(1, 2);
        let key = apply(node.clone(), get("key")).reshape([size, nodes, heads, each]).swap_dims(1, 2);
        let answer = apply(node.clone(), get("answer")).reshape([size, nodes, heads, each]).swap_dims(1, 2);
        // How well pod and node match, for each head: batch, heads, 1, nodes.
        let matches = query.matmul(key.swap_dims(2, 3)) / (each as f32).sqrt();
        let attention = softmax(matches.clone() + inputs.absence().reshape([size, 1, 1, nodes]), 3);
        let context = attention.matmul(answer).swap_dims(1, 2).reshape([size, 1, width]);
        let matches = matches.reshape([size, heads, nodes]).swap_dims(1, 2);
        let shared =
            apply(pod.clone(), get("head.pod")) + apply(context.clone(), get("head.context")) + row(get("head.bias"));
        let hidden = relu(apply(node, get("head.node")) + apply(matches, get("head.match")) + shared);
        let scores = apply(hidden, get("out.weight")) + row(get("out.bias"));
        let hidden = apply(context, get("value.context")) + apply(pod, get("value.pod"));
        let hidden = relu(hidden + row(get("value.bias")));
        let values = apply(hidden, get("value.out.weight")) + row(get("value.out.bias"));
        Output { scores: inputs.masked(scores.reshape([size, nodes])), values: values.reshape([size]) }
    }
}
