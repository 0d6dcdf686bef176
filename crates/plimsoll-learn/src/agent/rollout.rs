//! Environments side by side, as agents walk through them: steps on all cores, resets by seed, returns of episodes.

use super::adam::{self, Adam};
use super::{AgentState, Report};
use crate::environment::{Environment, Step};
use crate::error::LearnError;
use crate::network::Network;
use crate::observation::Observation;
use plimsoll_core::rng::Rng;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// Over how many of the latest episodes the mean return is taken.
const LATEST: usize = 100;

/// What is to come is discounted by this.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiscountBy {
    /// By `gamma` at every step.
    #[default]
    Step,
    /// By `gamma` for every hour of virtual time.
    Hour,
}

impl DiscountBy {
    /// The discount of what follows a step that did not end the episode.
    pub fn discount(self, gamma: f64, step: &Step) -> f64 {
        match self {
            Self::Step => gamma,
            Self::Hour => libm::pow(gamma, f64::from(step.elapsed_hours)),
        }
    }
}

/// What became of an action.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The step.
    pub step: Step,
    /// What follows: the next decision, or the one at which the episode was cut off; none if it ended.
    pub next: Option<Arc<Observation>>,
}

/// Environments and where they are.
pub struct Rollout {
    environments: Vec<Box<dyn Environment>>,
    observations: Vec<Arc<Observation>>,
    returns: Vec<f64>,
    seeds: Rng,
    latest: VecDeque<f64>,
    /// Steps since the beginning.
    pub steps: u64,
    /// Episodes that ended since the beginning.
    pub episodes: u64,
}

impl Rollout {
    /// Begins an episode in each environment.
    pub fn new(environments: Vec<Box<dyn Environment>>, seed: u64) -> Result<Self, LearnError> {
        if environments.is_empty() {
            return Err(LearnError::Invalid("an agent needs at least one environment".to_owned()));
        }
        let mut rollout = Self {
            returns: vec![0.0; environments.len()],
            observations: Vec::new(),
            environments,
            seeds: Rng::new(seed),
            latest: VecDeque::new(),
            steps: 0,
            episodes: 0,
        };
        rollout.begin(seed)?;
        Ok(rollout)
    }

    /// Begins anew in each environment, with episodes that follow from the seed.
    pub fn begin(&mut self, seed: u64) -> Result<(), LearnError> {
        self.seeds = Rng::new(seed);
        self.returns.fill(0.0);
        self.observations.clear();
        for environment in &mut self.environments {
            environment.reset(self.seeds.next_u64())?;
            self.observations.push(Arc::new(environment.observation().clone()));
        }
        Ok(())
    }

    /// How many environments there are.
    pub fn width(&self) -> usize {
        self.environments.len()
    }

    /// The decisions that are due.
    pub fn observations(&self) -> &[Arc<Observation>] {
        &self.observations
    }

    /// Takes an action in each environment; those whose episode is over begin another.
    pub fn step(&mut self, actions: &[usize]) -> Result<Vec<Outcome>, LearnError> {
        // Seeds are drawn whether or not they are used, so that they do not depend on who ends first.
        let seeds: Vec<u64> = self.environments.iter().map(|_| self.seeds.next_u64()).collect();
        let one = |((environment, action), seed): ((&mut Box<dyn Environment>, &usize), u64)| {
            let step = environment.step(*action)?;
            let after = (!step.terminated).then(|| Arc::new(environment.observation().clone()));
            let due = match &after {
                Some(after) if !step.truncated => Arc::clone(after),
                _ => {
                    environment.reset(seed)?;
                    Arc::new(environment.observation().clone())
                }
            };
            Ok((Outcome { step, next: after }, due))
        };
        let results: Result<Vec<(Outcome, Arc<Observation>)>, LearnError> = match &mut self.environments[..] {
            // Waking another core would take longer than a step.
            [alone] => std::iter::once(alone).zip(actions).zip(seeds).map(one).collect(),
            environments => environments.par_iter_mut().zip(actions).zip(seeds).map(one).collect(),
        };
        let mut outcomes = Vec::with_capacity(actions.len());
        for (index, (outcome, due)) in results?.into_iter().enumerate() {
            self.observations[index] = due;
            self.returns[index] += f64::from(outcome.step.reward);
            if outcome.step.is_last() {
                self.episodes += 1;
                self.latest.push_back(std::mem::take(&mut self.returns[index]));
                if self.latest.len() > LATEST {
                    self.latest.pop_front();
                }
            }
            outcomes.push(outcome);
        }
        self.steps += actions.len() as u64;
        Ok(outcomes)
    }

    /// A report with what it knows of steps and returns.
    pub fn report(&self, scalars: Vec<(&'static str, f64)>, progress: f64) -> Report {
        let mean = self.latest.iter().sum::<f64>() / self.latest.len().max(1) as f64;
        Report {
            steps: self.steps,
            episodes: self.episodes,
            mean_return: (!self.latest.is_empty()).then_some(mean),
            scalars,
            progress: progress.min(1.0),
            ..Report::default()
        }
    }
}

/// All that an agent of one network needs to go on: its weights, its optimiser, and how far it walked.
pub fn save(network: &Network, optimiser: &Adam, rollout: &Rollout) -> AgentState {
    let mut state = AgentState::default();
    adam::put(&mut state, "network", network.weights());
    optimiser.save(&mut state);
    state.values.insert("steps".to_owned(), rollout.steps.into());
    state.values.insert("episodes".to_owned(), rollout.episodes.into());
    state
}

/// Goes on from a state, in other episodes than those at the start, yet the same at every restart from here; gives their seed.
pub fn load(
    state: &AgentState,
    network: &mut Network,
    optimiser: &mut Adam,
    rollout: &mut Rollout,
    seed: u64,
) -> Result<u64, LearnError> {
    network.set_weights(adam::take(state, "network", network.weights())?)?;
    optimiser.load(state)?;
    rollout.steps = adam::number(state, "steps")?;
    rollout.episodes = adam::number(state, "episodes")?;
    let seed = Rng::new(seed ^ rollout.steps).next_u64();
    rollout.begin(seed)?;
    Ok(seed)
}

/// A node that may be chosen, by chance; the first if none may.
pub fn random_action(observation: &Observation, rng: &mut Rng) -> usize {
    let allowed = observation.mask.iter().filter(|allowed| **allowed).count();
    let wanted = rng.below(allowed);
    let mut places = observation.mask.iter().enumerate().filter(|(_, allowed)| **allowed).map(|(place, _)| place);
    places.nth(wanted).unwrap_or(0)
}
