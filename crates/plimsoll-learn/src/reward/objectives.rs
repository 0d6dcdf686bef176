//! Several objectives at once, each from 0 to 1, with the weights of a workload profile.

use super::placement::{mean, utilisations};
use super::{Judgement, Options, Placed, TermOptions};
use crate::error::LearnError;
use crate::variables::{Lookup, number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, PoisonError, RwLock};

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

    /// The weights that a reward is given: its own, those of its profile, or the usual.
    pub fn of(options: &TermOptions) -> Result<Self, LearnError> {
        match (&options.objectives, &options.profile) {
            (Some(objectives), _) => Ok(*objectives),
            (None, Some(profile)) => Self::profile(profile),
            (None, None) => Ok(Self::default()),
        }
    }

    /// Takes over the weights that are set under [`VARIABLES`].
    pub fn override_by(&mut self, lookup: Lookup<'_>) -> Result<(), LearnError> {
        let Self { utilization, balance, latency, affinity, energy } = self;
        for (name, weight) in VARIABLES.iter().zip([utilization, balance, latency, affinity, energy]) {
            *weight = number(name, lookup)?.unwrap_or(*weight);
        }
        Ok(())
    }
}

/// How far each objective is met, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Marks {
    /// How well nodes in use are used.
    pub utilization: f64,
    /// How alike nodes are used.
    pub balance: f64,
    /// How near those are whom the pod talks to.
    pub latency: f64,
    /// How far its preferences are met.
    pub affinity: f64,
    /// How little machines draw.
    pub energy: f64,
}

impl Objectives {
    /// What marks come to.
    pub fn weigh(&self, marks: &Marks) -> f64 {
        self.utilization * marks.utilization
            + self.balance * marks.balance
            + self.latency * marks.latency
            + self.affinity * marks.affinity
            + self.energy * marks.energy
    }

    /// The weights, in their order.
    pub fn weights(&self) -> [f64; 5] {
        [self.utilization, self.balance, self.latency, self.affinity, self.energy]
    }

    /// Weights from zero up, not all of them zero.
    pub fn check(&self) -> Result<(), LearnError> {
        let weights = self.weights();
        if weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0) && weights.iter().sum::<f64>() > 0.0 {
            return Ok(());
        }
        Err(LearnError::Invalid("the weights of objectives are numbers from 0 up, and one at least is above 0".into()))
    }
}

/// Weights that may change while they are in use, all five at once.
#[derive(Debug, Clone, Default)]
pub struct SharedObjectives(Arc<RwLock<Objectives>>);

impl SharedObjectives {
    /// Weights to begin with.
    pub fn new(objectives: Objectives) -> Self {
        Self(Arc::new(RwLock::new(objectives)))
    }

    /// The weights in force.
    pub fn get(&self) -> Objectives {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other weights, from the next decision on; wrong ones change nothing.
    pub fn set(&self, objectives: Objectives) -> Result<(), LearnError> {
        objectives.check()?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = objectives;
        Ok(())
    }
}

/// How near a pod's users are, by the latency that it bears.
pub fn nearness(latency_ms: f64, constraint: Option<(f64, f64)>) -> f64 {
    match constraint {
        Some((soft, _)) if latency_ms <= soft => 1.0,
        Some((_, hard)) if latency_ms <= hard => 0.5,
        Some(_) => 0.0,
        None => 1.0,
    }
}

/// The weighted sum of the objectives.
pub fn multi_objective(placed: &Placed<'_>, options: &Options) -> Judgement {
    let loads = placed.loads;
    let in_use = utilisations(loads).zip(&loads.pods).filter(|(_, pods)| **pods > 0.0).map(|(value, _)| value);
    let average = mean(utilisations(loads));
    let variance = mean(utilisations(loads).map(|value| (value - average) * (value - average)));
    let constraint = placed.constraint.map(|(soft, hard)| (f64::from(soft), f64::from(hard)));
    let users = nearness(f64::from(loads.latency_ms[placed.chosen]), constraint);
    let marks = Marks {
        utilization: mean(in_use),
        balance: 1.0 - 2.0 * variance.sqrt(),
        latency: placed.context.near.min(users),
        affinity: placed.context.preference,
        energy: 1.0 - placed.context.power,
    };
    options.objectives.weigh(&marks).into()
}
