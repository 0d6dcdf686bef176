//! The heuristics that a model builds on: those of the engine by their names, and those that predicted lifetimes make possible.

use crate::observation::NodeFacts;
use crate::observation::features::{CPU_LEFT, EXTRA_KWH, LATENCY_AHEAD, WATTS_PER_THREAD, Wanted};
use plimsoll_core::policy::{self, Policy};

/// What a model's score is added to. The unit is such that a difference of one is large.
pub enum Base {
    /// Hours for which the node is busy longer, then the fit.
    ExpectedHours,
    /// Energy that the pod will cost, then the fit.
    ExpectedEnergy,
    /// The most efficient machines, of them the node that is busy least longer, then the fit.
    EfficientHours,
    /// Money that the pod will cost, then the fit.
    ExpectedCost,
    /// Carbon dioxide that the pod will cost, then the fit.
    ExpectedCarbon,
    /// Latency to the user over the time that the pod will run, then the fit.
    ExpectedLatency,
    /// A policy of the engine, its scores brought to between 0 and 1.
    Engine(Box<dyn Policy>),
}

/// The bases that need predicted lifetimes, with what each does.
pub const BASES: &[(&str, &str)] = &[
    ("expected-hours", "the node that the pod keeps busy least longer, by predicted lifetimes, then the best fit"),
    ("expected-energy", "the node where the pod will cost the fewest kWh, by predicted lifetimes, then the best fit"),
    (
        "efficient-hours",
        "of the machines that need the fewest watts for a thread the node that the pod keeps busy least longer, then the best fit",
    ),
    ("expected-cost", "the node where the pod will cost the least money, by predicted lifetimes, then the best fit"),
    ("expected-carbon", "the node where the pod will emit least, by predicted lifetimes, then the best fit"),
    (
        "expected-latency",
        "the node with the lowest latency to the user over the pod's predicted life, by the time of day on the days before, then the best fit",
    ),
];

/// What the share of CPU that stays free weighs against an hour, kWh, or coin that the pod costs. A tenth of an hour of a whole machine was best
/// of 0, 0.03, 0.1, 0.3, 1 and 10 on recorded virtual machines, and little depends on it.
const FIT: f64 = 0.1;

impl Base {
    /// A base by its name; none if there is no such base.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "expected-hours" => Self::ExpectedHours,
            "expected-energy" => Self::ExpectedEnergy,
            "efficient-hours" => Self::EfficientHours,
            "expected-cost" => Self::ExpectedCost,
            "expected-carbon" => Self::ExpectedCarbon,
            "expected-latency" => Self::ExpectedLatency,
            other => Self::Engine(policy::by_name(other)?),
        })
    }

    /// The names of all bases.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BASES.iter().chain(policy::POLICIES).map(|(name, _)| *name)
    }

    /// The features that it needs beside those that are wanted anyway.
    pub fn wants(&self, wanted: Wanted) -> Wanted {
        match self {
            Self::ExpectedEnergy | Self::ExpectedCost | Self::ExpectedCarbon => wanted.and(EXTRA_KWH),
            Self::ExpectedLatency => wanted.and(LATENCY_AHEAD),
            Self::ExpectedHours | Self::EfficientHours | Self::Engine(_) => wanted,
        }
    }

    /// The score of a node, for bases that look at one node at a time.
    pub fn score(&self, facts: &NodeFacts) -> f64 {
        let left = f64::from(facts.row[CPU_LEFT]);
        let cost = match self {
            Self::ExpectedHours => f64::from(facts.extension_hours),
            // A kWh is about what a machine draws in ten hours: the same scale as hours.
            Self::ExpectedEnergy => f64::from(facts.extra_kwh) * 10.0,
            // Kinds of machines differ by more than a hundredth of a watt for a thread, and no pod lives for a thousand hours.
            Self::EfficientHours => f64::from(facts.row[WATTS_PER_THREAD]) * 1e6 + f64::from(facts.extension_hours),
            Self::ExpectedCost => f64::from(facts.extra_cost) + f64::from(facts.extra_kwh) * 1e-3,
            Self::ExpectedCarbon => f64::from(facts.extra_carbon) / 40.0,
            // A node whose latency is not known is chosen last.
            Self::ExpectedLatency => facts.latency_ahead.map_or(1e9, f64::from),
            Self::Engine(_) => return 0.0,
        };
        -cost - FIT * left
    }
}

/// Brings scores to between 0 and 1; all the same if they do not differ. Those that are no numbers stay as they are.
pub fn normalise(scores: &mut [f64]) {
    let finite = scores.iter().copied().filter(|score| score.is_finite());
    let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), score| (a.min(score), b.max(score)));
    let range = most - least;
    for score in scores.iter_mut().filter(|score| score.is_finite()) {
        *score = if range > 0.0 { (*score - least) / range } else { 0.0 };
    }
}
