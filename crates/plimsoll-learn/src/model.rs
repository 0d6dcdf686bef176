//! A trained model on disk: a folder with `model.safetensors` and `card.json`.
//!
//! The card says what the numbers mean: which network, which features in which order, what it was trained on, what it reached. A model whose
//! weights do not fit its card is refused, with what differs.

use crate::error::LearnError;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The version of the card.
pub const CARD_SCHEMA: &str = "plimsoll.dev/model/v1";
/// The file of weights in a model's folder.
pub const WEIGHTS_FILE: &str = "model.safetensors";
/// The card in a model's folder.
pub const CARD_FILE: &str = "card.json";

/// The file of a network that was trained elsewhere, in a model's folder.
pub const ONNX_FILE: &str = "model.onnx";
/// What the card of such a model calls its network.
pub const ONNX: &str = "onnx";

/// An array of numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tensor {
    /// The length of each dimension.
    pub shape: Vec<usize>,
    /// The numbers, the last dimension running fastest.
    pub data: Vec<f32>,
}

/// Weights by name.
pub type Weights = BTreeMap<String, Tensor>;

/// What a model is, what it was made from, and what it reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// [`CARD_SCHEMA`].
    pub schema: String,
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// The network and its sizes.
    pub network: NetworkCard,
    /// The features of a node, in order.
    pub node_features: Vec<String>,
    /// The features of a pod, in order.
    pub pod_features: Vec<String>,
    /// For each feature of nodes, then of pods, the least and greatest value that training saw: beyond, the model is not trusted.
    pub ranges: Vec<(f32, f32)>,
    /// The heuristic that it builds on and falls back to.
    pub base: String,
    /// How much its own score weighs against the heuristic's.
    pub trust: f64,
    /// Whether it decides alone, the heuristic only standing in for it; if not, its score is added to the heuristic's.
    #[serde(default)]
    pub alone: bool,
    /// How it was trained.
    pub training: TrainingCard,
    /// What it reached on data that it was not trained on: name of the measure to the figures.
    #[serde(default)]
    pub figures: BTreeMap<String, serde_json::Value>,
}

/// A network and its sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkCard {
    /// `factored`, `deepsets`, `attention` or `graph`; `qtable` and `blend` are models without a network, `onnx` one from elsewhere.
    pub kind: String,
    /// Its sizes by name, such as `hidden`.
    pub sizes: BTreeMap<String, usize>,
}

/// How a model was trained.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingCard {
    /// The agent.
    pub agent: String,
    /// The scenario's name.
    pub scenario: String,
    /// A hash of the scenario's text and of the files it names.
    pub scenario_hash: String,
    /// The seed.
    pub seed: u64,
    /// The windows of data, as they stand in the scenario.
    pub windows: Vec<String>,
    /// Environment steps.
    pub steps: u64,
    /// The command that makes it anew.
    pub command: String,
    /// The version of Plimsoll.
    pub version: String,
    /// The model that it began with; none where it began with nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
}

/// The model that a training began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Its name.
    pub name: String,
    /// A checksum of its weights.
    pub fingerprint: String,
}

/// Reads weights; refuses those that are cut off, not of 32-bit floats, or not finite.
pub fn read_weights(path: &Path) -> Result<Weights, LearnError> {
    let bytes = std::fs::read(path).map_err(|error| LearnError::File { path: path.to_owned(), error })?;
    weights_from_bytes(&bytes).map_err(|problem| LearnError::Model { path: path.to_owned(), problem })
}

/// Reads weights of the bytes of a safetensors file.
pub fn weights_from_bytes(bytes: &[u8]) -> Result<Weights, String> {
    let tensors = SafeTensors::deserialize(bytes)
        .map_err(|error| format!("not a whole safetensors file ({error}); copy or train it again"))?;
    let mut weights = Weights::new();
    for (name, view) in tensors.iter() {
        if view.dtype() != Dtype::F32 {
            return Err(format!("tensor {name:?} holds {:?}, not F32", view.dtype()));
        }
        let data: Vec<f32> = view
            .data()
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        if let Some(at) = data.iter().position(|value| !value.is_finite()) {
            return Err(format!("tensor {name:?} holds {} at {at}; the training that made it diverged", data[at]));
        }
        weights.insert(name.to_owned(), Tensor { shape: view.shape().to_vec(), data });
    }
    Ok(weights)
}

/// Weights as the bytes of a safetensors file; equal weights give equal bytes.
pub fn weights_to_bytes(weights: &Weights) -> Result<Vec<u8>, LearnError> {
    let bytes: Vec<(&String, Vec<u8>, &Vec<usize>)> = weights
        .iter()
        .map(|(name, tensor)| (name, tensor.data.iter().flat_map(|value| value.to_le_bytes()).collect(), &tensor.shape))
        .collect();
    let invalid =
        |error: safetensors::SafeTensorError| LearnError::Invalid(format!("weights cannot be stored: {error}"));
    let mut views = Vec::with_capacity(bytes.len());
    for (name, data, shape) in &bytes {
        views.push((name.as_str(), TensorView::new(Dtype::F32, (*shape).clone(), data).map_err(invalid)?));
    }
    safetensors::serialize(views, None).map_err(invalid)
}

/// Writes a file so that a crash leaves the old one or the new one, never half of it.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), LearnError> {
    let failed = |error| LearnError::File { path: path.to_owned(), error };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let write = || {
        let mut file = std::fs::File::create(&partial)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()?;
        std::fs::rename(&partial, path)
    };
    write().map_err(failed)
}
