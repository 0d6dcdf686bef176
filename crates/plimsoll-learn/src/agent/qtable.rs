//! Tabular Q-learning: what each choice is worth, by state, for small clusters.
//!
//! Observations are cut into bins. States that differ by the order of nodes alone are one: rows are sorted, and actions go through the
//! permutation. Only states that were visited are kept; one that was not is left to a simple rule.

mod table;
#[cfg(test)]
mod tests;

pub use table::{QTable, TableSettings};

use super::chooser::{Chooser, by_lot};
use super::schedule::Schedule;
use super::{Agent, AgentState, Report};
use crate::environment::Environment;
use crate::error::LearnError;
use crate::model::Weights;
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Over how many of the latest episodes the mean return is taken.
const LATEST: usize = 100;

/// The hyper-parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QSettings {
    /// Environment steps in all.
    pub steps: u64,
    /// How far a worth moves towards what was seen.
    pub learning_rate: f64,
    /// How much the next step counts beside this one.
    pub gamma: f64,
    /// How often a node is chosen by chance.
    pub epsilon: Schedule,
    /// Steps from one report to the next.
    pub report_every: u64,
    /// How states are told apart.
    pub table: TableSettings,
}

impl Default for QSettings {
    fn default() -> Self {
        Self {
            steps: 50_000,
            learning_rate: 0.1,
            gamma: 0.9,
            epsilon: Schedule::Linear { start: 1.0, end: 0.02, fraction: 0.6 },
            report_every: 1_000,
            table: TableSettings::default(),
        }
    }
}

/// The agent.
pub struct QLearning {
    settings: QSettings,
    environment: Box<dyn Environment>,
    table: QTable,
    rng: Rng,
    seed: u64,
    steps: u64,
    episodes: u64,
    sum: f64,
    latest: VecDeque<f64>,
    is_begun: bool,
}

impl QLearning {
    /// An agent with an empty table, for observations with these features.
    pub fn new(
        settings: QSettings,
        node_features: &[String],
        pod_features: &[String],
        environment: Box<dyn Environment>,
        seed: u64,
    ) -> Result<Self, LearnError> {
        let numbers = [("learning_rate", settings.learning_rate), ("gamma", settings.gamma)];
        if let Some((name, value)) = numbers.iter().find(|(_, value)| !(0.0..=1.0).contains(value)) {
            return Err(LearnError::Invalid(format!("q-learning: {name} is {value}; it must be from 0 to 1")));
        }
        if settings.steps == 0 || settings.report_every == 0 {
            return Err(LearnError::Invalid("q-learning: steps and report_every must be at least 1".into()));
        }
        let table = QTable::new(settings.table.clone(), node_features, pod_features)?;
        Ok(Self {
            settings,
            environment,
            table,
            rng: Rng::new(seed),
            seed,
            steps: 0,
            episodes: 0,
            sum: 0.0,
            latest: VecDeque::new(),
            is_begun: false,
        })
    }

    /// What was learned so far.
    pub fn table(&self) -> &QTable {
        &self.table
    }

    /// The share of choices that are made by chance now.
    pub fn epsilon(&self) -> f64 {
        self.settings.epsilon.at(self.steps, self.settings.steps)
    }

    fn begin(&mut self) -> Result<(), LearnError> {
        let seed = Rng::new(self.seed.wrapping_add(self.episodes)).next_u64();
        self.environment.reset(seed)?;
        (self.sum, self.is_begun) = (0.0, true);
        Ok(())
    }

    fn learn_a_step(&mut self) -> Result<(), LearnError> {
        if !self.is_begun {
            self.begin()?;
        }
        let explores = self.rng.unit() < self.epsilon();
        let observation = self.environment.observation();
        let action = match by_lot(observation, &mut self.rng).filter(|_| explores) {
            Some(action) => action,
            None => self.table.choose(observation)?,
        };
        let at = self.table.place(observation, action);
        let step = self.environment.step(action)?;
        let next = if step.terminated { 0.0 } else { self.table.worth(self.environment.observation()) };
        let target = f64::from(step.reward) + self.settings.gamma * next;
        self.table.learn(at, target, self.settings.learning_rate);
        self.steps += 1;
        self.sum += f64::from(step.reward);
        if step.is_last() {
            self.episodes += 1;
            if self.latest.len() == LATEST {
                self.latest.pop_front();
            }
            self.latest.push_back(self.sum);
            self.begin()?;
        }
        Ok(())
    }
}

impl Agent for QLearning {
    fn iterate(&mut self) -> Result<Report, LearnError> {
        for _ in 0..self.settings.report_every.min(self.settings.steps.saturating_sub(self.steps)) {
            self.learn_a_step()?;
        }
        let count = self.latest.len() as f64;
        Ok(Report {
            steps: self.steps,
            episodes: self.episodes,
            mean_return: (count > 0.0).then(|| self.latest.iter().sum::<f64>() / count),
            scalars: vec![("epsilon", self.epsilon()), ("states", self.table.len() as f64)],
            progress: self.steps as f64 / self.settings.steps as f64,
            ..Report::default()
        })
    }

    fn state(&self) -> AgentState {
        let mut values = serde_json::Map::new();
        values.insert("steps".into(), self.steps.into());
        values.insert("episodes".into(), self.episodes.into());
        values.insert("table".into(), self.table.to_json());
        AgentState { tensors: Weights::new(), values }
    }

    /// Goes on with the table and the counters; the episode under way begins anew.
    fn restore(&mut self, state: &AgentState) -> Result<(), LearnError> {
        let number = |name: &str| {
            let value = state.values.get(name).and_then(serde_json::Value::as_u64);
            value.ok_or_else(|| LearnError::Invalid(format!("the state of a q-learning agent has no {name}")))
        };
        let (steps, episodes) = (number("steps")?, number("episodes")?);
        let table = state.values.get("table").unwrap_or(&serde_json::Value::Null);
        let table = QTable::from_json(table)?;
        self.table.ensure_like(&table)?;
        self.table = table;
        (self.steps, self.episodes, self.is_begun) = (steps, episodes, false);
        self.rng = Rng::new(self.seed ^ steps);
        self.latest.clear();
        Ok(())
    }

    fn weights(&self) -> Weights {
        self.table.to_weights()
    }
}
