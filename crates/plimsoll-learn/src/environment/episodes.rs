//! Where episodes come from: the pods, machines and models of each, by seed.

use crate::error::LearnError;
use plimsoll_core::rng::Rng;
use plimsoll_sim::scenario::{Scenario, Trace};
use plimsoll_sim::simulation::{Inputs, Settings};
use plimsoll_sim::workload::select::Window;
use std::sync::Arc;

/// Makes episodes.
pub trait Episodes: Send {
    /// What the episode of a seed is made of; equal seeds give equal episodes.
    fn begin(&mut self, seed: u64) -> Result<Inputs<'static>, LearnError>;
}

impl<F> Episodes for F
where
    F: FnMut(u64) -> Result<Inputs<'static>, LearnError> + Send,
{
    fn begin(&mut self, seed: u64) -> Result<Inputs<'static>, LearnError> {
        self(seed)
    }
}

/// The same pods on the same machines again; what is left to chance goes by the seed.
#[derive(Clone)]
pub struct Again(pub Inputs<'static>);

impl Episodes for Again {
    fn begin(&mut self, seed: u64) -> Result<Inputs<'static>, LearnError> {
        let settings = Settings { seed, ..Settings::clone(&self.0.settings) };
        Ok(Inputs { settings: settings.into(), ..self.0.clone() })
    }
}

/// One of several runs, which the seed chooses; what else is left to chance goes by the seed, too.
#[derive(Clone)]
pub struct AnyOf(pub Vec<Inputs<'static>>);

impl Episodes for AnyOf {
    fn begin(&mut self, seed: u64) -> Result<Inputs<'static>, LearnError> {
        let chosen = self.0.get(Rng::new(seed).below(self.0.len().max(1)));
        let chosen = chosen.ok_or_else(|| LearnError::Invalid("an environment has no run to choose from".into()))?;
        Again(chosen.clone()).begin(seed)
    }
}

/// Episodes of a scenario: one of its windows, or a workload that its generator makes anew.
#[derive(Clone)]
pub struct OfScenario {
    /// The scenario.
    pub scenario: Scenario,
    /// Its recorded workload, if it has one.
    pub trace: Arc<Trace>,
    /// The windows, of which the seed chooses one; as the scenario has it if there is none.
    pub windows: Vec<Window>,
}

impl Episodes for OfScenario {
    fn begin(&mut self, seed: u64) -> Result<Inputs<'static>, LearnError> {
        let mut scenario = self.scenario.clone();
        if !self.windows.is_empty() {
            scenario.select.window = Some(self.windows[Rng::new(seed).below(self.windows.len())]);
        }
        let prepared = scenario.prepare(&self.trace, seed);
        Ok(prepared.map_err(|error| LearnError::Invalid(error.to_string()))?.into())
    }
}
