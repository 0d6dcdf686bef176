//! Models: their cards and weights, and new ones from networks that were trained in Python.

use crate::errors;
use numpy::{PyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use plimsoll_learn::error::LearnError;
use plimsoll_learn::lifetime::{Predictor, PredictorFit};
use plimsoll_learn::model::{self, CARD_SCHEMA, Card, NetworkCard, Tensor, TrainingCard, WEIGHTS_FILE, Weights};
use plimsoll_learn::observation::View;
use plimsoll_learn::policy::Ranges;
use plimsoll_learn::spec::{self, LearnSpec};
use plimsoll_learn::{models, workshop};
use plimsoll_sim::scenario::Scenario;
use pyo3::prelude::*;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What a caller tells of a model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewModel {
    network: NetworkCard,
    description: String,
    agent: String,
    steps: u64,
    seed: u64,
    command: String,
    trust: f64,
    alone: bool,
    ranges: bool,
}

/// Arrays as weights.
pub fn tensors(arrays: &[(String, PyReadonlyArrayDyn<'_, f32>)]) -> Weights {
    let tensor = |array: &PyReadonlyArrayDyn<'_, f32>| Tensor {
        shape: array.shape().to_vec(),
        data: array.as_array().iter().copied().collect(),
    };
    arrays.iter().map(|(name, array)| (name.clone(), tensor(array))).collect()
}

/// The card of a model that was trained in environments of a scenario.
pub fn card(
    scenario: &Scenario,
    spec: &LearnSpec,
    view: &View,
    ranges: Ranges,
    predictor: Option<&(Predictor, PredictorFit)>,
    about: NewModel,
) -> Result<Card, LearnError> {
    let NewModel { network, description, agent, steps, seed, command, trust, alone, ranges: keeps } = about;
    let fit = predictor.map(|(_, fit)| ("predictor".to_owned(), serde_json::json!(fit)));
    Ok(Card {
        schema: CARD_SCHEMA.into(),
        name: String::new(),
        description: if description.is_empty() { spec.description.clone() } else { description },
        network,
        node_features: view.node_features(),
        pod_features: view.pod_features(),
        ranges: if keeps { ranges.0 } else { Vec::new() },
        base: spec.base.clone(),
        trust,
        alone,
        training: TrainingCard {
            agent,
            scenario: scenario.name.clone(),
            scenario_hash: spec::fingerprint(scenario)?,
            seed,
            windows: spec.train.window.iter().map(ToString::to_string).collect(),
            steps,
            command,
            version: env!("CARGO_PKG_VERSION").into(),
            parent: None,
        },
        figures: fit.into_iter().collect(),
    })
}

/// Stores a model, once it has been found to work.
pub fn save(folder: &Path, mut card: Card, mut weights: Weights, predictor: Option<&Predictor>) -> PyResult<()> {
    let problem = |problem: String| errors::learn(LearnError::Model { path: folder.to_owned(), problem });
    if let Some((name, tensor)) = weights.iter().find(|(_, tensor)| tensor.data.iter().any(|value| !value.is_finite()))
    {
        let value = tensor.data.iter().find(|value| !value.is_finite()).copied().unwrap_or(f32::NAN);
        return Err(problem(format!("tensor {name:?} holds {value}; the training that made it diverged")));
    }
    if let Some((at, (least, most))) =
        card.ranges.iter().enumerate().find(|(_, (least, most))| !least.is_finite() || !most.is_finite())
    {
        let name = card.node_features.iter().chain(&card.pod_features).nth(at).cloned().unwrap_or_default();
        return Err(problem(format!(
            "feature {name:?} was seen from {least} to {most}; walk through the environments first"
        )));
    }
    weights.extend(predictor.iter().flat_map(|predictor| predictor.weights()));
    card.name = models::name(folder);
    workshop::policy(&card, &weights).map_err(|error| problem(error.to_string()))?;
    models::save(folder, &card, &weights).map_err(errors::learn)
}

/// The card of the model in a folder, as JSON.
#[pyfunction]
pub fn read_card(folder: PathBuf) -> PyResult<String> {
    errors::json(&models::read_card(&folder).map_err(errors::learn)?)
}

/// A tensor by its name: its shape, and its numbers.
type Named<'py> = (String, Vec<usize>, Bound<'py, PyArray1<f32>>);

/// The weights of the model in a folder: names, shapes and numbers.
#[pyfunction]
pub fn read_weights(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<Named<'_>>> {
    let weights = model::read_weights(&folder.join(WEIGHTS_FILE)).map_err(errors::learn)?;
    Ok(weights.into_iter().map(|(name, Tensor { shape, data })| (name, shape, PyArray1::from_vec(py, data))).collect())
}

/// Whether the model in a folder can be used here; an exception says why not.
#[pyfunction]
pub fn check_model(folder: PathBuf) -> PyResult<()> {
    workshop::load(&folder).map(drop).map_err(errors::learn)
}

/// The models of a folder, as JSON.
#[pyfunction]
pub fn list_models(folder: PathBuf) -> PyResult<String> {
    let listed = models::list(&folder).map_err(errors::learn)?;
    let told: Vec<_> = listed
        .into_iter()
        .map(|found| {
            let (card, problem) = match found.card {
                Ok(card) => (Some(card), None),
                Err(error) => (None, Some(error.to_string())),
            };
            serde_json::json!({
                "name": found.name, "card": card, "problem": problem, "promotedFor": found.promoted_for,
            })
        })
        .collect();
    errors::json(&told)
}
