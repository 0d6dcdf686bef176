//! The predictor at work: a small network that bends the common survival curve by what is seen of a pod.

use super::curve::{AGES, Curve};
use super::history::FEATURES;
use crate::model::{Tensor, Weights};

/// A trained predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct Predictor {
    /// Log-odds of ending in each step of age, over all pods.
    pub common: Vec<f32>,
    /// Weights of the hidden layer, a row of [`FEATURES`] for each of its units.
    pub hidden: Vec<f32>,
    /// Its biases.
    pub hidden_bias: Vec<f32>,
    /// Weights of the output, a row of hidden units for each age.
    pub out: Vec<f32>,
    /// Its biases.
    pub out_bias: Vec<f32>,
}

/// Names of the tensors in a model's file.
const NAMES: [&str; 5] =
    ["lifetime.common", "lifetime.hidden", "lifetime.hidden_bias", "lifetime.out", "lifetime.out_bias"];

impl Predictor {
    /// The survival curve of a pod.
    pub fn curve(&self, features: &[f32; FEATURES]) -> Curve {
        let units = self.hidden_bias.len();
        let mut active = [0.0_f32; 64];
        let active = &mut active[..units.min(64)];
        for ((unit, row), bias) in active.iter_mut().zip(self.hidden.chunks_exact(FEATURES)).zip(&self.hidden_bias) {
            let sum: f32 = row.iter().zip(features).map(|(weight, feature)| weight * feature).sum();
            *unit = (sum + bias).max(0.0);
        }
        let hazards =
            self.out.chunks_exact(units).zip(&self.out_bias).zip(&self.common).map(|((row, bias), common)| {
                let sum: f32 = row.iter().zip(&*active).map(|(weight, unit)| weight * unit).sum();
                sigmoid(sum + bias + common)
            });
        Curve::from_hazards(hazards)
    }

    /// Whether a tensor of a model's file belongs to its predictor.
    pub fn owns(name: &str) -> bool {
        NAMES.contains(&name)
    }

    /// The weights, for a model's file.
    pub fn weights(&self) -> Weights {
        let units = self.hidden_bias.len();
        let shapes = [vec![AGES], vec![units, FEATURES], vec![units], vec![AGES, units], vec![AGES]];
        let data = [&self.common, &self.hidden, &self.hidden_bias, &self.out, &self.out_bias];
        let tensors = shapes.into_iter().zip(data).map(|(shape, data)| Tensor { shape, data: data.clone() });
        NAMES.iter().map(|name| (*name).to_owned()).zip(tensors).collect()
    }

    /// Reads the weights out of a model's file: none if the model has no predictor, an error that says what differs if it does not fit.
    pub fn from_weights(weights: &Weights) -> Result<Option<Self>, String> {
        if !weights.contains_key(NAMES[0]) {
            return Ok(None);
        }
        let units = weights.get(NAMES[2]).map_or(0, |tensor| tensor.data.len());
        if units == 0 || units > 64 {
            return Err(format!("{} has {units} units; 1 to 64 are supported", NAMES[2]));
        }
        let shapes = [vec![AGES], vec![units, FEATURES], vec![units], vec![AGES, units], vec![AGES]];
        let mut read = NAMES.iter().zip(shapes).map(|(name, shape)| match weights.get(*name) {
            Some(tensor) if tensor.shape == shape => Ok(tensor.data.clone()),
            Some(tensor) => Err(format!("{name} is {:?}, not {shape:?}", tensor.shape)),
            None => Err(format!("{name} is missing")),
        });
        let mut next = || read.next().unwrap_or_else(|| Err("a tensor is missing".into()));
        Ok(Some(Self { common: next()?, hidden: next()?, hidden_bias: next()?, out: next()?, out_bias: next()? }))
    }
}

/// The chance of log-odds.
fn sigmoid(odds: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-odds))
}
