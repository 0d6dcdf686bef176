//! Evolution on the training data of a scenario: the predictor of lifetimes is trained first, then the network is evolved on top of it.

use super::Agent;
use super::data::{invalid, looks, read};
use super::evolution::{Crew, Evolution, EvolutionSettings, Objective, Stage};
use crate::error::LearnError;
use crate::lifetime::{PredictorFit, PredictorSettings, train};
use crate::model::{CARD_SCHEMA, Card, NetworkCard, TrainingCard, Weights};
use crate::observation::FeatureNames;
use crate::observation::features::{NODE_FEATURES, POD_FEATURES};
use crate::policy::fused::Factored;
use crate::policy::{Parts, Ranges, sizes};
use crate::spec::LearnSpec;
use crate::workshop::Learner;
use plimsoll_sim::compare::{Case, PreparedCase};
use plimsoll_sim::measures::Row;
use plimsoll_sim::report::catalogue::{self, Better, Entry};
use plimsoll_sim::scenario::Scenario;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a network is evolved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvolveSettings {
    /// The predictor of lifetimes, trained first.
    pub predictor: PredictorSettings,
    /// The search.
    pub search: EvolutionSettings,
    /// The measure that the search makes small, where the scenario's objective moves in steps too large to be searched along: a mean for a
    /// percentile, say. The objective if not given.
    pub minimise: Option<String>,
    /// Measures that must stay below a multiple of the heuristic's: `{ kwh = 1.0 }` is "at no more energy".
    pub limits: BTreeMap<String, f64>,
    /// The share of each training run, from its start, that is not measured: until then the cluster fills up. As the scenario
    /// has it if not given.
    pub warmup: Option<f64>,
}

/// Sizes of a factored network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FactoredSizes {
    /// Outputs of the towers.
    pub tower: usize,
    /// Units of the head.
    pub hidden: usize,
}

impl Default for FactoredSizes {
    fn default() -> Self {
        Self { tower: 4, hidden: 6 }
    }
}

/// An evolved network in the making.
pub struct Evolve {
    agent: Evolution,
    card: Card,
}

impl Evolve {
    /// Prepares the training data of a scenario, and trains the predictor.
    pub fn new(scenario: &Scenario, spec: &LearnSpec) -> Result<Self, LearnError> {
        Self::with_crew(scenario, spec, None)
    }

    /// The same; runs are made by somebody else, who has the [`stage`] of the same scenario.
    pub fn with_crew(scenario: &Scenario, spec: &LearnSpec, crew: Option<Box<dyn Crew>>) -> Result<Self, LearnError> {
        let Prepared { settings, stage, start, card } = Prepared::new(scenario, spec)?;
        let limits = settings.limits.values().copied().collect();
        let agent = Evolution::new(settings.search, Arc::new(stage), &start, limits, spec.seed, crew)?;
        Ok(Self { agent, card })
    }

    /// How many pods it learns from.
    pub fn pods(&self) -> usize {
        self.agent.stage().pods()
    }

    /// The best network's figure over all cases, as a share of the heuristic's.
    pub fn best_figure(&self) -> f64 {
        self.agent.best_figure()
    }
}

/// What runs on the training data of a scenario need beside their networks: the same wherever it is made.
pub fn stage(scenario: &Scenario, spec: &LearnSpec) -> Result<Stage, LearnError> {
    Ok(Prepared::new(scenario, spec)?.stage)
}

/// The places of the features that the network reads: of nodes, and of pods.
pub fn features(spec: &LearnSpec) -> Result<(Vec<usize>, Vec<usize>), LearnError> {
    let names: FeatureNames = match &spec.observation {
        Some(value) => value.clone().try_into().map_err(|error| invalid("observation", &error))?,
        None => FeatureNames::default(),
    };
    names.places()
}

struct Prepared {
    settings: EvolveSettings,
    stage: Stage,
    start: Weights,
    card: Card,
}

impl Prepared {
    fn new(scenario: &Scenario, spec: &LearnSpec) -> Result<Self, LearnError> {
        let mut settings: EvolveSettings = read("agent", &spec.agent.options)?;
        if spec.network.name != "factored" {
            return Err(LearnError::unknown(
                "learn.network: network that can be evolved",
                &spec.network.name,
                ["factored"],
            ));
        }
        let network: FactoredSizes = read("network", &spec.network.options)?;
        let (node_features, pod_features) = features(spec)?;
        let mut own = spec.training(scenario);
        own.run.warmup = settings.warmup.unwrap_or(own.run.warmup);
        let trace = own.trace(&own.fleet()?)?;
        let case = |seed: &u64| PreparedCase::new(&own, &trace, Case { window: None, seed: *seed }).map(Arc::new);
        let cases = spec.train.samples.par_iter().map(case).collect::<Result<Vec<_>, _>>()?;
        let data = looks(&own, &trace, spec)?;
        let (predictor, fit) = train(&data, &settings.predictor, spec.seed);
        let sizes = sizes(&node_features, &pod_features, network.tower, network.hidden);
        let start = Factored::fresh(&sizes, spec.seed);
        let parts = Parts {
            network: Factored::new(&sizes, &start).map_err(LearnError::Invalid)?,
            predictor,
            base: spec.base.clone(),
            trust: spec.trust,
            alone: false,
            ranges: Ranges::default(),
            node_features,
            pod_features,
        };
        if let Some(steps) = spec.train.steps {
            let a_generation = cases.len().min(settings.search.cases) * settings.search.pairs * 2;
            let pods: usize = cases.iter().map(|case| case.prepared.workload.pods.len()).sum::<usize>() / cases.len();
            settings.search.generations = (steps as usize).div_ceil((a_generation * pods).max(1));
        }
        let card = card(spec, &parts, &network, &fit);
        let stage = Stage::new(parts, start.clone(), cases, objective(spec, &settings)?)?;
        Ok(Self { settings, stage, start, card })
    }
}

impl Learner for Evolve {
    fn agent(&mut self) -> &mut dyn Agent {
        &mut self.agent
    }

    fn card(&self) -> Card {
        let mut card = self.card.clone();
        card.ranges = self.agent.ranges().0;
        card.figures.insert("training".into(), serde_json::json!({ "of_base": self.agent.best_figure() }));
        card
    }
}

/// The figures that are to be small: the scenario's objective, turned round where more is better, and what is limited.
fn objective(spec: &LearnSpec, settings: &EvolveSettings) -> Result<Objective, LearnError> {
    let objective = spec.objective()?;
    let own = settings.minimise.as_deref().unwrap_or(&objective.measure);
    let mut entries = vec![measure("learn.agent.minimise: measure", own)?];
    for name in settings.limits.keys() {
        entries.push(measure("learn.agent.limits: measure", name)?);
    }
    let more = objective.better == Better::More && settings.minimise.is_none();
    Ok(Arc::new(move |row: &Row| {
        let mut figures = catalogue::values(row, &entries).into_iter().collect::<Option<Vec<f64>>>()?;
        if more && let Some(first) = figures.first_mut() {
            *first = 1.0 / first.max(1e-9);
        }
        Some(figures)
    }))
}

fn measure(what: &'static str, name: &str) -> Result<Entry, LearnError> {
    let known = catalogue::entries();
    catalogue::entry(name).ok_or_else(|| LearnError::unknown(what, name, known.iter().map(|entry| entry.key)))
}

fn card(spec: &LearnSpec, parts: &Parts, network: &FactoredSizes, fit: &PredictorFit) -> Card {
    let sizes = [("tower".to_owned(), network.tower), ("hidden".to_owned(), network.hidden)];
    Card {
        schema: CARD_SCHEMA.into(),
        name: String::new(),
        description: spec.description.clone(),
        network: NetworkCard { kind: "factored".into(), sizes: BTreeMap::from(sizes) },
        node_features: parts.node_features.iter().map(|at| NODE_FEATURES[*at].0.to_owned()).collect(),
        pod_features: parts.pod_features.iter().map(|at| POD_FEATURES[*at].0.to_owned()).collect(),
        ranges: Vec::new(),
        base: parts.base.clone(),
        trust: parts.trust,
        alone: parts.alone,
        training: TrainingCard::default(),
        figures: BTreeMap::from([("predictor".to_owned(), serde_json::json!(fit))]),
    }
}
