//! Rewards as a scenario file has them.

use super::constraint::{Constraint, Per};
use super::{Load, Objectives};
use crate::error::LearnError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is rewarded: a name, or names with their weights.
///
/// `reward = "ee"`, `reward = { energy = 1.0, waiting = 0.1 }`, `reward = { lb = { load = "cpu" } }`, or, to keep the 95th percentile of
/// latency below the soft constraint, `reward = { energy = 1.0, latency-violations = { at_most = 0.05, per = "pod-hours" } }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RewardSpec {
    /// One reward.
    Name(String),
    /// A weighted sum.
    Sum(BTreeMap<String, Term>),
}

impl Default for RewardSpec {
    fn default() -> Self {
        Self::Name("energy".into())
    }
}

/// How one reward counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Term {
    /// With this weight.
    Weight(f64),
    /// In detail.
    Options(TermOptions),
}

/// How one reward counts, in detail.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TermOptions {
    /// Its weight; 1 if not said, and for a constraint 0 to begin with.
    pub weight: Option<f64>,
    /// The load that `ee` and `lb` look at.
    pub load: Load,
    /// The workload profile whose weights `multi-objective` takes.
    pub profile: Option<String>,
    /// Weights for `multi-objective` that count more than the profile's.
    pub objectives: Option<Objectives>,
    /// What it is to be kept below, for a physical reward: its weight then rises until it is, and falls while there is slack.
    pub at_most: Option<f64>,
    /// What `at_most` is counted for.
    pub per: Per,
    /// By how much the weight moves, for each unit of violation; 1 if not said.
    pub rate: Option<f64>,
    /// The largest weight; a million if not said.
    pub most: Option<f64>,
    /// Hours of simulated time from one change of the weight to the next; 1 if not said.
    pub every_hours: Option<f64>,
}

impl TermOptions {
    /// What it is to be kept below.
    pub fn constraint(&self) -> Option<Constraint> {
        let at_most = self.at_most?;
        let default = Constraint::new(at_most, self.per);
        Some(Constraint {
            rate: self.rate.unwrap_or(default.rate),
            most: self.most.unwrap_or(default.most),
            every_hours: self.every_hours.unwrap_or(default.every_hours),
            ..default
        })
    }
}

impl RewardSpec {
    /// The terms, in the order of their names.
    pub fn terms(&self) -> Vec<(String, TermOptions)> {
        match self {
            Self::Name(name) => vec![(name.clone(), TermOptions::default())],
            Self::Sum(terms) => terms.iter().map(|(name, term)| (name.clone(), term.options())).collect(),
        }
    }

    /// Reads what a scenario says.
    pub fn from_toml(value: &toml::Value) -> Result<Self, LearnError> {
        value.clone().try_into().map_err(|error: toml::de::Error| {
            LearnError::Invalid(format!(
                "reward: {} is neither a name nor names with weights such as {{ energy = 1.0 }} ({})",
                value,
                error.message()
            ))
        })
    }
}

impl Term {
    fn options(&self) -> TermOptions {
        match self {
            Self::Weight(weight) => TermOptions { weight: Some(*weight), ..TermOptions::default() },
            Self::Options(options) => options.clone(),
        }
    }
}
