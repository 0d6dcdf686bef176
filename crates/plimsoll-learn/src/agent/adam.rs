//! The Adam optimiser over plain arrays, with gradients clipped to a length.
//!
//! Sums run in the order of names, on one thread, and each weight moves by itself: equal gradients give equal weights, bit for bit.

use super::AgentState;
use crate::error::LearnError;
use crate::model::{Tensor, Weights};
use rayon::prelude::*;

/// Gradients by the name of the weight they belong to.
pub type Gradients = Weights;

/// Decay of the mean of gradients.
const BETA1: f64 = 0.9;
/// Decay of the mean of their squares.
const BETA2: f64 = 0.999;
/// Weights that move on one core: with fewer, waking another would take longer than the work.
const SHARE: usize = 1 << 16;

/// Adam, as Kingma and Ba wrote it.
#[derive(Debug, Clone)]
pub struct Adam {
    epsilon: f64,
    steps: u64,
    moments: Weights,
    squares: Weights,
}

impl Adam {
    /// An optimiser of these weights; `epsilon` keeps steps small where gradients are.
    pub fn new(weights: &Weights, epsilon: f64) -> Self {
        let zeros = || {
            let zero = |tensor: &Tensor| Tensor { shape: tensor.shape.clone(), data: vec![0.0; tensor.data.len()] };
            weights.iter().map(|(name, tensor)| (name.clone(), zero(tensor))).collect::<Weights>()
        };
        Self { epsilon, steps: 0, moments: zeros(), squares: zeros() }
    }

    /// Moves the weights a step against their gradients.
    pub fn step(&mut self, weights: &mut Weights, gradients: &Gradients, learning_rate: f64) {
        self.steps += 1;
        let steps = self.steps as f64;
        let rate = (learning_rate / (1.0 - libm::pow(BETA1, steps))) as f32;
        let correction = (1.0 / (1.0 - libm::pow(BETA2, steps))) as f32;
        let (beta1, beta2, epsilon) = (BETA1 as f32, BETA2 as f32, self.epsilon as f32);
        let all = weights.values_mut().zip(self.moments.values_mut()).zip(self.squares.values_mut());
        for (((weights, moments), squares), gradients) in all.zip(gradients.values()) {
            let each = weights.data.par_iter_mut().zip(&mut moments.data).zip(&mut squares.data);
            each.zip(&gradients.data).with_min_len(SHARE).for_each(|(((weight, moment), square), gradient)| {
                *moment = beta1 * *moment + (1.0 - beta1) * gradient;
                *square = beta2 * *square + (1.0 - beta2) * gradient * gradient;
                *weight -= rate * *moment / ((*square * correction).sqrt() + epsilon);
            });
        }
    }

    /// Adds its state to an agent's.
    pub fn save(&self, state: &mut AgentState) {
        state.values.insert("adam.steps".to_owned(), self.steps.into());
        put(state, "adam.moments", &self.moments);
        put(state, "adam.squares", &self.squares);
    }

    /// Takes its state from an agent's.
    pub fn load(&mut self, state: &AgentState) -> Result<(), LearnError> {
        self.moments = take(state, "adam.moments", &self.moments)?;
        self.squares = take(state, "adam.squares", &self.squares)?;
        self.steps = number(state, "adam.steps")?;
        Ok(())
    }
}

/// Shortens gradients to a length, all by the same factor; gives the length that they had.
pub fn clip(gradients: &mut Gradients, length: f64) -> f64 {
    let squares = gradients.values().flat_map(|tensor| &tensor.data).map(|value| f64::from(*value) * f64::from(*value));
    let norm = squares.sum::<f64>().sqrt();
    if norm > length {
        let factor = (length / norm) as f32;
        gradients.values_mut().for_each(|tensor| tensor.data.iter_mut().for_each(|value| *value *= factor));
    }
    norm
}

/// Puts weights into a state, under a name before theirs.
pub fn put(state: &mut AgentState, prefix: &str, weights: &Weights) {
    let named = weights.iter().map(|(name, tensor)| (format!("{prefix}.{name}"), tensor.clone()));
    state.tensors.extend(named);
}

/// Takes weights of the same names and shapes as these out of a state.
pub fn take(state: &AgentState, prefix: &str, like: &Weights) -> Result<Weights, LearnError> {
    let find = |(name, like): (&String, &Tensor)| {
        let found = state.tensors.get(&format!("{prefix}.{name}"));
        let found = found.filter(|found| found.shape == like.shape).cloned();
        let found = found.ok_or_else(|| {
            let shape = &like.shape;
            LearnError::Invalid(format!(
                "the checkpoint has no {prefix}.{name} of shape {shape:?}: it is of another network"
            ))
        })?;
        Ok((name.clone(), found))
    };
    like.iter().map(find).collect()
}

/// A counter of a state.
pub fn number(state: &AgentState, name: &str) -> Result<u64, LearnError> {
    let found = state.values.get(name).and_then(serde_json::Value::as_u64);
    found.ok_or_else(|| LearnError::Invalid(format!("the checkpoint has no {name:?}: it is of another agent")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(values: &[f32]) -> Weights {
        [("w".to_owned(), Tensor { shape: vec![values.len()], data: values.to_vec() })].into()
    }

    #[test]
    fn the_first_step_is_as_long_as_the_learning_rate_and_against_the_gradient() {
        let mut position = weights(&[1.0, 1.0]);
        Adam::new(&position, 1e-8).step(&mut position, &weights(&[0.5, -3.0]), 0.1);
        let [a, b] = position["w"].data[..] else { panic!() };
        assert!((a - 0.9).abs() < 1e-5 && (b - 1.1).abs() < 1e-5, "{a} {b}");
    }

    #[test]
    fn a_parabola_is_descended() {
        let mut position = weights(&[3.0]);
        let mut adam = Adam::new(&position, 1e-8);
        for _ in 0..500 {
            let slope = 2.0 * (position["w"].data[0] - 1.0);
            adam.step(&mut position, &weights(&[slope]), 0.05);
        }
        assert!((position["w"].data[0] - 1.0).abs() < 1e-2, "{position:?}");
    }

    #[test]
    fn clipping_keeps_the_direction() {
        let mut gradients = weights(&[3.0, 4.0]);
        assert_eq!(clip(&mut gradients, 1.0), 5.0);
        assert!((gradients["w"].data[0] - 0.6).abs() < 1e-6 && (gradients["w"].data[1] - 0.8).abs() < 1e-6);
        assert!((clip(&mut gradients, 2.0) - 1.0).abs() < 1e-6);
    }
}
