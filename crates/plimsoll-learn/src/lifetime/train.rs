//! Training of the predictor: the likelihood of what was seen, steps of age as yes or no.

use super::curve::AGES;
use super::dataset::{Dataset, Sample};
use super::history::FEATURES;
use super::predictor::Predictor;
use crate::agent::adam::Adam;
use crate::model::{Tensor, Weights};
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the predictor is trained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PredictorSettings {
    /// Units of the hidden layer, at most 64.
    pub hidden: usize,
    /// How often each look is learned from.
    pub epochs: usize,
    /// Looks to an update.
    pub batch: usize,
    /// How far an update goes.
    pub learning_rate: f32,
    /// By how much weights shrink with an update, against learning by heart.
    pub decay: f32,
}

impl Default for PredictorSettings {
    fn default() -> Self {
        Self { hidden: 24, epochs: 2, batch: 256, learning_rate: 2e-3, decay: 3e-3 }
    }
}

/// How well a predictor fits, in nats a look: less is better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PredictorFit {
    /// How many looks it learned from.
    pub samples: usize,
    /// With the curve that all pods have in common.
    pub common: f32,
    /// With the predictor.
    pub predictor: f32,
}

/// Trains a predictor; equal data and seed give equal weights.
pub fn train(data: &Dataset, settings: &PredictorSettings, seed: u64) -> (Predictor, PredictorFit) {
    let units = settings.hidden.clamp(1, 64);
    let mut rng = Rng::new(seed);
    let scale = (2.0 / FEATURES as f64).sqrt();
    let mut net = Net {
        common: data.common(),
        units,
        // Hidden weights, hidden biases, output weights, output biases; the output starts at nothing, so at the common curve.
        weights: (0..units * FEATURES).map(|_| ((rng.unit() * 2.0 - 1.0) * scale) as f32).collect(),
    };
    net.weights.resize(units * (FEATURES + 1) + AGES * (units + 1), 0.0);
    let common = net.loss(&data.samples);
    let mut adam = Adam::new(&named(net.weights.clone()), 1e-8);
    let mut order: Vec<usize> = (0..data.samples.len()).collect();
    for _ in 0..settings.epochs {
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at + 1));
        }
        for batch in order.chunks(settings.batch.max(1)) {
            let mut gradient = vec![0.0; net.weights.len()];
            for &at in batch {
                net.add_gradient(&data.samples[at], 1.0 / batch.len() as f32, &mut gradient);
            }
            for (slope, weight) in gradient.iter_mut().zip(&net.weights) {
                *slope += settings.decay * weight;
            }
            let mut weights = named(std::mem::take(&mut net.weights));
            adam.step(&mut weights, &named(gradient), f64::from(settings.learning_rate));
            net.weights = weights.into_values().flat_map(|tensor| tensor.data).collect();
        }
    }
    let fit = PredictorFit { samples: data.samples.len(), common, predictor: net.loss(&data.samples) };
    (net.predictor(), fit)
}

/// All weights as one array, for the optimiser.
fn named(data: Vec<f32>) -> Weights {
    [("weights".to_owned(), Tensor { shape: vec![data.len()], data })].into()
}

struct Net {
    common: Vec<f32>,
    units: usize,
    weights: Vec<f32>,
}

struct Pass {
    active: [f32; 64],
    /// For each step: what the log-odds should go by, times one.
    slopes: [f32; AGES],
    loss: f32,
}

impl Net {
    fn parts(&self) -> (&[f32], &[f32], &[f32], &[f32]) {
        let (hidden, rest) = self.weights.split_at(self.units * FEATURES);
        let (hidden_bias, rest) = rest.split_at(self.units);
        let (out, out_bias) = rest.split_at(AGES * self.units);
        (hidden, hidden_bias, out, out_bias)
    }

    fn pass(&self, sample: &Sample) -> Pass {
        let (hidden, hidden_bias, out, out_bias) = self.parts();
        let mut pass = Pass { active: [0.0; 64], slopes: [0.0; AGES], loss: 0.0 };
        for ((unit, row), bias) in pass.active.iter_mut().zip(hidden.chunks_exact(FEATURES)).zip(hidden_bias) {
            let sum: f32 = row.iter().zip(&sample.features).map(|(weight, feature)| weight * feature).sum();
            *unit = (sum + bias).max(0.0);
        }
        // Steps that were survived whole, and the one in which it ended. A pod that was already in a step survived the part before.
        for step in sample.from..sample.to + usize::from(sample.ended) {
            let row = &out[step * self.units..(step + 1) * self.units];
            let sum: f32 = row.iter().zip(&pass.active).map(|(weight, unit)| weight * unit).sum();
            let odds = sum + out_bias[step] + self.common[step];
            let hazard = 1.0 / (1.0 + libm::expf(-odds));
            let ends = sample.ended && step == sample.to;
            pass.slopes[step] = hazard - f32::from(u8::from(ends));
            pass.loss -= libm::logf(if ends { hazard } else { 1.0 - hazard }.max(1e-9));
        }
        pass
    }

    fn loss(&self, samples: &[Sample]) -> f32 {
        let sum: f64 = samples.iter().map(|sample| f64::from(self.pass(sample).loss)).sum();
        (sum / samples.len().max(1) as f64) as f32
    }

    fn add_gradient(&self, sample: &Sample, share: f32, gradient: &mut [f32]) {
        let pass = self.pass(sample);
        let (_, _, out, _) = self.parts();
        let units = self.units;
        let (hidden, rest) = gradient.split_at_mut(units * FEATURES);
        let (hidden_bias, rest) = rest.split_at_mut(units);
        let (out_slopes, out_bias) = rest.split_at_mut(AGES * units);
        let mut back = [0.0_f32; 64];
        for step in sample.from..sample.to + usize::from(sample.ended) {
            let slope = pass.slopes[step] * share;
            out_bias[step] += slope;
            let rows = out_slopes[step * units..(step + 1) * units].iter_mut().zip(&out[step * units..]);
            for (((to, weight), unit), back) in rows.zip(&pass.active).zip(&mut back) {
                *to += slope * unit;
                *back += slope * weight;
            }
        }
        for unit in (0..units).filter(|unit| pass.active[*unit] > 0.0) {
            hidden_bias[unit] += back[unit];
            for (to, feature) in hidden[unit * FEATURES..].iter_mut().zip(&sample.features) {
                *to += back[unit] * feature;
            }
        }
    }

    fn predictor(&self) -> Predictor {
        let (hidden, hidden_bias, out, out_bias) = self.parts();
        Predictor {
            common: self.common.clone(),
            hidden: hidden.to_vec(),
            hidden_bias: hidden_bias.to_vec(),
            out: out.to_vec(),
            out_bias: out_bias.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifetime::Curve;

    fn look(feature: f32, to: usize) -> Sample {
        let mut features = [0.0; FEATURES];
        features[0] = feature;
        Sample { features, from: 0, to, ended: true }
    }

    #[test]
    fn who_looks_unlike_is_predicted_unlike_and_training_repeats() {
        let samples = (0..600).map(|n| if n % 2 == 0 { look(-1.0, 2 + n % 3) } else { look(1.0, 15 + n % 4) });
        let data = Dataset { samples: samples.collect(), ..Dataset::default() };
        let settings = PredictorSettings { epochs: 40, ..PredictorSettings::default() };
        let (predictor, fit) = train(&data, &settings, 7);
        assert!(fit.predictor < fit.common * 0.7, "{fit:?}");
        let half_alive = |feature| {
            let curve = predictor.curve(&look(feature, 0).features);
            Curve::ages().filter(|age| curve.alive(*age) > 0.5).count()
        };
        assert!(half_alive(-1.0) < 6 && half_alive(1.0) > 12, "{} {}", half_alive(-1.0), half_alive(1.0));
        assert_eq!(train(&data, &settings, 7).0, predictor);
        let read = Predictor::from_weights(&predictor.weights()).unwrap().unwrap();
        assert_eq!(read, predictor);
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let mut rng = Rng::new(3);
        let mut net = Net { common: vec![-1.0; AGES], units: 4, weights: Vec::new() };
        net.weights = (0..4 * (FEATURES + 1) + AGES * 5).map(|_| rng.unit() as f32 - 0.5).collect();
        let sample = Sample { features: std::array::from_fn(|_| rng.unit() as f32), from: 2, to: 9, ended: true };
        let mut gradient = vec![0.0; net.weights.len()];
        net.add_gradient(&sample, 1.0, &mut gradient);
        for at in (0..net.weights.len()).step_by(7) {
            let step = 1e-2;
            let kept = net.weights[at];
            net.weights[at] = kept + step;
            let above = net.loss(&[sample]);
            net.weights[at] = kept - step;
            let below = net.loss(&[sample]);
            net.weights[at] = kept;
            let slope = (above - below) / (2.0 * step);
            assert!((slope - gradient[at]).abs() < 2e-2, "weight {at}: {slope} by difference, {} given", gradient[at]);
        }
    }
}
