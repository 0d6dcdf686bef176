//! Rewards at work: a weighted sum whose weights may change while training goes on.

use super::constraint::Multiplier;
use super::{Judge, Judgement, Known, Objectives, Options, Placed, RewardSpec, find};
use crate::error::LearnError;
use plimsoll_sim::simulation::Readings;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A weighted sum of rewards. Clones share their weights; those of constraints adapt to what any of them sees.
#[derive(Debug, Clone)]
pub struct Rewards {
    terms: Vec<Part>,
    weights: WeightHandle,
}

#[derive(Debug, Clone)]
struct Part {
    known: Known,
    options: Options,
    multiplier: Option<Multiplier>,
}

/// The weights of rewards, to be changed from anywhere while they are in use.
#[derive(Debug, Clone)]
pub struct WeightHandle {
    names: Arc<[&'static str]>,
    bits: Arc<[AtomicU64]>,
    /// Which adapt until a constraint is met.
    adapts: Arc<[bool]>,
}

impl WeightHandle {
    /// The rewards that have a weight.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The weight of a reward.
    pub fn get(&self, name: &str) -> Result<f64, LearnError> {
        Ok(self.at(self.find(name)?))
    }

    /// Changes the weight of a reward, from the next step on. That of a constraint adapts from there.
    pub fn set(&self, name: &str, weight: f64) -> Result<(), LearnError> {
        let at = self.find(name)?;
        check(name, weight)?;
        self.put(at, weight);
        Ok(())
    }

    /// The weights of constraints as they have adapted.
    pub fn adapted(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let adapting = self.names.iter().enumerate().filter(|(at, _)| self.adapts[*at]);
        adapting.map(|(at, name)| (*name, self.at(at)))
    }

    fn put(&self, at: usize, weight: f64) {
        self.bits[at].store(weight.to_bits(), Ordering::Relaxed);
    }

    fn find(&self, name: &str) -> Result<usize, LearnError> {
        let at = self.names.iter().position(|known| *known == name);
        at.ok_or_else(|| LearnError::unknown("reward", name, self.names.iter().copied()))
    }

    fn at(&self, at: usize) -> f64 {
        f64::from_bits(self.bits[at].load(Ordering::Relaxed))
    }
}

fn check(name: &str, weight: f64) -> Result<(), LearnError> {
    if weight.is_finite() {
        return Ok(());
    }
    Err(LearnError::Invalid(format!("reward {name}: its weight is {weight}; it must be a number")))
}

impl Rewards {
    /// The rewards that a specification names.
    pub fn new(spec: &RewardSpec) -> Result<Self, LearnError> {
        Self::with_own(spec, &[], &|_| None)
    }

    /// The same, with rewards of the user's own beside the standard ones, and variables that override the weights of objectives.
    pub fn with_own(
        spec: &RewardSpec,
        own: &[Known],
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, LearnError> {
        let (mut terms, mut weights) = (Vec::new(), Vec::new());
        for (name, options) in spec.terms() {
            let known = find(&name, own)?;
            let mut objectives = Objectives::of(&options)?;
            objectives.override_by(variables)?;
            let constraint = options.constraint();
            let weight = options.weight.unwrap_or(if constraint.is_some() { 0.0 } else { 1.0 });
            check(&name, weight)?;
            let multiplier = constraint.map(|constraint| Multiplier::new(constraint, weight)).transpose()?;
            if multiplier.is_some() && !matches!(known.judge, Judge::Accrual(_)) {
                let problem = "is no cost that accrues over time, so it cannot be kept below a limit";
                return Err(LearnError::Invalid(format!("reward {name} {problem}; leave at_most out")));
            }
            weights.push(multiplier.as_ref().map_or(weight, Multiplier::weight));
            terms.push(Part { known, options: Options { load: options.load, objectives }, multiplier });
        }
        if terms.is_empty() {
            return Err(LearnError::Invalid("reward: nothing is rewarded; name a reward, such as \"energy\"".into()));
        }
        let weights = WeightHandle {
            names: terms.iter().map(|part| part.known.name).collect(),
            adapts: terms.iter().map(|part| part.multiplier.is_some()).collect(),
            bits: weights.into_iter().map(|weight| AtomicU64::new(weight.to_bits())).collect(),
        };
        Ok(Self { terms, weights })
    }

    /// The weights, to be read and changed.
    pub fn weights(&self) -> &WeightHandle {
        &self.weights
    }

    /// Whether a placement is judged as soon as it is made.
    pub fn judges_placements(&self) -> bool {
        self.terms.iter().any(|part| !matches!(part.known.judge, Judge::Accrual(_)))
    }

    /// Whether what surrounds a placement has to be worked out.
    pub fn needs_context(&self) -> bool {
        self.terms.iter().any(|part| matches!(part.known.judge, Judge::InContext(_)))
    }

    /// Whether what accrues over time is judged.
    pub fn judges_accruals(&self) -> bool {
        self.terms.iter().any(|part| matches!(part.known.judge, Judge::Accrual(_)))
    }

    /// What a placement is worth at once.
    pub fn placement(&self, placed: &Placed<'_>) -> Judgement {
        let mut sum = Judgement::default();
        for (at, part) in self.terms.iter().enumerate() {
            let (Judge::Placement(judge) | Judge::InContext(judge)) = part.known.judge else { continue };
            let judgement = judge(placed, &part.options);
            sum.reward += self.weights.at(at) * judgement.reward;
            sum.terminated |= judgement.terminated;
        }
        sum
    }

    /// What accrued until the next decision is worth.
    pub fn accrual(&mut self, since: &Readings) -> f64 {
        let mut sum = 0.0;
        for (at, part) in self.terms.iter_mut().enumerate() {
            let Judge::Accrual(judge) = part.known.judge else { continue };
            let worth = judge(since);
            match &mut part.multiplier {
                None => sum += self.weights.at(at) * worth,
                Some(multiplier) => {
                    // Whoever has the handle may have set another.
                    multiplier.set_weight(self.weights.at(at));
                    sum += multiplier.weight() * worth;
                    multiplier.count(-worth, since);
                    self.weights.put(at, multiplier.weight());
                }
            }
        }
        sum
    }
}
