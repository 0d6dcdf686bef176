//! Networks: from what a decision looks like to a score for each node, whatever their number and order.
//!
//! An [`Architecture`] says which weights there are and how scores follow from them, in burn's tensors; a [`Network`] joins one with its
//! weights, which live as plain arrays so that optimisers, files and passes without burn share them. Where an architecture knows a faster
//! way than burn's, that is taken; tests hold it against burn's.

pub mod attention;
pub mod batch;
pub mod deepsets;
mod device;
pub mod factored;
pub mod graph;
mod kernel;
#[cfg(feature = "onnx")]
pub mod onnx;
mod spec;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Inputs};
pub use device::Compute;
pub use spec::{NetworkKind, NetworkSpec, Size};

use crate::error::LearnError;
use crate::model::{self, NetworkCard, Weights};
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_core::rng::Rng;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The score of a node that may not be chosen: far below any score, and still finite so that a softmax over it stays a number.
pub const INVALID: f32 = -1e30;

pub use crate::agent::adam::Gradients;

/// What a network makes of a batch.
#[derive(Debug)]
pub struct Output {
    /// A score for each decision and node; [`INVALID`] where the node may not be chosen.
    pub scores: Tensor<2>,
    /// What each decision is worth.
    pub values: Tensor<1>,
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
    fn new(weights: &Weights, device: &Device) -> Self {
        let tensor = |tensor: &model::Tensor| {
            let lengths = match tensor.shape[..] {
                [outputs, inputs] => [outputs, inputs],
                _ => [1, tensor.data.len()],
            };
            Tensor::from_data(TensorData::new(tensor.data.clone(), lengths), device)
        };
        Self(weights.iter().map(|(name, weights)| (name.clone(), tensor(weights))).collect())
    }

    /// The same weights, to be followed back for their gradients.
    fn learning(&self) -> Self {
        let learning = |tensor: &Tensor<2>| tensor.clone().autodiff().require_grad();
        Self(self.0.iter().map(|(name, tensor)| (name.clone(), learning(tensor))).collect())
    }

    /// The weights with this name, which [`Architecture::shapes`] must have named.
    pub fn get(&self, name: &str) -> Tensor<2> {
        self.0.get(name).cloned().unwrap_or_else(|| panic!("the network has no weights {name:?}"))
    }
}

/// The slopes of a loss: how it changes with each score and each value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Slopes {
    /// In each score of each decision; 0 where the node may not be chosen.
    pub scores: Vec<f32>,
    /// In each decision's value; empty where values do not matter.
    pub values: Vec<f32>,
}

/// A loss: from scores and values to its slopes in them.
pub type Loss<'a> = &'a mut dyn FnMut(&[f32], &[f32]) -> Result<Slopes, LearnError>;

/// A pass forth without burn that can be followed back.
pub trait Pass {
    /// The scores.
    fn scores(&self) -> &[f32];

    /// The values.
    fn values(&self) -> &[f32];

    /// The gradients of a loss with these slopes.
    fn back(&self, slopes: &Slopes) -> Gradients;
}

/// How scores follow from weights.
pub trait Architecture: Send + Sync {
    /// The weights there are.
    fn shapes(&self) -> Vec<Shape>;

    /// Scores and values.
    fn forward(&self, parameters: &Parameters, inputs: &Inputs) -> Output;

    /// Scores and values without burn, where a faster way is known; equal to those of `forward` but for rounding.
    fn fast_scores(&self, _weights: &Weights, _batch: &Batch) -> Option<(Vec<f32>, Vec<f32>)> {
        None
    }

    /// The same, to be followed back for gradients.
    fn fast_pass<'a>(&self, _weights: &'a Weights, _batch: &'a Batch) -> Option<Box<dyn Pass + 'a>> {
        None
    }
}

/// An architecture with its weights.
pub struct Network {
    spec: NetworkSpec,
    architecture: Box<dyn Architecture>,
    weights: Weights,
    /// The weights where burn computes, from their first use there until they change.
    parameters: OnceLock<Parameters>,
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
        Ok(Self { spec: spec.clone(), architecture, weights, parameters: OnceLock::new() })
    }

    /// A network with given weights; refused, with what differs, unless they fit.
    pub fn with_weights(spec: &NetworkSpec, weights: Weights) -> Result<Self, LearnError> {
        let architecture = spec.architecture()?;
        let parameters = OnceLock::new();
        let mut network = Self { spec: spec.clone(), architecture, weights: Weights::new(), parameters };
        network.set_weights(weights)?;
        Ok(network)
    }

    /// Takes other weights.
    pub fn set_weights(&mut self, weights: Weights) -> Result<(), LearnError> {
        check_weights(&self.spec, &self.architecture.shapes(), &weights)?;
        *self.weights_mut() = weights;
        Ok(())
    }

    /// Takes those of its weights that another model has; heads that only training needs stay as they are.
    pub fn begin_with(&mut self, others: &Weights) -> Result<(), LearnError> {
        let mut own = self.weights.clone();
        let known = others
            .iter()
            .filter(|(name, _)| own.contains_key(*name))
            .map(|(name, tensor)| (name.clone(), tensor.clone()));
        let known: Vec<_> = known.collect();
        if known.is_empty() {
            let problem = "the other model has no weight of this network; train from one of the same network";
            return Err(LearnError::Invalid(problem.into()));
        }
        own.extend(known);
        self.set_weights(own)
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
        self.parameters.take();
        &mut self.weights
    }

    /// What a model's card says of it.
    pub fn card(&self) -> NetworkCard {
        self.spec.card()
    }

    /// A score for each decision and node, row by row.
    pub fn scores(&self, batch: &Batch) -> Result<Vec<f32>, LearnError> {
        match self.fast_scores(batch) {
            Some((scores, _)) => Ok(scores),
            None => to_vec(self.output(batch).0),
        }
    }

    /// The same, and what each decision is worth.
    pub fn scores_and_values(&self, batch: &Batch) -> Result<(Vec<f32>, Vec<f32>), LearnError> {
        match self.fast_scores(batch) {
            Some(both) => Ok(both),
            None => self.burn_scores_and_values(batch),
        }
    }

    fn fast_scores(&self, batch: &Batch) -> Option<(Vec<f32>, Vec<f32>)> {
        Compute::chosen().is_processor().then(|| self.architecture.fast_scores(&self.weights, batch))?
    }

    /// The same by burn, whether or not a faster way is known.
    pub fn burn_scores_and_values(&self, batch: &Batch) -> Result<(Vec<f32>, Vec<f32>), LearnError> {
        let (scores, values) = self.output(batch);
        Ok((to_vec(scores)?, to_vec(values)?))
    }

    fn output(&self, batch: &Batch) -> (Tensor<2>, Tensor<1>) {
        let device = Compute::chosen().device();
        let Output { scores, values } =
            self.architecture.forward(self.parameters(&device), &Inputs::new(batch, &device));
        (scores, values)
    }

    fn parameters(&self, device: &Device) -> &Parameters {
        self.parameters.get_or_init(|| Parameters::new(&self.weights, device))
    }

    /// The gradients of a loss on scores and values, by the fastest way there is.
    pub fn gradients(&self, batch: &Batch, loss: Loss) -> Result<Gradients, LearnError> {
        let fast =
            Compute::chosen().is_processor().then(|| self.architecture.fast_pass(&self.weights, batch)).flatten();
        match fast {
            Some(pass) => Ok(pass.back(&loss(pass.scores(), pass.values())?)),
            None => self.burn_gradients(batch, loss),
        }
    }

    /// The same by burn, whether or not a faster way is known.
    pub fn burn_gradients(&self, batch: &Batch, loss: Loss) -> Result<Gradients, LearnError> {
        let device = Compute::chosen().device();
        let parameters = self.parameters(&device).learning();
        // Inputs need no gradients: on the plain device they are constants that nothing is recorded for.
        let Output { scores, values } = self.architecture.forward(&parameters, &Inputs::new(batch, &device));
        let slopes = loss(&to_vec(scores.clone().inner())?, &to_vec(values.clone().inner())?)?;
        let [size, nodes] = scores.dims();
        // A sum that has the loss' slopes has its gradients, too.
        let mut sum = (scores * constant(slopes.scores).reshape([size, nodes])).sum();
        if !slopes.values.is_empty() {
            sum = sum + (values * constant(slopes.values)).sum();
        }
        let mut found = sum.backward();
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
fn to_vec<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, LearnError> {
    tensor
        .try_into_vec_as::<f32>()
        .map_err(|error| LearnError::Invalid(format!("the network's numbers cannot be read: {error}")))
}

/// A vector that has no gradient.
fn constant(values: Vec<f32>) -> Tensor<1> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), &Compute::chosen().device())
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
