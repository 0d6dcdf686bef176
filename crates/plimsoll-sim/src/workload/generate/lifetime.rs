//! How long made-up pods run.

use super::draw;
use super::positive;
use crate::workload::Lifetime;
use crate::workload::fields::MAX_SECONDS;
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A lifetime, or what it is drawn from; all times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LifetimeSetting {
    /// To the end.
    Endless,
    /// Always the same.
    Fixed {
        /// How long.
        seconds: f64,
    },
    /// Evenly between two bounds.
    Uniform {
        /// At least.
        least_s: f64,
        /// At most.
        most_s: f64,
    },
    /// Without memory: a pod that ran long is as likely to end as a new one.
    Exponential {
        /// On average.
        mean_s: f64,
    },
    /// Most short, a few long; the logarithm is normal.
    LogNormal {
        /// Half of the pods live shorter.
        median_s: f64,
        /// The spread of the logarithm: 1.57 over all of Azure's machines.
        sigma: f64,
    },
    /// A heavy tail: a few pods make up most of the time.
    Pareto {
        /// At least.
        least_s: f64,
        /// The smaller, the heavier the tail; the mean is infinite up to 1.
        alpha: f64,
        /// At most.
        #[serde(default = "thirty_days")]
        most_s: f64,
    },
}

fn thirty_days() -> f64 {
    30.0 * 86_400.0
}

impl Default for LifetimeSetting {
    /// Half an hour, with the spread of Azure's machines.
    fn default() -> Self {
        Self::LogNormal { median_s: 1800.0, sigma: 1.57 }
    }
}

impl LifetimeSetting {
    /// Whether lifetimes can be drawn.
    pub(super) fn check(&self) -> Result<(), String> {
        match *self {
            Self::Endless => Ok(()),
            Self::Fixed { seconds } => positive("lifetime.seconds", seconds),
            Self::Uniform { least_s, most_s } => {
                positive("lifetime.most_s", most_s)?;
                if (0.0..=most_s).contains(&least_s) {
                    return Ok(());
                }
                Err(format!("lifetime.least_s is {least_s}; it must be from 0 to lifetime.most_s, {most_s}"))
            }
            Self::Exponential { mean_s } => positive("lifetime.mean_s", mean_s),
            Self::LogNormal { median_s, sigma } => {
                positive("lifetime.median_s", median_s)?;
                if (0.0..=10.0).contains(&sigma) {
                    return Ok(());
                }
                Err(format!("lifetime.sigma is {sigma}; it must be from 0 to 10"))
            }
            Self::Pareto { least_s, alpha, most_s } => {
                positive("lifetime.least_s", least_s)?;
                positive("lifetime.alpha", alpha)?;
                if most_s >= least_s {
                    return Ok(());
                }
                Err(format!("lifetime.most_s is {most_s}; it must be at least lifetime.least_s, {least_s}"))
            }
        }
    }

    /// Draws seconds; none is endless.
    pub(super) fn draw(&self, rng: &mut Rng) -> Option<f64> {
        match *self {
            Self::Endless => None,
            Self::Fixed { seconds } => Some(seconds),
            Self::Uniform { least_s, most_s } => Some(draw::uniform(rng, least_s, most_s)),
            Self::Exponential { mean_s } => Some(draw::exponential(rng, mean_s)),
            Self::LogNormal { median_s, sigma } => Some(draw::log_normal(rng, median_s, sigma)),
            Self::Pareto { least_s, alpha, most_s } => Some(draw::pareto(rng, least_s, alpha).min(most_s)),
        }
    }
}

/// A number of seconds as a time, to the millisecond: files stay short, and nothing of use is lost.
pub(super) fn time(seconds: f64) -> Duration {
    Duration::from_millis((seconds.clamp(0.0, MAX_SECONDS as f64) * 1000.0).round() as u64)
}

/// Seconds drawn as a lifetime that is known.
pub(super) fn known(seconds: Option<f64>) -> Option<Lifetime> {
    seconds.map(|seconds| Lifetime::exactly(time(seconds)))
}
