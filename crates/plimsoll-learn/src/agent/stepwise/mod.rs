//! Agents that learn step by step on the training data of a scenario: `dqn`, `ppo`, `imitation` and `qtable`.
//!
//! The environments are simulated clusters, one for each sample. What is learned decides alone; the heuristic of `learn.base` stands in
//! where the model has no answer.

mod ground;
#[cfg(feature = "burn")]
mod shared;
#[cfg(test)]
mod tests;

pub use ground::{EnvironmentSpec, Ground, check, deal, reward};

use super::data::read;
use super::qtable::{QLearning, QSettings};
use super::{Agent, AgentState, Report};
#[cfg(feature = "burn")]
use crate::environment::Environment;
use crate::error::LearnError;
use crate::lifetime::{Predictor, PredictorFit, PredictorSettings};
use crate::model::{CARD_SCHEMA, Card, NetworkCard, Tensor, TrainingCard, Weights};
use crate::observation::View;
use crate::policy::Ranges;
use crate::reward::WeightHandle;
use crate::spec::LearnSpec;
use crate::workshop::Learner;
use plimsoll_sim::scenario::Scenario;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The kind of a model that is a table.
pub const TABLE: &str = "qtable";
/// The name under which ranges are kept in a checkpoint.
const RANGES: &str = "seen.ranges";
/// The name under which the weights of constraints are kept in a checkpoint.
const WEIGHTS: &str = "reward_weights";
/// Beyond any feature, and still a number, as a checkpoint has to be.
const FAR: f32 = 1e30;

/// An agent on the training data of a scenario.
pub struct Stepwise {
    agent: Box<dyn Agent>,
    predictor: Option<Predictor>,
    seen: Vec<Arc<Mutex<Ranges>>>,
    /// The weights of what each environment rewards.
    rewarded: Vec<WeightHandle>,
    /// What was seen before a restart.
    before: Ranges,
    /// Whether a decision unlike all in training is left to the heuristic.
    keeps_ranges: bool,
    card: Card,
}

impl Stepwise {
    /// The agent that a scenario names.
    pub fn new(scenario: &Scenario, spec: &LearnSpec) -> Result<Self, LearnError> {
        match spec.agent.name.as_str() {
            TABLE => table(scenario, spec),
            #[cfg(feature = "burn")]
            _ => networks::learner(scenario, spec),
            #[cfg(not(feature = "burn"))]
            other => Err(LearnError::unknown("learn.agent: agent that learns step by step", other, [TABLE])),
        }
    }

    /// The agent that `[learn]` names, in an environment of another kind than a simulated cluster. It shows what this view does, notes what it has
    /// shown, and rewards by these weights.
    #[cfg(feature = "burn")]
    pub fn on(
        spec: &LearnSpec,
        view: View,
        environment: Box<dyn Environment>,
        seen: Arc<Mutex<Ranges>>,
        rewarded: WeightHandle,
    ) -> Result<Self, LearnError> {
        let shown = Shown { view, predictor: None, seen: vec![seen], rewarded: vec![rewarded] };
        networks::learner_on(spec, shown, vec![environment])
    }

    fn ranges(&self) -> Ranges {
        let mut all = self.before.clone();
        for seen in &self.seen {
            all.join(&seen.lock().unwrap_or_else(PoisonError::into_inner));
        }
        all
    }

    /// The weights of constraints: the mean of what they have come to in each environment.
    fn adapted(&self) -> Vec<(&'static str, f64)> {
        let mut sums: Vec<(&'static str, f64)> = Vec::new();
        for handle in &self.rewarded {
            for (at, (name, weight)) in handle.adapted().enumerate() {
                match sums.get_mut(at) {
                    Some((_, sum)) => *sum += weight,
                    None => sums.push((name, weight)),
                }
            }
        }
        sums.iter_mut().for_each(|(_, sum)| *sum /= self.rewarded.len() as f64);
        sums
    }
}

/// Takes the options of a predictor out of those of an agent.
fn predictor_settings(options: &mut toml::Table) -> Result<PredictorSettings, LearnError> {
    match options.remove("predictor") {
        None => Ok(PredictorSettings::default()),
        Some(toml::Value::Table(table)) => read("agent.predictor", &table),
        Some(other) => Err(LearnError::Invalid(format!("learn.agent.predictor: {other} is no table"))),
    }
}

/// Takes a text out of options.
#[cfg_attr(not(feature = "burn"), expect(dead_code, reason = "only networks have options of this kind"))]
fn text(options: &mut toml::Table, name: &str) -> Result<Option<String>, LearnError> {
    match options.remove(name) {
        None => Ok(None),
        Some(toml::Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(LearnError::Invalid(format!("learn.agent.{name}: {other} is no text"))),
    }
}

/// The settings of an agent: what is usual, then the scenario's options, then its steps.
fn settings<T: for<'de> Deserialize<'de>>(
    usual: toml::Table,
    options: toml::Table,
    spec: &LearnSpec,
) -> Result<T, LearnError> {
    let mut all = usual;
    all.extend(options);
    if let Some(steps) = spec.train.steps {
        all.insert("steps".into(), toml::Value::Integer(i64::try_from(steps).unwrap_or(i64::MAX)));
    }
    read("agent", &all)
}

fn table(scenario: &Scenario, spec: &LearnSpec) -> Result<Stepwise, LearnError> {
    let mut options = spec.agent.options.clone();
    let predictor = predictor_settings(&mut options)?;
    let settings: QSettings = settings(toml::Table::new(), options, spec)?;
    let mut one = spec.clone();
    // A table is learned from one walk: the samples take turns in it.
    one.environment.get_or_insert_default().insert("count".into(), toml::Value::Integer(1));
    let mut ground = Ground::new(scenario, &one, &predictor, true, None)?;
    let environment = ground.environments.pop().ok_or_else(|| LearnError::Invalid("there is no environment".into()))?;
    let sizes = BTreeMap::from([("bins".to_owned(), usize::from(settings.table.bins))]);
    let network = NetworkCard { kind: TABLE.into(), sizes };
    let (nodes, pods) = (ground.view.node_features(), ground.view.pod_features());
    let agent = QLearning::new(settings, &nodes, &pods, Box::new(environment), spec.seed)?;
    // A state that was not visited is no answer anyway.
    Ok(finish(spec, Box::new(agent), Shown::by(ground), network, false))
}

/// What environments show, and what was seen of it.
struct Shown {
    view: View,
    predictor: Option<(Predictor, PredictorFit)>,
    seen: Vec<Arc<Mutex<Ranges>>>,
    rewarded: Vec<WeightHandle>,
}

impl Shown {
    fn by(ground: Ground) -> Self {
        Self { view: ground.view, predictor: ground.predictor, seen: ground.seen, rewarded: ground.weights }
    }
}

fn finish(spec: &LearnSpec, agent: Box<dyn Agent>, shown: Shown, network: NetworkCard, keeps_ranges: bool) -> Stepwise {
    let Shown { view, predictor, seen, rewarded } = shown;
    let (predictor, fit) = predictor.unzip();
    let (node_features, pod_features) = (view.node_features(), view.pod_features());
    let before = Ranges::nothing(node_features.len() + pod_features.len());
    let card = Card {
        schema: CARD_SCHEMA.into(),
        name: String::new(),
        description: spec.description.clone(),
        network,
        node_features,
        pod_features,
        ranges: Vec::new(),
        base: spec.base.clone(),
        trust: spec.trust,
        alone: true,
        training: TrainingCard::default(),
        figures: fit.map(|fit| ("predictor".to_owned(), serde_json::json!(fit))).into_iter().collect(),
    };
    Stepwise { agent, predictor, seen, rewarded, before, keeps_ranges, card }
}

impl Learner for Stepwise {
    fn agent(&mut self) -> &mut dyn Agent {
        self
    }

    fn card(&self) -> Card {
        let ranges = if self.keeps_ranges { self.ranges().0 } else { Vec::new() };
        Card { ranges, ..self.card.clone() }
    }
}

impl Agent for Stepwise {
    fn iterate(&mut self) -> Result<Report, LearnError> {
        let report = self.agent.iterate()?;
        Ok(Report { weights: self.adapted(), ..report })
    }

    fn state(&self) -> AgentState {
        let mut state = self.agent.state();
        let data: Vec<f32> =
            self.ranges().0.iter().flat_map(|(least, most)| [least.clamp(-FAR, FAR), most.clamp(-FAR, FAR)]).collect();
        state.tensors.insert(RANGES.into(), Tensor { shape: vec![data.len() / 2, 2], data });
        let adapted: Vec<BTreeMap<_, _>> = self.rewarded.iter().map(|handle| handle.adapted().collect()).collect();
        if adapted.iter().any(|weights| !weights.is_empty()) {
            state.values.insert(WEIGHTS.into(), serde_json::json!(adapted));
        }
        state
    }

    fn restore(&mut self, state: &AgentState) -> Result<(), LearnError> {
        self.agent.restore(state)?;
        let pairs = state.tensors.get(RANGES).map(|tensor| tensor.data.chunks_exact(2)).into_iter().flatten();
        self.before.join(&Ranges(pairs.map(|pair| (pair[0], pair[1])).collect()));
        let adapted = state.values.get(WEIGHTS).and_then(serde_json::Value::as_array).into_iter().flatten();
        for (handle, weights) in self.rewarded.iter().zip(adapted) {
            for (name, weight) in weights.as_object().into_iter().flatten() {
                handle.set(name, weight.as_f64().unwrap_or(0.0))?;
            }
        }
        Ok(())
    }

    fn begin_with(&mut self, weights: &Weights) -> Result<(), LearnError> {
        self.agent.begin_with(weights)
    }

    fn weights(&self) -> Weights {
        let mut weights = self.agent.weights();
        weights.extend(self.predictor.iter().flat_map(Predictor::weights));
        weights
    }
}

/// Agents that train a network by its gradients.
#[cfg(feature = "burn")]
mod networks {
    use super::shared::Shared;
    use super::*;
    use crate::agent::dqn::{Dqn, DqnSettings};
    use crate::agent::imitation::{Expert, Imitation};
    use crate::agent::ppo::Ppo;
    use crate::environment::ClusterEnvironment;
    use crate::network::{NetworkKind, NetworkSpec};
    use crate::observation::features::{CALLS, NODE_FEATURES, STATIC_FEATURES};

    pub fn learner(scenario: &Scenario, spec: &LearnSpec) -> Result<Stepwise, LearnError> {
        let mut options = spec.agent.options.clone();
        let predictor = predictor_settings(&mut options)?;
        let name = spec.agent.name.as_str();
        let expert = match name {
            "imitation" => Some(text(&mut options, "expert")?.unwrap_or_else(|| spec.base.clone())),
            _ => None,
        };
        let usual = if name == "dqn" { preset(&mut options)? } else { toml::Table::new() };
        let mut ground = Ground::new(scenario, spec, &predictor, false, expert.as_deref())?;
        let network = network(spec, &ground.view)?;
        let environments = std::mem::take(&mut ground.environments);
        let agent: Box<dyn Agent> = match name {
            "imitation" => {
                let (environments, expert) = taught(environments);
                Box::new(Imitation::new(settings(usual, options, spec)?, &network, environments, expert, spec.seed)?)
            }
            _ => agent(spec, usual, options, &network, boxed(environments))?,
        };
        Ok(finish(spec, agent, Shown::by(ground), network.card(), true))
    }

    pub fn learner_on(
        spec: &LearnSpec,
        shown: Shown,
        environments: Vec<Box<dyn Environment>>,
    ) -> Result<Stepwise, LearnError> {
        let mut options = spec.agent.options.clone();
        let usual = if spec.agent.name == "dqn" { preset(&mut options)? } else { toml::Table::new() };
        let network = network(spec, &shown.view)?;
        let agent = agent(spec, usual, options, &network, environments)?;
        Ok(finish(spec, agent, shown, network.card(), true))
    }

    /// An agent that needs nothing but environments.
    fn agent(
        spec: &LearnSpec,
        usual: toml::Table,
        options: toml::Table,
        network: &NetworkSpec,
        environments: Vec<Box<dyn Environment>>,
    ) -> Result<Box<dyn Agent>, LearnError> {
        match spec.agent.name.as_str() {
            "dqn" => {
                let mut settings: DqnSettings = settings(usual, options, spec)?;
                // With few steps, as in a search, something is still to be learned.
                settings.learning_starts = settings.learning_starts.min(settings.steps / 4);
                Ok(Box::new(Dqn::new(settings, network, environments, spec.seed)?))
            }
            "ppo" => Ok(Box::new(Ppo::new(settings(usual, options, spec)?, network, environments, spec.seed)?)),
            other => Err(LearnError::unknown("learn.agent: agent that learns step by step", other, ["dqn", "ppo"])),
        }
    }

    /// The settings that a preset of `dqn` stands for.
    fn preset(options: &mut toml::Table) -> Result<toml::Table, LearnError> {
        match text(options, "preset")?.as_deref() {
            None => Ok(toml::Table::new()),
            Some("thesis") => toml::Table::try_from(DqnSettings::thesis())
                .map_err(|error| LearnError::Invalid(format!("learn.agent.preset: {error}"))),
            Some(other) => Err(LearnError::unknown("learn.agent.preset: preset", other, ["thesis"])),
        }
    }

    /// The network that a scenario asks for, over what is shown.
    fn network(spec: &LearnSpec, view: &View) -> Result<NetworkSpec, LearnError> {
        let name = &spec.network.name;
        let kind = NetworkKind::ALL.into_iter().find(|kind| kind.name() == name);
        let names = NetworkKind::ALL.into_iter().map(NetworkKind::name);
        let kind = kind.ok_or_else(|| LearnError::unknown("learn.network: network", name, names))?;
        let (node_width, pod_width) = (view.node_features().len(), view.pod_features().len());
        let mut network = NetworkSpec { kind, sizes: read("network", &spec.network.options)?, node_width, pod_width };
        if let (NetworkKind::Factored, View::Named { nodes, .. }) = (kind, view) {
            // What a scheduler remembers of a node may depend on nothing else.
            let remembered = nodes.iter().filter(|feature| **feature < STATIC_FEATURES).count();
            if remembered > 0 {
                network.sizes.entry("tower_inputs".into()).or_insert(remembered);
            }
        }
        let calls = view.node_features().iter().position(|name| name == NODE_FEATURES[CALLS].0);
        if let (NetworkKind::Graph, Some(at)) = (kind, calls) {
            network.sizes.entry("calls".into()).or_insert(at + 1);
        }
        Ok(network)
    }

    fn boxed(environments: Vec<ClusterEnvironment>) -> Vec<Box<dyn Environment>> {
        environments.into_iter().map(|environment| Box::new(environment) as Box<dyn Environment>).collect()
    }

    /// Environments, and an expert that asks the policy of each.
    fn taught(environments: Vec<ClusterEnvironment>) -> (Vec<Box<dyn Environment>>, Box<dyn Expert + Send>) {
        let (mut walked, mut asked) = (Vec::new(), Vec::new());
        for environment in environments {
            let (walk, ask) = Shared::new(environment);
            walked.push(Box::new(walk) as Box<dyn Environment>);
            asked.push(ask);
        }
        let expert = move |index: usize, _: &crate::observation::Observation| {
            asked[index].lock().unwrap_or_else(PoisonError::into_inner).policy_action()
        };
        (walked, Box::new(expert))
    }
}
