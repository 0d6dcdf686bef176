//! Several objectives at once, each from 0 to 1, with the weights of a workload profile.

use super::placement::{mean, utilisations};
use super::{Judgement, Options, Placed};
use crate::error::LearnError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much each objective counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Objectives {
    /// Nodes in use are used well.
    pub utilization: f64,
    /// Nodes are used alike.
    pub balance: f64,
    /// Services that call each other share a node, and users are near.
    pub latency: f64,
    /// Preferences of the pod are met.
    pub affinity: f64,
    /// Machines draw little.
    pub energy: f64,
}

impl Default for Objectives {
    fn default() -> Self {
        weights(0.30, 0.25, 0.25, 0.10, 0.10)
    }
}

/// The profiles that can be chosen by name.
pub const PROFILES: &[(&str, &str, Objectives)] = &[
    ("default", "no objective above all others", weights(0.30, 0.25, 0.25, 0.10, 0.10)),
    ("web", "users wait for answers", weights(0.15, 0.20, 0.45, 0.15, 0.05)),
    ("batch", "work is to be done, whenever", weights(0.50, 0.10, 0.05, 0.10, 0.25)),
    ("data", "stores that must not disturb each other", weights(0.15, 0.40, 0.15, 0.25, 0.05)),
    ("green", "as little energy as possible", weights(0.30, 0.05, 0.10, 0.05, 0.50)),
];

/// The variables that set a weight, in the order of [`Objectives`].
pub const VARIABLES: [&str; 5] =
    ["REWARD_RESOURCE_UTIL", "REWARD_LOAD_BALANCE", "REWARD_LATENCY", "REWARD_AFFINITY", "REWARD_ENERGY"];

const fn weights(utilization: f64, balance: f64, latency: f64, affinity: f64, energy: f64) -> Objectives {
    Objectives { utilization, balance, latency, affinity, energy }
}

impl Objectives {
    /// The weights of a workload profile.
    pub fn profile(name: &str) -> Result<Self, LearnError> {
        let found = PROFILES.iter().find(|(known, ..)| *known == name).map(|(.., weights)| *weights);
        found.ok_or_else(|| LearnError::unknown("workload profile", name, PROFILES.iter().map(|(known, ..)| *known)))
    }

    /// Takes over the weights that are set under [`VARIABLES`].
    pub fn override_by(&mut self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<(), LearnError> {
        let Self { utilization, balance, latency, affinity, energy } = self;
        for (name, weight) in VARIABLES.iter().zip([utilization, balance, latency, affinity, energy]) {
            let Some(text) = lookup(name) else { continue };
            let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
            *weight = number
                .ok_or_else(|| LearnError::Invalid(format!("{name} is {text:?}; it must be a number from 0 up")))?;
        }
        Ok(())
    }
}

/// The weighted sum of the objectives.
pub fn multi_objective(placed: &Placed<'_>, options: &Options) -> Judgement {
    let weights = &options.objectives;
    let loads = placed.loads;
    let in_use = utilisations(loads).zip(&loads.pods).filter(|(_, pods)| **pods > 0.0).map(|(value, _)| value);
    let average = mean(utilisations(loads));
    let variance = mean(utilisations(loads).map(|value| (value - average) * (value - average)));
    let latency = loads.latency_ms[placed.chosen];
    let users = match placed.constraint {
        Some((soft, _)) if latency <= soft => 1.0,
        Some((_, hard)) if latency <= hard => 0.5,
        Some(_) => 0.0,
        None => 1.0,
    };
    let sum = weights.utilization * mean(in_use)
        + weights.balance * (1.0 - 2.0 * variance.sqrt())
        + weights.latency * placed.context.near.min(users)
        + weights.affinity * placed.context.preference
        + weights.energy * (1.0 - placed.context.power);
    sum.into()
}
