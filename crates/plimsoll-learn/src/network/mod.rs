//! Networks: from what a decision looks like to a score for each node, whatever their number and order.
//!
//! An [`Architecture`] says which weights there are and how scores follow from them, in burn's tensors; a [`Network`] joins one with its
//! weights, which live as plain arrays so that optimisers, files and the forward pass without burn share them.

pub mod attention;
pub mod batch;
pub mod deepsets;
pub mod factored;
pub mod graph;
#[cfg(feature = "onnx")]
pub mod onnx;
mod spec;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Inputs};
pub use spec::{NetworkKind, NetworkSpec, Size};

use crate::error::LearnError;
use crate::model::{self, NetworkCard, Weights};
use burn::tensor::{Device, Int, Tensor, TensorData};
use plimsoll_core::rng::Rng;
use std::collections::BTreeMap;

/// The score of a node that may not be chosen: far below any score, and still finite so that a softmax over it stays a number.
pub const INVALID: f32 = -1e30;

/// Gradients by the name of the weight they belong to.
pub type Gradients = Weights;

/// What a network makes of a batch.
#[derive(Debug)]
pub struct Output {
    /// A score for each decision and node; [`INVALID`] where the node may not be chosen.
    pub scores: Tensor<2>,
    /// What each decision is worth, if asked for.
    pub values: Option<Tensor<1>>,
}

/// The shape of an array of weights, and how many numbers flow into each of its outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Its name in the file of weights.
    pub name: String,
    /// One length for a vector, two (outputs, inputs) for a matrix.
    pub lengths: Vec<usize>,
    /// Inputs to each output: what weights are scaled by at the start.
    pub fan_in: usize,
}

impl Shape {
    /// A matrix from `inputs` to `outputs`.
    pub fn matrix(name: &str, outputs: usize, inputs: usize) -> Self {
        Self { name: name.to_owned(), lengths: vec![outputs, inputs], fan_in: inputs }
    }

    /// A vector beside a matrix with `fan_in` inputs.
    pub fn vector(name: &str, length: usize, fan_in: usize) -> Self {
        Self { name: name.to_owned(), lengths: vec![length], fan_in }
    }
}

/// Weights as burn's tensors; vectors are matrices of one row.
#[derive(Debug)]
pub struct Parameters(BTreeMap<String, Tensor<2>>);

impl Parameters {
    fn new(weights: &Weights, device: &Device, learn: bool) -> Self {
        let tensor = |tensor: &model::Tensor| {
            let lengths = match tensor.shape[..] {
                [outputs, inputs] => [outputs, inputs],
                _ => [1, tensor.data.len()],
            };
            let tensor = Tensor::from_data(TensorData::new(tensor.data.clone(), lengths), device);
            if learn { tensor.require_grad() } else { tensor }
        };
        Self(weights.iter().map(|(name, weights)| (name.clone(), tensor(weights))).collect())
    }

    /// The weights with this name, which [`Architecture::shapes`] must have named.
    pub fn get(&self, name: &str) -> Tensor<2> {
        self.0.get(name).cloned().unwrap_or_else(|| panic!("the network has no weights {name:?}"))
    }
}

/// A loss on one score of each decision: from the chosen scores to its slope in each of them.
pub type ChosenLoss<'a> = &'a mut dyn FnMut(&[f32]) -> Vec<f32>;

/// How scores follow from weights.
pub trait Architecture: Send + Sync {
    /// The weights there are.
    fn shapes(&self) -> Vec<Shape>;

    /// Scores, and values where asked for.
    fn forward(&self, parameters: &Parameters, inputs: &Inputs, values: bool) -> Output;

    /// Scores without burn, where a faster way is known; equal to those of `forward` but for rounding.
    fn fast_scores(&self, _weights: &Weights, _batch: &Batch) -> Option<Vec<f32>> {
        None
    }

    /// Gradients of a loss on the scores of the chosen nodes alone, where a faster way than burn's is known.
    fn fast_gradients(&self, _: &Weights, _: &Batch, _chosen: &[usize], _: ChosenLoss) -> Option<Gradients> {
        None
    }
}

/// An architecture with its weights.
pub struct Network {
    spec: NetworkSpec,
    architecture: Box<dyn Architecture>,
    weights: Weights,
}

impl Network {
    /// A network with weights drawn from a seed: uniform, within one over the root of the inputs.
    pub fn new(spec: &NetworkSpec, seed: u64) -> Result<Self, LearnError> {
        let architecture = spec.architecture()?;
        let mut rng = Rng::new(seed);
        let mut weights = Weights::new();
        for Shape { name, lengths, fan_in } in architecture.shapes() {
            let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
            let data = (0..lengths.iter().product()).map(|_| ((2.0 * rng.unit() - 1.0) * bound) as f32).collect();
            weights.insert(name, model::Tensor { shape: lengths, data });
        }
        Ok(Self { spec: spec.clone(), architecture, weights })
    }

    /// A network with given weights; refused, with what differs, unless they fit.
    pub fn with_weights(spec: &NetworkSpec, weights: Weights) -> Result<Self, LearnError> {
        let architecture = spec.architecture()?;
        let mut network = Self { spec: spec.clone(), architecture, weights: Weights::new() };
        network.set_weights(weights)?;
        Ok(network)
    }

    /// Takes other weights.
    pub fn set_weights(&mut self, weights: Weights) -> Result<(), LearnError> {
        check_weights(&self.spec, &self.architecture.shapes(), &weights)?;
        self.weights = weights;
        Ok(())
    }

    /// What it was built from.
    pub fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The weights, for an optimiser to change; their names and shapes must stay.
    pub fn weights_mut(&mut self) -> &mut Weights {
        &mut self.weights
    }

    /// What a model's card says of it.
    pub fn card(&self) -> NetworkCard {
        self.spec.card()
    }

    /// A score for each decision and node, row by row.
    pub fn scores(&self, batch: &Batch) -> Result<Vec<f32>, LearnError> {
        match self.architecture.fast_scores(&self.weights, batch) {
            Some(scores) => Ok(scores),
            None => to_vec(self.output(batch, false).scores),
        }
    }

    /// The same, and what each decision is worth.
    pub fn scores_and_values(&self, batch: &Batch) -> Result<(Vec<f32>, Vec<f32>), LearnError> {
        let output = self.output(batch, true);
        let values = output.values.ok_or_else(|| LearnError::Invalid("the network has no values".to_owned()))?;
        Ok((to_vec(output.scores)?, to_vec(values)?))
    }

    /// Scores and values by burn, without a record for gradients.
    pub fn output(&self, batch: &Batch, values: bool) -> Output {
        let device = Device::flex();
        let parameters = Parameters::new(&self.weights, &device, false);
        self.architecture.forward(&parameters, &Inputs::new(batch, &device), values)
    }

    /// The gradients of any loss on scores and values.
    pub fn gradients(
        &self,
        batch: &Batch,
        values: bool,
        loss: &mut dyn FnMut(Output) -> Result<Tensor<1>, LearnError>,
    ) -> Result<Gradients, LearnError> {
        let parameters = Parameters::new(&self.weights, &Device::flex().autodiff(), true);
        // Inputs need no gradients: on the plain device they are constants that nothing is recorded for.
        let output = self.architecture.forward(&parameters, &Inputs::new(batch, &Device::flex()), values);
        let mut found = loss(output)?.backward();
        let mut gradients = Gradients::new();
        for (name, tensor) in &parameters.0 {
            let weights = &self.weights[name];
            let data = match tensor.grad_remove(&mut found) {
                Some(gradient) => to_vec(gradient)?,
                // A head that the loss does not use.
                None => vec![0.0; weights.data.len()],
            };
            gradients.insert(name.clone(), model::Tensor { shape: weights.shape.clone(), data });
        }
        Ok(gradients)
    }

    /// The gradients of a loss on the score of one chosen node of each decision, by the fastest way there is.
    pub fn chosen_gradients(&self, batch: &Batch, chosen: &[usize], loss: ChosenLoss) -> Result<Gradients, LearnError> {
        if let Some(gradients) = self.architecture.fast_gradients(&self.weights, batch, chosen, loss) {
            return Ok(gradients);
        }
        self.gradients(batch, false, &mut |output| {
            let scores = pick(output.scores, chosen);
            let slopes = loss(&to_vec(scores.clone().inner())?);
            Ok((scores * constant(slopes)).sum())
        })
    }
}

fn check_weights(spec: &NetworkSpec, shapes: &[Shape], weights: &Weights) -> Result<(), LearnError> {
    let differs =
        |what: String| Err(LearnError::Invalid(format!("weights do not fit a {} network: {what}", spec.kind)));
    for Shape { name, lengths, .. } in shapes {
        match weights.get(name) {
            None => return differs(format!("{name:?} is missing")),
            Some(tensor) if &tensor.shape != lengths => {
                return differs(format!("{name:?} is {:?}, not {lengths:?}; were other features used?", tensor.shape));
            }
            Some(tensor) if tensor.data.len() != lengths.iter().product::<usize>() => {
                return differs(format!("{name:?} holds {} numbers for a shape of {lengths:?}", tensor.data.len()));
            }
            Some(tensor) if tensor.data.iter().any(|value| !value.is_finite()) => {
                return differs(format!("{name:?} holds a value that is not finite"));
            }
            Some(_) => {}
        }
    }
    match weights.keys().find(|name| !shapes.iter().any(|shape| shape.name == **name)) {
        Some(name) => differs(format!("{name:?} is not part of it")),
        None => Ok(()),
    }
}

/// The numbers of a tensor.
pub(crate) fn to_vec<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, LearnError> {
    tensor
        .try_into_vec_as::<f32>()
        .map_err(|error| LearnError::Invalid(format!("the network's numbers cannot be read: {error}")))
}

/// A vector that has no gradient.
pub(crate) fn constant(values: Vec<f32>) -> Tensor<1> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), &Device::flex())
}

/// One column of each row.
pub(crate) fn pick(rows: Tensor<2>, columns: &[usize]) -> Tensor<1> {
    let indices: Vec<i64> = columns.iter().map(|column| *column as i64).collect();
    let indices = Tensor::<2, Int>::from_data(TensorData::new(indices, [columns.len(), 1]), &Device::flex());
    rows.gather(1, indices).reshape([columns.len()])
}

/// `x W'`: every row of every decision through the same matrix.
pub(crate) fn apply(x: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    let [batch, nodes, inputs] = x.dims();
    let outputs = weight.dims()[0];
    x.reshape([batch * nodes, inputs]).matmul(weight.transpose()).reshape([batch, nodes, outputs])
}

/// The allowed node with the best score, the first of equals; the first node if none is allowed.
pub fn best(scores: &[f32], mask: &[bool]) -> usize {
    let mut best: Option<usize> = None;
    for (index, (score, allowed)) in scores.iter().zip(mask).enumerate() {
        if *allowed && best.is_none_or(|best| *score > scores[best]) {
            best = Some(index);
        }
    }
    best.unwrap_or(0)
}
