//! Values that change as training goes on, such as how often an agent explores.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value that depends on how far training is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "lowercase")]
pub enum Schedule {
    /// Always the same.
    Constant {
        /// The value.
        value: f64,
    },
    /// A straight line over the first part of training, then level.
    Linear {
        /// At the beginning.
        start: f64,
        /// At the end of the line.
        end: f64,
        /// The share of all steps that the line takes.
        fraction: f64,
    },
    /// Shrinks by a factor at every step, down to an end.
    Exponential {
        /// At the beginning.
        start: f64,
        /// The least.
        end: f64,
        /// The factor of a step.
        decay: f64,
    },
}

impl Schedule {
    /// The value that it ends with.
    pub fn end(&self) -> f64 {
        match *self {
            Self::Constant { value } => value,
            Self::Linear { end, .. } | Self::Exponential { end, .. } => end,
        }
    }

    /// The value after some of all steps.
    pub fn at(&self, step: u64, steps: u64) -> f64 {
        match *self {
            Self::Constant { value } => value,
            Self::Linear { start, end, fraction } => {
                let length = (steps as f64 * fraction).max(1.0);
                start + (end - start) * (step as f64 / length).min(1.0)
            }
            Self::Exponential { start, end, decay } => (start * libm::pow(decay, step as f64)).max(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_start_and_end_where_they_say() {
        let line = Schedule::Linear { start: 1.0, end: 0.1, fraction: 0.5 };
        for (step, expected) in [(0, 1.0), (25, 0.55), (50, 0.1), (100, 0.1)] {
            assert!((line.at(step, 100) - expected).abs() < 1e-12, "step {step}: {}", line.at(step, 100));
        }
        let decay = Schedule::Exponential { start: 1.0, end: 0.01, decay: 0.5 };
        assert_eq!([0, 1, 2, 60].map(|step| decay.at(step, 0)), [1.0, 0.5, 0.25, 0.01]);
        assert_eq!(Schedule::Constant { value: 0.2 }.at(7, 9), 0.2);
        assert_eq!([line.end(), decay.end(), Schedule::Constant { value: 0.2 }.end()], [0.1, 0.01, 0.2]);
    }
}
