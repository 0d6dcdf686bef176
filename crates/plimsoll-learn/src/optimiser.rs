//! Adam, over weights that lie in plain arrays.

/// Adam with its usual constants.
#[derive(Debug, Clone, PartialEq)]
pub struct Adam {
    /// How far a step goes.
    pub learning_rate: f32,
    steps: i32,
    first: Vec<f32>,
    second: Vec<f32>,
}

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

impl Adam {
    /// An optimiser for so many weights.
    pub fn new(weights: usize, learning_rate: f32) -> Self {
        Self { learning_rate, steps: 0, first: vec![0.0; weights], second: vec![0.0; weights] }
    }

    /// Goes a step down the gradient.
    pub fn step(&mut self, weights: &mut [f32], gradient: &[f32]) {
        self.steps += 1;
        let correction = |beta: f32| 1.0 - libm::powf(beta, self.steps as f32);
        let rate = self.learning_rate * correction(BETA2).sqrt() / correction(BETA1);
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((weight, slope), (first, second)) in weights.iter_mut().zip(gradient).zip(moments) {
            *first += (slope - *first) * (1.0 - BETA1);
            *second += (slope * slope - *second) * (1.0 - BETA2);
            *weight -= rate * *first / (second.sqrt() + EPSILON);
        }
    }
}
