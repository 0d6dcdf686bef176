//! Agents: each learns a policy from environments, one file each.

pub mod adam;
pub mod blend;
pub mod chooser;
mod data;
#[cfg(feature = "burn")]
pub mod dqn;
pub mod evolution;
pub mod evolve;
#[cfg(feature = "burn")]
pub mod imitation;
#[cfg(feature = "burn")]
pub mod ppo;
pub mod qtable;
#[cfg(feature = "burn")]
pub mod replay;
#[cfg(feature = "burn")]
pub mod rollout;
pub mod schedule;
#[cfg(feature = "burn")]
pub mod softmax;
pub mod stepwise;
#[cfg(feature = "burn")]
#[cfg(test)]
mod toys;

use crate::error::LearnError;
use crate::model::Weights;

/// What an iteration of learning came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Environment steps taken since the beginning.
    pub steps: u64,
    /// Episodes that ended since the beginning.
    pub episodes: u64,
    /// The mean return of the latest episodes, if one ended.
    pub mean_return: Option<f64>,
    /// Further figures, by name: loss, epsilon, entropy.
    pub scalars: Vec<(&'static str, f64)>,
    /// The weights of constraints as they have adapted, by the name of the reward.
    pub weights: Vec<(&'static str, f64)>,
    /// The share of the work that is done, from 0 to 1; training ends at 1.
    pub progress: f64,
}

impl Report {
    /// All further figures by name, the weights of constraints as `weight/NAME`.
    pub fn figures(&self) -> impl Iterator<Item = (String, f64)> {
        let scalars = self.scalars.iter().map(|(name, value)| ((*name).to_owned(), *value));
        scalars.chain(self.weights.iter().map(|(name, weight)| (format!("weight/{name}"), *weight)))
    }
}

/// All that an agent needs to go on where it was.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentState {
    /// Weights, targets, moments of the optimiser.
    pub tensors: Weights,
    /// Counters and the like.
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// Something that learns.
pub trait Agent {
    /// Learns for a while: some steps, an update, a generation.
    fn iterate(&mut self) -> Result<Report, LearnError>;

    /// All that is needed to go on from here.
    fn state(&self) -> AgentState;

    /// Goes on from a state.
    fn restore(&mut self, state: &AgentState) -> Result<(), LearnError>;

    /// Begins with the weights of another model, of the same network and features, instead of its own. What it has no use for is passed over.
    fn begin_with(&mut self, _: &Weights) -> Result<(), LearnError> {
        Err(LearnError::Invalid("this agent begins with nothing; it cannot go on from another model".into()))
    }

    /// The weights of the policy as it is now, or the best so far: what a model is made of.
    fn weights(&self) -> Weights;

    /// The network's weights where training has got to, whether or not they are the best so far: what others can go on from.
    fn latest(&self) -> Weights {
        self.weights()
    }
}
