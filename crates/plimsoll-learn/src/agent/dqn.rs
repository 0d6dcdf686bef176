//! Deep Q-learning: a network learns what each choice is worth, from a replay of what was lived through.
//!
//! Double, dueling, over several steps and by priority, each as an option.

use super::adam::{self, Adam};
use super::replay::{Draw, Replay, Transition};
use super::rollout::{self, DiscountBy, Outcome, Rollout, random_action};
use super::schedule::Schedule;
use super::{Agent, AgentState, Report};
use crate::environment::Environment;
use crate::error::LearnError;
use crate::model::Weights;
use crate::network::{Batch, Network, NetworkSpec, Slopes};
use crate::observation::Observation;
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// The hyper-parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DqnSettings {
    /// Environment steps in all.
    pub steps: u64,
    /// Steps before the first update.
    pub learning_starts: u64,
    /// Steps from one update to the next.
    pub train_every: u64,
    /// Transitions in an update.
    pub batch: usize,
    /// Transitions that are kept.
    pub capacity: usize,
    /// The step of the optimiser.
    pub learning_rate: f64,
    /// How much the next step, or the next hour, counts beside this one.
    pub gamma: f64,
    /// Whether `gamma` is of a step or of an hour.
    pub discount_by: DiscountBy,
    /// How often a node is chosen by chance.
    pub epsilon: Schedule,
    /// Whether that also holds where training begins with a model; otherwise it explores as at the end, so that what the model knows is kept.
    pub explore_again: bool,
    /// Updates from one copy to the target network to the next.
    pub target_every: u64,
    /// How much of the network goes into the target network at a copy; 1 is all of it.
    pub target_share: f64,
    /// The longest gradient; longer ones are shortened to it.
    pub clip: f64,
    /// Whether the network chooses and the target network judges, against hoping too much.
    pub double: bool,
    /// Whether a choice's worth is that of the decision plus an advantage.
    pub dueling: bool,
    /// Steps whose rewards are added up before the network is asked for the rest.
    pub n_step: usize,
    /// The power of priorities in the replay, such as 0.6; none for even draws.
    pub priority: Option<f64>,
    /// How far the weights of what is drawn undo its priority.
    pub priority_beta: Schedule,
    /// Whether errors beyond 1 count linearly instead of squared.
    pub huber: bool,
    /// Steps from one report to the next.
    pub report_every: u64,
}

impl Default for DqnSettings {
    fn default() -> Self {
        Self {
            steps: 100_000,
            learning_starts: 1_000,
            train_every: 4,
            batch: 128,
            capacity: 50_000,
            learning_rate: 5e-4,
            gamma: 0.99,
            discount_by: DiscountBy::Step,
            epsilon: Schedule::Linear { start: 1.0, end: 0.02, fraction: 0.3 },
            explore_again: false,
            target_every: 100,
            target_share: 1.0,
            clip: 10.0,
            double: true,
            dueling: false,
            n_step: 1,
            priority: None,
            priority_beta: Schedule::Linear { start: 0.4, end: 1.0, fraction: 1.0 },
            huber: true,
            report_every: 100,
        }
    }
}

impl DqnSettings {
    /// Those of the thesis: 2,000 steps, plain Q-learning with a replay as CleanRL has it.
    pub fn thesis() -> Self {
        Self {
            steps: 2_000,
            learning_starts: 300,
            train_every: 10,
            capacity: 10_000,
            learning_rate: 2.5e-3,
            epsilon: Schedule::Linear { start: 1.0, end: 0.05, fraction: 0.3 },
            target_every: 50,
            double: false,
            huber: false,
            ..Self::default()
        }
    }

    fn check(&self) -> Result<(), LearnError> {
        let positive = [
            ("steps", self.steps as f64),
            ("train_every", self.train_every as f64),
            ("batch", self.batch as f64),
            ("capacity", self.capacity as f64),
            ("learning_rate", self.learning_rate),
            ("target_every", self.target_every as f64),
            ("target_share", self.target_share),
            ("clip", self.clip),
            ("n_step", self.n_step as f64),
            ("report_every", self.report_every as f64),
        ];
        if let Some((name, value)) = positive.iter().find(|(_, value)| !value.is_finite() || *value <= 0.0) {
            return Err(LearnError::Invalid(format!("dqn: {name} is {value}, must be above 0")));
        }
        if !(0.0..=1.0).contains(&self.gamma) || self.target_share > 1.0 {
            return Err(LearnError::Invalid("dqn: gamma and target_share must lie between 0 and 1".to_owned()));
        }
        Ok(())
    }
}

/// A step whose rewards are still being added up.
struct Pending {
    before: Arc<Observation>,
    action: usize,
    reward: f64,
    discount: f64,
    age: usize,
}

/// The agent.
pub struct Dqn {
    settings: DqnSettings,
    rollout: Rollout,
    network: Network,
    target: Network,
    adam: Adam,
    replay: Replay,
    pending: Vec<VecDeque<Pending>>,
    rng: Rng,
    seed: u64,
    updates: u64,
    /// Steps before which nothing is learned: the replay must fill up first, at the start and after a restart.
    learns_from: u64,
    /// Whether it began with a model.
    goes_on: bool,
    loss: f64,
}

impl Dqn {
    /// An agent with a fresh network.
    pub fn new(
        settings: DqnSettings,
        spec: &NetworkSpec,
        environments: Vec<Box<dyn Environment>>,
        seed: u64,
    ) -> Result<Self, LearnError> {
        settings.check()?;
        let network = Network::new(spec, seed)?;
        let rollout = Rollout::new(environments, seed)?;
        Ok(Self {
            adam: Adam::new(network.weights(), 1e-8),
            replay: Replay::new(settings.capacity, settings.priority),
            pending: (0..rollout.width()).map(|_| VecDeque::new()).collect(),
            target: Network::with_weights(spec, network.weights().clone())?,
            rng: Rng::new(seed ^ 0xd9),
            learns_from: settings.learning_starts,
            network,
            rollout,
            settings,
            seed,
            updates: 0,
            goes_on: false,
            loss: 0.0,
        })
    }

    /// Begins from weights that were learned otherwise, such as by imitation.
    pub fn start_from(&mut self, weights: Weights) -> Result<(), LearnError> {
        self.target.set_weights(weights.clone())?;
        self.network.set_weights(weights)
    }

    fn epsilon(&self) -> f64 {
        if self.goes_on && !self.settings.explore_again {
            return self.settings.epsilon.end();
        }
        self.settings.epsilon.at(self.rollout.steps, self.settings.steps)
    }

    /// A node for each decision: by chance every now and then, else the best.
    fn act(&mut self) -> Result<Vec<usize>, LearnError> {
        let epsilon = self.epsilon();
        let observations = self.rollout.observations();
        let mut actions = vec![0; observations.len()];
        let mut greedy = Vec::new();
        for (index, observation) in observations.iter().enumerate() {
            match self.rng.unit() < epsilon {
                true => actions[index] = random_action(observation, &mut self.rng),
                false => greedy.push(index),
            }
        }
        if !greedy.is_empty() {
            let batch = Batch::new(self.network.spec(), greedy.iter().map(|index| &*observations[*index]))?;
            let scores = self.network.scores(&batch)?;
            for (row, index) in greedy.into_iter().enumerate() {
                actions[index] = batch.best(&scores, row);
            }
        }
        Ok(actions)
    }

    /// Adds what a step brought to the steps before it, and keeps those that are complete.
    fn remember(&mut self, index: usize, before: Arc<Observation>, action: usize, outcome: Outcome) {
        let Outcome { step, next } = outcome;
        let pending = &mut self.pending[index];
        pending.push_back(Pending { before, action, reward: 0.0, discount: 1.0, age: 0 });
        let discount = self.settings.discount_by.discount(self.settings.gamma, &step);
        for each in pending.iter_mut() {
            each.reward += each.discount * f64::from(step.reward);
            each.discount *= discount;
            each.age += 1;
        }
        while pending.front().is_some_and(|first| step.is_last() || first.age >= self.settings.n_step) {
            let Some(Pending { before, action, reward, discount, .. }) = pending.pop_front() else { break };
            let (reward, discount) = (reward as f32, discount as f32);
            self.replay.push(Transition { before, action, reward, after: next.clone(), discount });
        }
    }

    /// What each drawn choice should be worth.
    fn targets(&self, draw: &Draw) -> Result<Vec<f32>, LearnError> {
        let drawn = draw.places.iter().map(|place| self.replay.get(*place));
        let mut targets: Vec<f32> = drawn.clone().map(|transition| transition.reward).collect();
        let going: Vec<(usize, &Transition)> =
            drawn.enumerate().filter(|(_, transition)| transition.after.is_some()).collect();
        if going.is_empty() {
            return Ok(targets);
        }
        let after = going.iter().filter_map(|(_, transition)| transition.after.as_deref());
        let batch = Batch::new(self.network.spec(), after)?;
        let worth = self.worth(&self.target, &batch)?;
        let choosers = if self.settings.double { self.network.scores(&batch)? } else { worth.clone() };
        for (row, (index, transition)) in going.into_iter().enumerate() {
            let choice = batch.best(&choosers, row);
            targets[index] += transition.discount * batch.row(&worth, row)[choice];
        }
        Ok(targets)
    }

    /// What each choice is worth to a network.
    fn worth(&self, network: &Network, batch: &Batch) -> Result<Vec<f32>, LearnError> {
        let (mut scores, values) = network.scores_and_values(batch)?;
        if self.settings.dueling {
            for (row, value) in values.iter().enumerate() {
                let shift = value - mean_advantage(batch, &scores, row);
                let scores = &mut scores[row * batch.nodes..(row + 1) * batch.nodes];
                scores.iter_mut().for_each(|score| *score += shift);
            }
        }
        Ok(scores)
    }

    fn update(&mut self) -> Result<(), LearnError> {
        let beta = self.settings.priority_beta.at(self.rollout.steps, self.settings.steps);
        let draw = self.replay.draw(self.settings.batch, beta, &mut self.rng);
        let targets = self.targets(&draw)?;
        let drawn = || draw.places.iter().map(|place| self.replay.get(*place));
        let batch = Batch::new(self.network.spec(), drawn().map(|transition| &*transition.before))?;
        let actions: Vec<usize> = drawn().map(|transition| transition.action).collect();
        let mut errors = Vec::new();
        let mut gradients = self.network.gradients(&batch, &mut |scores, values| {
            let worth = actions.iter().enumerate().map(|(row, action)| match self.settings.dueling {
                false => batch.row(scores, row)[*action],
                true => values[row] + batch.row(scores, row)[*action] - mean_advantage(&batch, scores, row),
            });
            errors = worth.zip(&targets).map(|(worth, target)| worth - target).collect();
            Ok(self.slopes(&batch, &actions, &errors, &draw.weights))
        })?;
        adam::clip(&mut gradients, self.settings.clip);
        self.adam.step(self.network.weights_mut(), &gradients, self.settings.learning_rate);
        self.replay.surprise(&draw.places, &errors);
        self.loss = errors.iter().map(|error| f64::from(error * error)).sum::<f64>() / errors.len() as f64;
        self.updates += 1;
        if self.updates.is_multiple_of(self.settings.target_every) {
            self.copy_to_target();
        }
        if !self.loss.is_finite() {
            return Err(LearnError::Invalid(format!(
                "dqn: the loss is {} after {} updates; try a smaller learning_rate or clip",
                self.loss, self.updates
            )));
        }
        Ok(())
    }

    /// The slopes of the mean loss, from how far off each chosen score is.
    fn slopes(&self, batch: &Batch, actions: &[usize], errors: &[f32], weights: &[f32]) -> Slopes {
        let limit = if self.settings.huber { 1.0 } else { f32::INFINITY };
        let mut slopes = Slopes { scores: vec![0.0; batch.size * batch.nodes], values: Vec::new() };
        for (row, (action, error)) in actions.iter().zip(errors).enumerate() {
            let slope = weights[row] * error.clamp(-limit, limit) / actions.len() as f32;
            let scores = &mut slopes.scores[row * batch.nodes..(row + 1) * batch.nodes];
            scores[*action] += slope;
            if self.settings.dueling {
                slopes.values.push(slope);
                let mask = batch.mask_row(row);
                let share = slope / mask.iter().filter(|allowed| **allowed).count().max(1) as f32;
                let allowed = scores.iter_mut().zip(mask).filter(|(_, allowed)| **allowed);
                allowed.for_each(|(score, _)| *score -= share);
            }
        }
        slopes
    }

    fn copy_to_target(&mut self) {
        let share = self.settings.target_share as f32;
        for (target, weights) in self.target.weights_mut().values_mut().zip(self.network.weights().values()) {
            for (target, weight) in target.data.iter_mut().zip(&weights.data) {
                *target += share * (weight - *target);
            }
        }
    }
}

/// The mean score of the allowed nodes of a decision.
fn mean_advantage(batch: &Batch, scores: &[f32], row: usize) -> f32 {
    let allowed = batch.row(scores, row).iter().zip(batch.mask_row(row)).filter(|(_, allowed)| **allowed);
    let (sum, count) = allowed.fold((0.0, 0), |(sum, count), (score, _)| (sum + score, count + 1));
    sum / count.max(1) as f32
}

impl Agent for Dqn {
    fn iterate(&mut self) -> Result<Report, LearnError> {
        let until = (self.rollout.steps + self.settings.report_every).min(self.settings.steps);
        while self.rollout.steps < until {
            let actions = self.act()?;
            let before = self.rollout.observations().to_vec();
            let outcomes = self.rollout.step(&actions)?;
            for (index, (before, outcome)) in before.into_iter().zip(outcomes).enumerate() {
                self.remember(index, before, actions[index], outcome);
            }
            let now = self.rollout.steps;
            if now < self.learns_from || self.replay.is_empty() {
                continue;
            }
            // Several environments step at once: as many updates are due as if they had done so one by one.
            let due = now / self.settings.train_every - (now - actions.len() as u64) / self.settings.train_every;
            for _ in 0..due {
                self.update()?;
            }
        }
        let scalars = vec![("loss", self.loss), ("epsilon", self.epsilon()), ("updates", self.updates as f64)];
        Ok(self.rollout.report(scalars, self.rollout.steps as f64 / self.settings.steps as f64))
    }

    /// The replay is not part of it: it is gathered anew after a restart, before learning goes on.
    fn state(&self) -> AgentState {
        let mut state = rollout::save(&self.network, &self.adam, &self.rollout);
        adam::put(&mut state, "target", self.target.weights());
        state.values.insert("updates".to_owned(), self.updates.into());
        state.values.insert("goes_on".to_owned(), self.goes_on.into());
        state
    }

    fn restore(&mut self, state: &AgentState) -> Result<(), LearnError> {
        self.target.set_weights(adam::take(state, "target", self.target.weights())?)?;
        self.updates = adam::number(state, "updates")?;
        self.goes_on = state.values.get("goes_on").and_then(serde_json::Value::as_bool).unwrap_or(false);
        let seed = rollout::load(state, &mut self.network, &mut self.adam, &mut self.rollout, self.seed)?;
        self.rng = Rng::new(seed ^ 0xd9);
        self.pending.iter_mut().for_each(VecDeque::clear);
        self.replay = Replay::new(self.settings.capacity, self.settings.priority);
        self.learns_from = self.rollout.steps + self.settings.learning_starts;
        Ok(())
    }

    fn begin_with(&mut self, weights: &Weights) -> Result<(), LearnError> {
        self.network.begin_with(weights)?;
        self.target.begin_with(weights)?;
        self.goes_on = true;
        Ok(())
    }

    fn weights(&self) -> Weights {
        self.network.weights().clone()
    }
}

#[cfg(test)]
mod tests;
