//! Imitation: a network learns to choose as an expert does, such as a heuristic, so that learning by reward starts from there.
//!
//! By the expert's own walk alone, a learner never sees where its own mistakes lead; with `dagger` it walks by itself more and more, and
//! the expert says at each decision what it would have done.

use super::adam::{self, Adam};
use super::rollout::{self, Rollout, random_action};
use super::schedule::Schedule;
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
pub struct ImitationSettings {
    /// Environment steps in all.
    pub steps: u64,
    /// Steps of each iteration, before its updates.
    pub steps_each: u64,
    /// Updates of each iteration.
    pub updates_each: u64,
    /// Decisions in an update.
    pub batch: usize,
    /// Decisions that are kept.
    pub capacity: usize,
    /// The step of the optimiser.
    pub learning_rate: f64,
    /// The longest gradient; longer ones are shortened to it.
    pub clip: f64,
    /// How often a node is chosen by chance while walking, so that more is seen than the straight path.
    pub explore: f64,
    /// Whether the learner walks by itself; if not, the expert walks.
    pub dagger: bool,
    /// With `dagger`, how often the expert still walks.
    pub expert_walks: Schedule,
}

impl Default for ImitationSettings {
    fn default() -> Self {
        Self {
            steps: 20_000,
            steps_each: 256,
            updates_each: 16,
            batch: 128,
            capacity: 50_000,
            learning_rate: 1e-3,
            clip: 1.0,
            explore: 0.02,
            dagger: true,
            expert_walks: Schedule::Linear { start: 1.0, end: 0.0, fraction: 0.5 },
        }
    }
}

impl ImitationSettings {
    fn check(&self) -> Result<(), LearnError> {
        let counts = [
            ("steps", self.steps),
            ("steps_each", self.steps_each),
            ("updates_each", self.updates_each),
            ("batch", self.batch as u64),
            ("capacity", self.capacity as u64),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, value)| *value == 0) {
            return Err(LearnError::Invalid(format!("imitation: {name} is 0, must be above")));
        }
        if self.learning_rate <= 0.0 || self.clip <= 0.0 {
            return Err(LearnError::Invalid("imitation: learning_rate and clip must be above 0".to_owned()));
        }
        Ok(())
    }
}

/// Someone who knows what to choose.
pub trait Expert {
    /// The node to choose for the decision that is due in the environment with this number.
    fn choose(&mut self, environment: usize, observation: &Observation) -> Result<usize, LearnError>;
}

impl<F: FnMut(usize, &Observation) -> Result<usize, LearnError>> Expert for F {
    fn choose(&mut self, environment: usize, observation: &Observation) -> Result<usize, LearnError> {
        self(environment, observation)
    }
}

/// The agent.
pub struct Imitation {
    settings: ImitationSettings,
    rollout: Rollout,
    expert: Box<dyn Expert + Send>,
    network: Network,
    adam: Adam,
    lessons: Vec<(Arc<Observation>, usize)>,
    next: usize,
    rng: Rng,
    seed: u64,
}

impl Imitation {
    /// An agent with a fresh network.
    pub fn new(
        settings: ImitationSettings,
        spec: &NetworkSpec,
        environments: Vec<Box<dyn Environment>>,
        expert: Box<dyn Expert + Send>,
        seed: u64,
    ) -> Result<Self, LearnError> {
        settings.check()?;
        let network = Network::new(spec, seed)?;
        Ok(Self {
            adam: Adam::new(network.weights(), 1e-8),
            rollout: Rollout::new(environments, seed)?,
            lessons: Vec::new(),
            next: 0,
            rng: Rng::new(seed ^ 0x1a),
            settings,
            expert,
            network,
            seed,
        })
    }

    /// Walks one step in each environment and keeps what the expert would have done; gives how many choices were the same.
    fn walk(&mut self) -> Result<usize, LearnError> {
        let observations = self.rollout.observations().to_vec();
        let batch = Batch::new(self.network.spec(), observations.iter().map(|seen| &**seen))?;
        let scores = self.network.scores(&batch)?;
        let by_expert = match self.settings.dagger {
            true => self.settings.expert_walks.at(self.rollout.steps, self.settings.steps),
            false => 1.0,
        };
        let mut same = 0;
        let mut actions = Vec::with_capacity(observations.len());
        for (index, seen) in observations.iter().enumerate() {
            let right = self.expert.choose(index, seen)?;
            let allowed = seen.mask.get(right).copied().unwrap_or(false);
            if !allowed {
                return Err(LearnError::Invalid(format!(
                    "the expert chose node {right}, which the rules do not allow"
                )));
            }
            let own = batch.best(&scores, index);
            same += usize::from(own == right);
            let walked = if self.rng.unit() < by_expert { right } else { own };
            let strays = self.rng.unit() < self.settings.explore;
            actions.push(if strays { random_action(seen, &mut self.rng) } else { walked });
            self.keep((Arc::clone(seen), right));
        }
        self.rollout.step(&actions)?;
        Ok(same)
    }

    fn keep(&mut self, lesson: (Arc<Observation>, usize)) {
        if self.lessons.len() < self.settings.capacity {
            self.lessons.push(lesson);
        } else {
            self.lessons[self.next] = lesson;
        }
        self.next = (self.next + 1) % self.settings.capacity;
    }

    /// Moves the network towards the expert's choices; gives the cross-entropy before.
    fn update(&mut self) -> Result<f64, LearnError> {
        let drawn: Vec<usize> = (0..self.settings.batch).map(|_| self.rng.below(self.lessons.len())).collect();
        let batch = Batch::new(self.network.spec(), drawn.iter().map(|place| &*self.lessons[*place].0))?;
        let right: Vec<usize> = drawn.iter().map(|place| self.lessons[*place].1).collect();
        let mut loss = 0.0;
        let mut gradients = self.network.gradients(&batch, &mut |scores, _| {
            let mut slopes = Vec::with_capacity(scores.len());
            for (row, right) in right.iter().enumerate() {
                let Likelihoods { shares, logs } = Likelihoods::new(batch.row(scores, row), batch.mask_row(row));
                loss -= f64::from(logs[*right]) / batch.size as f64;
                let wanted = |node: usize| if node == *right { 1.0 } else { 0.0 };
                let slope = |(node, share): (usize, &f32)| (share - wanted(node)) / batch.size as f32;
                slopes.extend(shares.iter().enumerate().map(slope));
            }
            Ok(Slopes { scores: slopes, values: Vec::new() })
        })?;
        adam::clip(&mut gradients, self.settings.clip);
        self.adam.step(self.network.weights_mut(), &gradients, self.settings.learning_rate);
        Ok(loss)
    }
}

impl Agent for Imitation {
    fn iterate(&mut self) -> Result<Report, LearnError> {
        let until = (self.rollout.steps + self.settings.steps_each).min(self.settings.steps);
        let (mut same, mut walked) = (0, 0);
        while self.rollout.steps < until {
            same += self.walk()?;
            walked += self.rollout.width();
        }
        let mut loss = 0.0;
        for _ in 0..self.settings.updates_each {
            loss += self.update()? / self.settings.updates_each as f64;
        }
        let agreement = same as f64 / walked.max(1) as f64;
        let progress = self.rollout.steps as f64 / self.settings.steps as f64;
        Ok(self.rollout.report(vec![("loss", loss), ("agreement", agreement)], progress))
    }

    /// What the expert said is not part of it: it is asked anew after a restart.
    fn state(&self) -> AgentState {
        rollout::save(&self.network, &self.adam, &self.rollout)
    }

    fn restore(&mut self, state: &AgentState) -> Result<(), LearnError> {
        let seed = rollout::load(state, &mut self.network, &mut self.adam, &mut self.rollout, self.seed)?;
        self.rng = Rng::new(seed ^ 0x1a);
        self.lessons.clear();
        self.next = 0;
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
mod tests {
    use super::*;
    use crate::agent::toys::{Largest, NODE_WIDTH, POD_WIDTH, share_right, train};
    use crate::network::NetworkKind;

    fn agent(kind: NetworkKind, dagger: bool, seed: u64, steps: u64) -> Imitation {
        let settings =
            ImitationSettings { steps, batch: 64, learning_rate: 5e-3, dagger, ..ImitationSettings::default() };
        let environments = (0..8).map(|_| Largest::boxed()).collect();
        let expert = |_: usize, seen: &Observation| Ok(Largest::right(seen));
        Imitation::new(settings, &NetworkSpec::new(kind, NODE_WIDTH, POD_WIDTH), environments, Box::new(expert), seed)
            .unwrap()
    }

    #[test]
    fn every_network_learns_to_choose_as_the_expert_does() {
        for kind in NetworkKind::ALL {
            let mut agent = agent(kind, kind != NetworkKind::Graph, 4, 4_000);
            let report = train(&mut agent);
            let spec = NetworkSpec::new(kind, NODE_WIDTH, POD_WIDTH);
            let share = share_right(&spec, agent.weights(), Largest::boxed(), &Largest::right);
            assert!(share > 0.95, "{kind}: {share} right, {report:?}");
        }
    }

    #[test]
    fn equal_seeds_give_equal_weights_and_a_state_goes_on() {
        let run = |seed| {
            let mut agent = agent(NetworkKind::Attention, true, seed, 1_024);
            train(&mut agent);
            agent
        };
        let (a, b) = (run(1), run(1));
        assert_eq!(a.weights(), b.weights());
        assert_ne!(a.weights(), run(2).weights());
        let mut again = agent(NetworkKind::Attention, true, 1, 2_048);
        again.restore(&a.state()).unwrap();
        assert_eq!(again.state(), a.state());
        assert_eq!(train(&mut again).steps, 2_048);
    }

    #[test]
    fn an_expert_that_breaks_the_rules_is_reported() {
        let mut agent = agent(NetworkKind::Factored, true, 1, 512);
        agent.expert = Box::new(|_: usize, seen: &Observation| Ok(seen.node_count()));
        assert!(agent.iterate().unwrap_err().to_string().contains("the expert chose node"));
    }
}
