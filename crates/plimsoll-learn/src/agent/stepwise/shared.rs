//! An environment that an agent walks through while its teacher is asked about the same decisions.

use crate::environment::{ClusterEnvironment, Environment, Step};
use crate::error::LearnError;
use crate::observation::Observation;
use std::sync::{Arc, Mutex, PoisonError};

/// An environment that others may ask, too, between two steps.
pub struct Shared {
    environment: Arc<Mutex<ClusterEnvironment>>,
    observation: Observation,
}

impl Shared {
    /// An environment to walk through, and one to ask.
    pub fn new(environment: ClusterEnvironment) -> (Self, Arc<Mutex<ClusterEnvironment>>) {
        let environment = Arc::new(Mutex::new(environment));
        (Self { environment: Arc::clone(&environment), observation: Observation::default() }, environment)
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut ClusterEnvironment) -> Result<T, LearnError>) -> Result<T, LearnError> {
        let mut environment = self.environment.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut environment)?;
        self.observation.clone_from(environment.observation());
        Ok(result)
    }
}

impl Environment for Shared {
    fn reset(&mut self, seed: u64) -> Result<(), LearnError> {
        self.with(|environment| environment.reset(seed))
    }

    fn observation(&self) -> &Observation {
        &self.observation
    }

    fn step(&mut self, action: usize) -> Result<Step, LearnError> {
        self.with(|environment| environment.step(action))
    }
}
