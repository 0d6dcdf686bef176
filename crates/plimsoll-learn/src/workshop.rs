//! From names to things that learn and decide: the one place where a new agent or network is registered.

use crate::agent::Agent;
use crate::agent::blend::{self, Blend, BlendAgent};
use crate::agent::evolve::Evolve;
use crate::error::LearnError;
use crate::model::{self, Card, WEIGHTS_FILE, Weights};
use crate::models;
use crate::policy::{Learned, Parts};
use crate::spec::LearnSpec;
use plimsoll_core::policy::Policy;
use plimsoll_sim::scenario::Scenario;
use std::path::Path;

/// An agent, with what the model that it makes is.
pub trait Learner {
    /// The agent.
    fn agent(&mut self) -> &mut dyn Agent;

    /// The card of its model as it is now: network, features, the ranges that were seen. Name and training are filled in by the caller.
    fn card(&self) -> Card;
}

struct WithCard {
    agent: Box<dyn Agent>,
    card: Card,
}

impl Learner for WithCard {
    fn agent(&mut self) -> &mut dyn Agent {
        self.agent.as_mut()
    }

    fn card(&self) -> Card {
        self.card.clone()
    }
}

/// An agent whose model is known before it learns.
pub fn with_card(agent: impl Agent + 'static, card: Card) -> Box<dyn Learner> {
    Box::new(WithCard { agent: Box::new(agent), card })
}

/// The agent that a scenario asks for, on its training data.
pub fn learner(scenario: &Scenario, spec: &LearnSpec) -> Result<Box<dyn Learner>, LearnError> {
    match spec.agent.name.as_str() {
        "blend" => {
            let (agent, card) = BlendAgent::new(scenario, spec)?;
            Ok(with_card(agent, card))
        }
        "evolution" => Ok(Box::new(Evolve::new(scenario, spec)?)),
        other => Err(LearnError::unknown("learn.agent: agent", other, ["blend", "evolution"])),
    }
}

/// The policy of a model in a folder.
pub fn load(folder: &Path) -> Result<Box<dyn Policy>, LearnError> {
    let card = models::read_card(folder)?;
    let weights = model::read_weights(&folder.join(WEIGHTS_FILE))?;
    policy(&card, &weights).map_err(|error| LearnError::Model { path: folder.to_owned(), problem: error.to_string() })
}

/// The policy of a card and its weights.
pub fn policy(card: &Card, weights: &Weights) -> Result<Box<dyn Policy>, LearnError> {
    match card.network.kind.as_str() {
        blend::KIND => Ok(Box::new(Blend::load(card, weights)?)),
        "factored" => Ok(Box::new(Learned::new(Parts::from_card(card, weights).map_err(LearnError::Invalid)?))),
        other => Err(LearnError::unknown("network", other, [blend::KIND, "factored"])),
    }
}
