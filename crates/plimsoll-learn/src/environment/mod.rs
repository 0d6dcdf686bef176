//! A cluster as reinforcement learning sees it: reset, step, observation, reward, action mask.
//!
//! [`ClusterEnvironment`] is the whole simulator with every rule of Kubernetes; [`Arena`] knows CPU, memory and pod counts alone, and is very
//! fast; [`VectorEnvironment`] steps many at once, [`Lanes`] too, into memory of whoever asks.

pub mod arena;
pub(crate) mod cluster;
mod episodes;
mod lanes;
#[cfg(test)]
pub(crate) mod testing;
mod vector;

pub use arena::Arena;
pub use cluster::{ClusterEnvironment, ClusterSettings, MakePolicy, Shuffle};
pub use episodes::{Again, AnyOf, Episodes, OfScenario};
pub use lanes::{Block, Lanes};
pub use vector::{Padded, VectorEnvironment};

use crate::error::LearnError;
use crate::observation::Observation;

/// What a step came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Step {
    /// The reward.
    pub reward: f32,
    /// Hours of virtual time until the next decision: what is to come is discounted by them, not by steps.
    pub elapsed_hours: f32,
    /// The episode ended, by what was done or because no further decision comes: nothing of worth follows.
    pub terminated: bool,
    /// The episode was cut off: the observation is of the decision that would have followed.
    pub truncated: bool,
}

impl Step {
    /// Whether the environment has to be reset before the next step.
    pub fn is_last(&self) -> bool {
        self.terminated || self.truncated
    }
}

/// A cluster in which pods are placed one after the other. Node counts and their order may differ from one observation to the next.
pub trait Environment: Send {
    /// Begins an episode; equal seeds give equal episodes.
    fn reset(&mut self, seed: u64) -> Result<(), LearnError>;

    /// The decision that is due. At least one node is allowed.
    fn observation(&self) -> &Observation;

    /// Places the pod on the node with this number in the observation.
    fn step(&mut self, action: usize) -> Result<Step, LearnError>;
}
