//! Proximal policy optimisation: a network learns how likely each choice should be, and what each decision is worth.
//!
//! Forbidden nodes have no probability. Advantages are taken over the whole walk (GAE), discounted by steps or by virtual time.

use super::adam::{self, Adam};
use super::rollout::{self, DiscountBy, Outcome, Rollout};
use super::softmax::Likelihoods;
use super::{Agent, AgentState, Report};
use crate::environment::Environment;
use crate::error::LearnError;
use crate::model::Weights;
use crate::network::{Batch, Network, NetworkSpec, Slopes};
use crate::observation::Observation;
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The hyper-parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PpoSettings {
    /// Environment steps in all.
    pub steps: u64,
    /// Steps in each environment before an update.
    pub length: usize,
    /// How often each walk is learned from.
    pub epochs: usize,
    /// Decisions in an update.
    pub batch: usize,
    /// The step of the optimiser at the beginning.
    pub learning_rate: f64,
    /// Whether that step shrinks to 0 towards the end.
    pub anneal: bool,
    /// How much the next step, or the next hour, counts beside this one.
    pub gamma: f64,
    /// Whether `gamma` is of a step or of an hour.
    pub discount_by: DiscountBy,
    /// How far advantages look ahead, from one step at 0 to the whole walk at 1.
    pub lambda: f64,
    /// How far the probability of a choice may move in one walk before it stops to count.
    pub clip_ratio: f64,
    /// How much being undecided is worth.
    pub entropy: f64,
    /// How much the error of values weighs.
    pub value: f64,
    /// Whether advantages are brought to mean 0 and deviation 1 in each update.
    pub normalise: bool,
    /// The longest gradient; longer ones are shortened to it.
    pub clip: f64,
    /// Stops learning from a walk when the policy moved this far from the one that walked; none to never stop.
    pub target_divergence: Option<f64>,
}

impl Default for PpoSettings {
    fn default() -> Self {
        Self {
            steps: 200_000,
            length: 128,
            epochs: 4,
            batch: 256,
            learning_rate: 2.5e-3,
            anneal: true,
            gamma: 0.99,
            discount_by: DiscountBy::Step,
            lambda: 0.95,
            clip_ratio: 0.2,
            entropy: 0.01,
            value: 0.5,
            normalise: true,
            clip: 0.5,
            target_divergence: None,
        }
    }
}

impl PpoSettings {
    fn check(&self) -> Result<(), LearnError> {
        let positive = [
            ("steps", self.steps as f64),
            ("length", self.length as f64),
            ("epochs", self.epochs as f64),
            ("batch", self.batch as f64),
            ("learning_rate", self.learning_rate),
            ("clip_ratio", self.clip_ratio),
            ("clip", self.clip),
        ];
        if let Some((name, value)) = positive.iter().find(|(_, value)| !value.is_finite() || *value <= 0.0) {
            return Err(LearnError::Invalid(format!("ppo: {name} is {value}, must be above 0")));
        }
        if !(0.0..=1.0).contains(&self.gamma) || !(0.0..=1.0).contains(&self.lambda) {
            return Err(LearnError::Invalid("ppo: gamma and lambda must lie between 0 and 1".to_owned()));
        }
        Ok(())
    }
}

/// A decision of a walk.
struct Visit {
    seen: Arc<Observation>,
    action: usize,
    /// The logarithm of how likely the action was.
    likelihood: f32,
    value: f32,
    reward: f32,
    /// How much of what follows counts; 0 where the episode ended.
    discount: f32,
    /// What follows, where the walk does not show it: the value at which the episode was cut off.
    cut: Option<f32>,
    advantage: f32,
}

/// Means over an update.
#[derive(Default, Clone, Copy)]
struct Losses {
    policy: f64,
    value: f64,
    entropy: f64,
    divergence: f64,
}

/// The agent.
pub struct Ppo {
    settings: PpoSettings,
    rollout: Rollout,
    network: Network,
    adam: Adam,
    rng: Rng,
    seed: u64,
}

impl Ppo {
    /// An agent with a fresh network.
    pub fn new(
        settings: PpoSettings,
        spec: &NetworkSpec,
        environments: Vec<Box<dyn Environment>>,
        seed: u64,
    ) -> Result<Self, LearnError> {
        settings.check()?;
        let network = Network::new(spec, seed)?;
        Ok(Self {
            adam: Adam::new(network.weights(), 1e-5),
            rollout: Rollout::new(environments, seed)?,
            rng: Rng::new(seed ^ 0x99),
            settings,
            network,
            seed,
        })
    }

    /// Begins from weights that were learned otherwise, such as by imitation.
    pub fn start_from(&mut self, weights: Weights) -> Result<(), LearnError> {
        self.network.set_weights(weights)
    }

    /// Walks through all environments by the policy; one list of visits for each.
    fn walk(&mut self) -> Result<Vec<Vec<Visit>>, LearnError> {
        let mut walks: Vec<Vec<Visit>> = (0..self.rollout.width()).map(|_| Vec::new()).collect();
        for _ in 0..self.settings.length {
            let before = self.rollout.observations().to_vec();
            let batch = Batch::new(self.network.spec(), before.iter().map(|seen| &**seen))?;
            let (scores, values) = self.network.scores_and_values(&batch)?;
            let choose = |row| {
                let likelihoods = Likelihoods::new(batch.row(&scores, row), batch.mask_row(row));
                let action = likelihoods.draw(&mut self.rng);
                (action, likelihoods.logs[action])
            };
            let choices: Vec<(usize, f32)> = (0..before.len()).map(choose).collect();
            let actions: Vec<usize> = choices.iter().map(|(action, _)| *action).collect();
            let outcomes = self.rollout.step(&actions)?;
            let cuts = self.cuts(&outcomes)?;
            let each = before.into_iter().zip(choices).zip(values).zip(outcomes).zip(cuts);
            for (walk, ((((seen, (action, likelihood)), value), outcome), cut)) in walks.iter_mut().zip(each) {
                let discount = self.settings.discount_by.discount(self.settings.gamma, &outcome.step) as f32;
                walk.push(Visit {
                    discount: if outcome.step.terminated { 0.0 } else { discount },
                    reward: outcome.step.reward,
                    advantage: 0.0,
                    seen,
                    action,
                    likelihood,
                    value,
                    cut,
                });
            }
        }
        Ok(walks)
    }

    /// The values at which episodes were cut off.
    fn cuts(&self, outcomes: &[Outcome]) -> Result<Vec<Option<f32>>, LearnError> {
        let cut = |outcome: &&Outcome| outcome.step.truncated && !outcome.step.terminated;
        let seen: Vec<&Observation> =
            outcomes.iter().filter(cut).filter_map(|outcome| outcome.next.as_deref()).collect();
        let mut values = Vec::new();
        if !seen.is_empty() {
            values = self.network.scores_and_values(&Batch::new(self.network.spec(), seen)?)?.1;
        }
        let mut values = values.into_iter();
        Ok(outcomes.iter().map(|outcome| if cut(&outcome) { values.next() } else { None }).collect())
    }

    /// How much better each choice was than expected.
    fn advantages(&self, walks: &mut [Vec<Visit>]) -> Result<(), LearnError> {
        let due = self.rollout.observations().iter().map(|seen| &**seen);
        let (_, ends) = self.network.scores_and_values(&Batch::new(self.network.spec(), due)?)?;
        for (walk, end) in walks.iter_mut().zip(ends) {
            let (mut following, mut advantage) = (end, 0.0);
            for visit in walk.iter_mut().rev() {
                if let Some(cut) = visit.cut {
                    // What comes next in the walk belongs to another episode.
                    (following, advantage) = (cut, 0.0);
                }
                let error = visit.reward + visit.discount * following - visit.value;
                advantage = error + visit.discount * self.settings.lambda as f32 * advantage;
                visit.advantage = advantage;
                following = visit.value;
            }
        }
        Ok(())
    }

    fn update(&mut self, visits: &[&Visit], rate: f64) -> Result<Losses, LearnError> {
        let batch = Batch::new(self.network.spec(), visits.iter().map(|visit| &*visit.seen))?;
        let mut advantages: Vec<f32> = visits.iter().map(|visit| visit.advantage).collect();
        if self.settings.normalise {
            normalise(&mut advantages);
        }
        let mut losses = Losses::default();
        let mut gradients = self.network.gradients(&batch, &mut |scores, values| {
            let mut slopes = Slopes::default();
            for (row, visit) in visits.iter().enumerate() {
                let likelihoods = Likelihoods::new(batch.row(scores, row), batch.mask_row(row));
                self.slopes(visit, advantages[row], &likelihoods, values[row], &mut slopes, &mut losses);
            }
            let size = batch.size as f32;
            slopes.scores.iter_mut().chain(&mut slopes.values).for_each(|slope| *slope /= size);
            Ok(slopes)
        })?;
        losses.scale(1.0 / visits.len() as f64);
        if !(losses.policy + losses.value + losses.entropy).is_finite() {
            let problem = "ppo: the loss is not a number any more; try a smaller learning_rate or clip";
            return Err(LearnError::Invalid(problem.to_owned()));
        }
        adam::clip(&mut gradients, self.settings.clip);
        self.adam.step(self.network.weights_mut(), &gradients, rate);
        Ok(losses)
    }

    /// The loss of one visit, and its slopes in the scores and the value.
    fn slopes(
        &self,
        visit: &Visit,
        advantage: f32,
        likelihoods: &Likelihoods,
        value: f32,
        slopes: &mut Slopes,
        losses: &mut Losses,
    ) {
        let Likelihoods { shares, logs } = likelihoods;
        let moved = logs[visit.action] - visit.likelihood;
        let ratio = libm::expf(moved);
        let clip = self.settings.clip_ratio as f32;
        let (free, held) = (ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage);
        // Where the held ratio counts, it is at its limit, and moving further changes nothing.
        let pull = if free <= held { -free } else { 0.0 };
        let entropy = likelihoods.entropy();
        let worth = self.settings.entropy as f32;
        slopes.scores.extend(shares.iter().zip(logs).enumerate().map(|(node, (share, log))| {
            let chosen = if node == visit.action { 1.0 } else { 0.0 };
            pull * (chosen - share) + worth * share * (log + entropy)
        }));
        let error = value - (visit.advantage + visit.value);
        slopes.values.push(self.settings.value as f32 * error);
        losses.policy -= f64::from(free.min(held));
        losses.value += f64::from(0.5 * error * error);
        losses.entropy += f64::from(entropy);
        // The estimate that is never below 0.
        losses.divergence += f64::from(ratio - 1.0 - moved);
    }
}

impl Losses {
    fn scale(&mut self, factor: f64) {
        for part in [&mut self.policy, &mut self.value, &mut self.entropy, &mut self.divergence] {
            *part *= factor;
        }
    }
}

/// Brings numbers to mean 0 and deviation 1.
fn normalise(values: &mut [f32]) {
    let count = values.len() as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let variance = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / count;
    let scale = 1.0 / (variance.sqrt() + 1e-8);
    values.iter_mut().for_each(|value| *value = ((f64::from(*value) - mean) * scale) as f32);
}

impl Agent for Ppo {
    fn iterate(&mut self) -> Result<Report, LearnError> {
        let left = 1.0 - self.rollout.steps as f64 / self.settings.steps as f64;
        let rate = self.settings.learning_rate * if self.settings.anneal { left.max(0.0) } else { 1.0 };
        let mut walks = self.walk()?;
        self.advantages(&mut walks)?;
        let visits: Vec<&Visit> = walks.iter().flatten().collect();
        let mut order: Vec<usize> = (0..visits.len()).collect();
        let mut losses = Losses::default();
        'epochs: for _ in 0..self.settings.epochs {
            (1..order.len()).rev().for_each(|index| order.swap(index, self.rng.below(index + 1)));
            for places in order.chunks(self.settings.batch) {
                let drawn: Vec<&Visit> = places.iter().map(|place| visits[*place]).collect();
                losses = self.update(&drawn, rate)?;
                if self.settings.target_divergence.is_some_and(|target| losses.divergence > target) {
                    break 'epochs;
                }
            }
        }
        let scalars = vec![
            ("policy_loss", losses.policy),
            ("value_loss", losses.value),
            ("entropy", losses.entropy),
            ("divergence", losses.divergence),
            ("learning_rate", rate),
        ];
        Ok(self.rollout.report(scalars, self.rollout.steps as f64 / self.settings.steps as f64))
    }

    fn state(&self) -> AgentState {
        rollout::save(&self.network, &self.adam, &self.rollout)
    }

    fn restore(&mut self, state: &AgentState) -> Result<(), LearnError> {
        let seed = rollout::load(state, &mut self.network, &mut self.adam, &mut self.rollout, self.seed)?;
        self.rng = Rng::new(seed ^ 0x99);
        Ok(())
    }

    fn begin_with(&mut self, weights: &Weights) -> Result<(), LearnError> {
        self.network.begin_with(weights)
    }

    fn weights(&self) -> Weights {
        self.network.weights().clone()
    }
}

#[cfg(test)]
mod tests;
