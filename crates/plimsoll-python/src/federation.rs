//! A cluster that learns together with others: networks come and go, recordings and the predictor of lifetimes stay.

use crate::errors;
use crate::models::tensors;
use crate::scenario::Scenario;
use numpy::{PyArray1, PyReadonlyArrayDyn};
use plimsoll_learn::agent::evolve::Evolve;
use plimsoll_learn::error::LearnError;
use plimsoll_learn::lifetime::Predictor;
use plimsoll_learn::model::{CARD_SCHEMA, Card, NetworkCard, Tensor, TrainingCard};
use plimsoll_learn::models;
use plimsoll_learn::spec::LearnSpec;
use plimsoll_learn::tune;
use plimsoll_learn::workshop::Learner;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What a model whose network is shared must have in common with the others.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    network: NetworkCard,
    node_features: Vec<String>,
    pod_features: Vec<String>,
    base: String,
    trust: f64,
}

/// A cluster that takes part, with its own training data.
#[pyclass(frozen, module = "plimsoll._engine")]
pub struct Participant {
    evolve: Mutex<Evolve>,
    training: TrainingCard,
}

#[pymethods]
impl Participant {
    /// Prepares the training data of a scenario.
    #[new]
    #[pyo3(signature = (scenario, seed, command))]
    fn new(py: Python<'_>, scenario: &Scenario, seed: Option<u64>, command: String) -> PyResult<Self> {
        py.detach(|| {
            let spec = LearnSpec::read(&scenario.inner)?;
            if spec.agent.name != "evolution" {
                let problem = format!("learn.agent: {:?} shares no weights here; \"evolution\" does", spec.agent.name);
                return Err(LearnError::Invalid(problem));
            }
            // The federation says when it ends, and wants what is best by then.
            let changes = [("validate_every", 1), ("generations", i64::from(i32::MAX))];
            let changes = changes.map(|(name, value)| (format!("agent.search.{name}"), toml::Value::Integer(value)));
            let changed = tune::apply(&scenario.inner, &changes.into())?;
            let mut spec = LearnSpec::read(&changed)?;
            (spec.seed, spec.train.steps) = (seed.unwrap_or(spec.seed), None);
            let evolve = Evolve::new(&changed, &spec)?;
            let training = TrainingCard::of(&scenario.inner, &spec, command)?;
            Ok(Self { evolve: Mutex::new(evolve), training })
        })
        .map_err(errors::learn)
    }

    /// How many pods it learns from.
    #[getter]
    fn pods(&self) -> usize {
        self.with(|evolve| evolve.pods())
    }

    /// How the network does on all training cases, as a share of the heuristic's figure.
    #[getter]
    fn figure(&self) -> f64 {
        self.with(|evolve| evolve.best_figure())
    }

    /// What must be equal everywhere, as JSON.
    fn common(&self) -> PyResult<String> {
        let Card { network, node_features, pod_features, base, trust, .. } = self.with(|evolve| evolve.card());
        errors::json(&Common { network, node_features, pod_features, base, trust })
    }

    /// The network's weights where learning has got to: names, shapes and numbers. The predictor's are not among them.
    fn weights<'py>(&self, py: Python<'py>) -> Vec<(String, Vec<usize>, Bound<'py, PyArray1<f32>>)> {
        let weights = self.with(|evolve| evolve.agent().latest());
        let own = weights.into_iter().filter(|(name, _)| !Predictor::owns(name));
        own.map(|(name, Tensor { shape, data })| (name, shape, PyArray1::from_vec(py, data))).collect()
    }

    /// Goes on from these weights.
    fn begin_with(&self, py: Python<'_>, weights: Vec<(String, PyReadonlyArrayDyn<'_, f32>)>) -> PyResult<()> {
        let weights = tensors(&weights);
        py.detach(|| self.with(|evolve| evolve.agent().begin_with(&weights))).map_err(errors::learn)
    }

    /// Learns for some generations; returns the environment steps taken so far.
    fn learn(&self, py: Python<'_>, generations: usize) -> PyResult<u64> {
        let mut steps = 0;
        for _ in 0..generations {
            steps = py.detach(|| self.with(|evolve| evolve.agent().iterate())).map_err(errors::learn)?.steps;
            py.check_signals()?;
        }
        Ok(steps)
    }

    /// Stores the network as it is now, with the own predictor, as a model.
    fn save(&self, folder: PathBuf, steps: u64) -> PyResult<()> {
        self.with(|evolve| {
            let training = TrainingCard { agent: "federation".into(), steps, ..self.training.clone() };
            let card = Card { name: models::name(&folder), training, ..evolve.card() };
            models::save(&folder, &card, &evolve.agent().weights())
        })
        .map_err(errors::learn)
    }
}

impl Participant {
    fn with<T>(&self, what: impl FnOnce(&mut Evolve) -> T) -> T {
        what(&mut self.evolve.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Stores a network without a predictor: what clusters that join later begin with (`plimsoll train --from`).
#[pyfunction]
pub fn save_network(
    folder: PathBuf,
    common: &str,
    weights: Vec<(String, PyReadonlyArrayDyn<'_, f32>)>,
    description: String,
    command: String,
) -> PyResult<()> {
    let common: Common = serde_json::from_str(common).map_err(|error| errors::invalid(error.to_string()))?;
    let Common { network, node_features, pod_features, base, trust } = common;
    let training = TrainingCard {
        agent: "federation".into(),
        command,
        version: env!("CARGO_PKG_VERSION").into(),
        ..TrainingCard::default()
    };
    let card = Card {
        schema: CARD_SCHEMA.into(),
        name: models::name(&folder),
        description,
        network,
        node_features,
        pod_features,
        ranges: Vec::new(),
        base,
        trust,
        alone: false,
        training,
        figures: Default::default(),
    };
    models::save(&folder, &card, &tensors(&weights)).map_err(errors::learn)
}
