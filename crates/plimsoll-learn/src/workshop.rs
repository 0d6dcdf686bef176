//! From names to things that learn and decide: the one place where a new agent or network is registered.

use crate::agent::Agent;
use crate::agent::blend::{self, Blend, BlendAgent};
use crate::agent::evolve::{self, Evolve};
use crate::agent::qtable::QTable;
use crate::agent::stepwise::{self, Stepwise};
use crate::error::LearnError;
use crate::model::{self, Card, ONNX, WEIGHTS_FILE, Weights};
use crate::models;
use crate::observation::features::{STATIC_FEATURES, node_feature};
use crate::policy::{Learned, Observing, Parts, fused};
use crate::reward::{RewardSpec, Rewards};
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

/// The agents that can be trained.
#[cfg(feature = "burn")]
const AGENTS: &[&str] = &["blend", "evolution", "dqn", "ppo", "imitation", "qtable"];
/// The agents that can be trained without burn.
#[cfg(not(feature = "burn"))]
const AGENTS: &[&str] = &["blend", "evolution", "qtable"];

/// The agent that a scenario asks for, on its training data.
pub fn learner(scenario: &Scenario, spec: &LearnSpec) -> Result<Box<dyn Learner>, LearnError> {
    match spec.agent.name.as_str() {
        "blend" => {
            let (agent, card) = BlendAgent::new(scenario, spec)?;
            Ok(with_card(agent, card))
        }
        "evolution" => Ok(Box::new(Evolve::new(scenario, spec)?)),
        name if AGENTS.contains(&name) => Ok(Box::new(Stepwise::new(scenario, spec)?)),
        other => Err(LearnError::unknown("learn.agent: agent", other, AGENTS.iter().copied())),
    }
}

/// Whether a `[learn]` section can be trained by, as far as can be said without its data: what is rewarded and what is shown.
pub fn check(spec: &LearnSpec) -> Result<(), LearnError> {
    match spec.agent.name.as_str() {
        // It goes by the objective alone, and looks at heuristics.
        "blend" => {}
        "evolution" => drop(evolve::features(spec)?),
        _ => return stepwise::check(spec),
    }
    // Nobody looks at it here; a name that is none is wrong all the same.
    spec.reward.as_ref().map_or(Ok(()), |value| Rewards::new(&RewardSpec::from_toml(value)?).map(drop))
}

/// The policy of a model in a folder.
pub fn load(folder: &Path) -> Result<Box<dyn Policy>, LearnError> {
    load_with(folder, None)
}

/// The same, with another weight of its own score against its heuristic's than its card says, if one is given.
pub fn load_with(folder: &Path, trust: Option<f64>) -> Result<Box<dyn Policy>, LearnError> {
    let mut card = models::read_card(folder)?;
    card.trust = trust.unwrap_or(card.trust);
    let weights = model::read_weights(&folder.join(WEIGHTS_FILE))?;
    let made =
        if card.network.kind == ONNX { from_elsewhere(folder, &card, &weights) } else { policy(&card, &weights) };
    made.map_err(|error| LearnError::Model { path: folder.to_owned(), problem: error.to_string() })
}

#[cfg(feature = "onnx")]
fn from_elsewhere(folder: &Path, card: &Card, weights: &Weights) -> Result<Box<dyn Policy>, LearnError> {
    use crate::network::onnx::OnnxNetwork;
    let (nodes, pods) = (card.node_features.len(), card.pod_features.len());
    let network = OnnxNetwork::load(&folder.join(model::ONNX_FILE), nodes, pods)?;
    Ok(Box::new(Observing::new(card, weights, network)?))
}

#[cfg(not(feature = "onnx"))]
fn from_elsewhere(_: &Path, _: &Card, _: &Weights) -> Result<Box<dyn Policy>, LearnError> {
    Err(LearnError::Invalid("its network is in ONNX, and this build has no ONNX; build with --features onnx".into()))
}

/// The policy of a card and its weights.
pub fn policy(card: &Card, weights: &Weights) -> Result<Box<dyn Policy>, LearnError> {
    match card.network.kind.as_str() {
        blend::KIND => Ok(Box::new(Blend::load(card, weights)?)),
        stepwise::TABLE => {
            let bins = card.network.sizes.get("bins").copied().unwrap_or(0);
            let table = QTable::from_weights(bins, &card.node_features, &card.pod_features, weights)?;
            Ok(Box::new(Observing::new(card, weights, table)?))
        }
        "factored" if is_fused(card) => {
            Ok(Box::new(Learned::new(Parts::from_card(card, weights).map_err(LearnError::Invalid)?)))
        }
        #[cfg(feature = "burn")]
        _ => by_network(card, weights),
        #[cfg(not(feature = "burn"))]
        other => Err(LearnError::Invalid(format!(
            "its network is {other}, which this build cannot run: it was built without networks (feature burn) and runs {}, {} and small factored ones",
            blend::KIND,
            stepwise::TABLE
        ))),
    }
}

/// Whether a factored network can remember what it makes of a node: its tower reads only what changes with the node, and is small enough.
fn is_fused(card: &Card) -> bool {
    let features: Option<Vec<usize>> = card.node_features.iter().map(|name| node_feature(name)).collect();
    let Some(features) = features else { return false };
    let remembered = features.iter().filter(|feature| **feature < STATIC_FEATURES).count();
    let size = |name: &str| card.network.sizes.get(name).copied();
    let fits = |name: &str| size(name).is_none_or(|size| size <= fused::MAX_HIDDEN);
    size("tower_inputs").is_none_or(|inputs| inputs == remembered) && fits("tower") && fits("hidden")
}

#[cfg(feature = "burn")]
fn by_network(card: &Card, weights: &Weights) -> Result<Box<dyn Policy>, LearnError> {
    use crate::lifetime::Predictor;
    use crate::network::{Network, NetworkKind, NetworkSpec};
    if !NetworkKind::ALL.iter().any(|kind| kind.name() == card.network.kind) {
        let known =
            [blend::KIND, stepwise::TABLE].into_iter().chain(NetworkKind::ALL.into_iter().map(NetworkKind::name));
        return Err(LearnError::unknown("network", &card.network.kind, known));
    }
    let spec = NetworkSpec::from_card(&card.network, card.node_features.len(), card.pod_features.len())?;
    let own = weights.iter().filter(|(name, _)| !Predictor::owns(name));
    let network = Network::with_weights(&spec, own.map(|(name, tensor)| (name.clone(), tensor.clone())).collect())?;
    Ok(Box::new(Observing::new(card, weights, network)?))
}
