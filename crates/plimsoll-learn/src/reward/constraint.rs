//! Constraints: a weight that adapts until a cost stays below a limit.
//!
//! "As little energy as possible, but the 95th percentile of latency at most 20 ms" has a weight between the two that nobody knows beforehand.
//! It is found by dual ascent: the weight (a Lagrange multiplier) rises while the constraint is violated and falls, at most to zero, while there
//! is slack. A percentile is a share: p95 at most 20 ms is at most 0.05 of pod-hours above 20 ms.

use crate::error::LearnError;
use plimsoll_sim::simulation::Readings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a cost is to be kept below.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constraint {
    /// The limit.
    pub at_most: f64,
    /// What the cost is counted for.
    pub per: Per,
    /// By how much the weight moves, for each unit of violation.
    pub rate: f64,
    /// The largest weight.
    pub most: f64,
    /// Hours of simulated time from one change of the weight to the next.
    pub every_hours: f64,
}

impl Constraint {
    /// A limit, with a weight that moves every hour.
    pub fn new(at_most: f64, per: Per) -> Self {
        Self { at_most, per, rate: 1.0, most: 1e6, every_hours: 1.0 }
    }
}

/// What a cost is counted for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// An hour.
    #[default]
    Hours,
    /// An hour of a running pod.
    PodHours,
    /// An hour of an awake node.
    NodeHours,
}

impl Per {
    /// How much of it there was.
    pub fn of(self, since: &Readings) -> f64 {
        match self {
            Self::Hours => since.hours,
            Self::PodHours => since.pod_hours,
            Self::NodeHours => since.node_hours,
        }
    }
}

/// A weight that adapts.
#[derive(Debug, Clone, PartialEq)]
pub struct Multiplier {
    constraint: Constraint,
    weight: f64,
    cost: f64,
    base: f64,
    hours: f64,
}

impl Multiplier {
    /// A multiplier that starts with this weight.
    pub fn new(constraint: Constraint, weight: f64) -> Result<Self, LearnError> {
        let Constraint { at_most, rate, most, every_hours, .. } = constraint;
        let numbers = [("at_most", at_most), ("rate", rate), ("most", most), ("every_hours", every_hours)];
        if let Some((name, value)) = numbers.iter().find(|(_, value)| !value.is_finite() || *value < 0.0) {
            return Err(LearnError::Invalid(format!("reward: {name} is {value}; it must be a number from 0 up")));
        }
        Ok(Self { constraint, weight: weight.clamp(0.0, most), cost: 0.0, base: 0.0, hours: 0.0 })
    }

    /// The weight as it is now.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Goes on from another weight.
    pub fn set_weight(&mut self, weight: f64) {
        self.weight = weight.clamp(0.0, self.constraint.most);
    }

    /// Counts what accrued, and moves the weight when enough time has passed.
    pub fn count(&mut self, cost: f64, since: &Readings) {
        self.cost += cost;
        self.base += self.constraint.per.of(since);
        self.hours += since.hours;
        if self.hours >= self.constraint.every_hours && self.base > 0.0 {
            self.ascend();
        }
    }

    /// Moves the weight by how far the cost is from its limit, and counts anew.
    pub fn ascend(&mut self) {
        if self.base > 0.0 {
            let violation = self.cost / self.base - self.constraint.at_most;
            self.weight = (self.weight + self.constraint.rate * violation).clamp(0.0, self.constraint.most);
        }
        (self.cost, self.base, self.hours) = (0.0, 0.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(hours: f64) -> Readings {
        Readings { hours, pod_hours: 10.0 * hours, ..Readings::default() }
    }

    fn spec(at_most: f64) -> Constraint {
        Constraint { at_most, per: Per::PodHours, rate: 2.0, most: 5.0, every_hours: 1.0 }
    }

    #[test]
    fn the_weight_rises_while_violated_and_falls_to_zero_while_slack() {
        let mut multiplier = Multiplier::new(spec(0.05), 0.0).unwrap();
        // Half of the pods are above the limit: 0.45 too many.
        multiplier.count(5.0, &hours(1.0));
        assert!((multiplier.weight() - 0.9).abs() < 1e-12, "{}", multiplier.weight());
        multiplier.count(5.0, &hours(1.0));
        assert!((multiplier.weight() - 1.8).abs() < 1e-12, "{}", multiplier.weight());
        for _ in 0..100 {
            multiplier.count(0.0, &hours(1.0));
        }
        assert_eq!(multiplier.weight(), 0.0);
        for _ in 0..100 {
            multiplier.count(10.0, &hours(1.0));
        }
        assert_eq!(multiplier.weight(), 5.0, "it stops at the largest");
    }

    #[test]
    fn the_weight_stands_still_between_its_changes() {
        let mut multiplier = Multiplier::new(spec(0.05), 1.0).unwrap();
        multiplier.count(5.0, &hours(0.4));
        multiplier.count(5.0, &hours(0.4));
        assert_eq!(multiplier.weight(), 1.0);
        multiplier.count(0.0, &hours(0.2));
        assert!((multiplier.weight() - 2.9).abs() < 1e-12, "{}", multiplier.weight());
    }

    #[test]
    fn dual_ascent_finds_the_weight_at_which_the_constraint_is_met() {
        // A policy that trades: the share of violations is 0.5 without a weight and falls with it.
        let mut multiplier = Multiplier::new(spec(0.05), 0.0).unwrap();
        let mut share = 0.5;
        for _ in 0..2000 {
            share = 0.5 / (1.0 + multiplier.weight() * multiplier.weight());
            multiplier.count(share * 10.0, &hours(1.0));
        }
        assert!((share - 0.05).abs() < 1e-6, "{share}");
        assert!((multiplier.weight() - 3.0).abs() < 1e-4, "{}", multiplier.weight());
    }

    #[test]
    fn a_limit_must_be_a_number() {
        let error = Multiplier::new(spec(f64::NAN), 0.0).unwrap_err().to_string();
        assert!(error.contains("at_most is NaN"), "{error}");
    }
}
