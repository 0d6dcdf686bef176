//! A graph network over the topology: in each round a node hears the mean of its zone, of its region and of the cluster, and, where a
//! feature says how much the pod and what runs on a node call each other, of the nodes that the pod would talk to.

use super::factored::{row, selector};
use super::{Architecture, Inputs, NetworkSpec, Output, Parameters, Shape, Size, apply};
use crate::error::LearnError;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;

/// The sizes that may be set.
pub const SIZES: &[Size] =
    &[Size::new("width", 32), Size::new("rounds", 2), Size { name: "calls", default: 0, least: 0 }];

/// Divisor of a sum of calls where there are none: small beside one call, large beside rounding.
const FEWEST_CALLS: f32 = 1e-6;

/// Message passing by means over zone, region, cluster and call partners.
pub struct Graph {
    node_width: usize,
    pod_width: usize,
    width: usize,
    rounds: usize,
    /// The node's feature that counts calls between the pod and what runs there.
    calls: Option<usize>,
}

impl Graph {
    /// A network with the sizes of a spec; `calls` must name a feature.
    pub fn new(spec: &NetworkSpec) -> Result<Self, LearnError> {
        let calls = spec.size("calls");
        if calls > spec.node_width {
            let width = spec.node_width;
            return Err(LearnError::Invalid(format!(
                "network graph: calls is feature {calls}, but nodes have {width}"
            )));
        }
        Ok(Self {
            node_width: spec.node_width,
            pod_width: spec.pod_width,
            width: spec.size("width"),
            rounds: spec.size("rounds"),
            calls: calls.checked_sub(1),
        })
    }

    /// The share of each node in what the pod calls: batch, 1, nodes.
    fn call_shares(&self, inputs: &Inputs) -> Option<Tensor<3>> {
        let feature = selector(self.node_width, self.calls?, &inputs.nodes.device());
        let calls = apply(inputs.nodes.clone(), feature).clamp_min(0.0).swap_dims(1, 2);
        Some(calls.clone() / (calls.sum_dim(2) + FEWEST_CALLS))
    }

    fn sources(&self) -> impl Iterator<Item = &'static str> {
        ["own", "zone", "region", "all"].into_iter().chain(self.calls.map(|_| "calls"))
    }
}

impl Architecture for Graph {
    fn shapes(&self) -> Vec<Shape> {
        let Self { node_width, pod_width, width, rounds, .. } = *self;
        let mut shapes = vec![
            Shape { fan_in: node_width + pod_width, ..Shape::matrix("node.weight", width, node_width) },
            Shape { fan_in: node_width + pod_width, ..Shape::matrix("node.pod", width, pod_width) },
            Shape::vector("node.bias", width, node_width + pod_width),
        ];
        for round in 0..rounds {
            let joined = width * self.sources().count();
            for source in self.sources() {
                let name = format!("round{round}.{source}");
                shapes.push(Shape { fan_in: joined, ..Shape::matrix(&name, width, width) });
            }
            shapes.push(Shape::vector(&format!("round{round}.bias"), width, joined));
        }
        shapes.push(Shape::vector("out.weight", width, width));
        shapes.push(Shape::vector("out.bias", 1, width));
        shapes.push(Shape::matrix("value.hidden", width, width));
        shapes.push(Shape::vector("value.bias", width, width));
        shapes.push(Shape::vector("value.out.weight", width, width));
        shapes.push(Shape::vector("value.out.bias", 1, width));
        shapes
    }

    fn forward(&self, parameters: &Parameters, inputs: &Inputs) -> Output {
        let [size, nodes, _] = inputs.nodes.dims();
        let get = |name: &str| parameters.get(name);
        let (zone, region, calls) = (inputs.pools(0), inputs.pools(1), self.call_shares(inputs));
        let pod = apply(inputs.pod_rows(), get("node.pod")) + row(get("node.bias"));
        let mut x = relu(apply(inputs.nodes.clone(), get("node.weight")) + pod);
        for round in 0..self.rounds {
            let weight = |source: &str| get(&format!("round{round}.{source}"));
            // The matrix goes over a pool's mean before it is handed out: there are fewer pools than nodes.
            let hear = |(mean, hand): &(Tensor<3>, Tensor<3>), source: &str| {
                hand.clone().matmul(apply(mean.clone().matmul(x.clone()), weight(source)))
            };
            let mut shared = apply(inputs.mean_over_nodes(x.clone()), weight("all")) + row(weight("bias"));
            if let Some(calls) = &calls {
                shared = shared + apply(calls.clone().matmul(x.clone()), weight("calls"));
            }
            let heard = hear(&zone, "zone") + hear(&region, "region") + shared;
            x = relu(apply(x.clone(), weight("own")) + heard);
        }
        let scores = apply(x.clone(), get("out.weight")) + row(get("out.bias"));
        let hidden = relu(apply(inputs.mean_over_nodes(x), get("value.hidden")) + row(get("value.bias")));
        let values = apply(hidden, get("value.out.weight")) + row(get("value.out.bias"));
        Output { scores: inputs.masked(scores.reshape([size, nodes])), values: values.reshape([size]) }
    }
}
