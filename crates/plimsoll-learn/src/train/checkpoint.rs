//! Checkpoints: all that an agent needs to go on, in a folder that is there whole or not at all.
//!
//! Each says what it is of. One that is cut off, of something else, or full of what is no number is refused with what differs, and the one
//! before it is used; that is why two are kept.

use crate::agent::AgentState;
use crate::error::LearnError;
use crate::model::{self, Card};
use plimsoll_sim::checksum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of checkpoints.
const SCHEMA: &str = "plimsoll.dev/checkpoint/v1";
/// The tensors in a checkpoint's folder.
const TENSORS_FILE: &str = "state.safetensors";
/// The rest, in a checkpoint's folder.
const STATE_FILE: &str = "state.json";
/// How many are kept: the last, and one to fall back to.
const KEPT: usize = 2;
const PREFIX: &str = "checkpoint-";
const PARTIAL: &str = ".partial";

/// What a checkpoint is of, as names and values: only an equal one can go on from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Identity(pub BTreeMap<String, String>);

impl Identity {
    /// That of a model to be.
    pub fn of(card: &Card) -> Self {
        let sizes = card.network.sizes.iter().map(|(name, size)| format!(" {name}={size}")).collect::<String>();
        let training = &card.training;
        let pairs = [
            ("agent", training.agent.clone()),
            ("network", format!("{}{sizes}", card.network.kind)),
            ("node features", card.node_features.join(", ")),
            ("pod features", card.pod_features.join(", ")),
            ("base", card.base.clone()),
            ("scenario", training.scenario_hash.clone()),
            ("seed", training.seed.to_string()),
        ];
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// How another one differs, in words.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let names = self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name)));
        let value =
            |of: &Self, name: &str| of.0.get(name).map_or_else(|| "not given".to_owned(), |value| format!("{value:?}"));
        names
            .filter(|name| self.0.get(*name) != other.0.get(*name))
            .map(|name| format!("{name} is {}, not {}", value(other, name), value(self, name)))
            .collect()
    }
}

/// A checkpoint that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Environment steps by then.
    pub steps: u64,
    /// What the agent needs.
    pub state: AgentState,
}

/// The last sound checkpoint, and why later ones are not used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latest {
    /// The checkpoint; none where there is none.
    pub found: Option<Found>,
    /// What is wrong with later ones.
    pub refused: Vec<String>,
}

/// The checkpoints of a training.
pub struct Checkpoints {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    schema: String,
    identity: Identity,
    steps: u64,
    tensors_checksum: String,
    values: serde_json::Map<String, serde_json::Value>,
}

impl Checkpoints {
    /// Those in a folder.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Saves a state. A state that holds what is no number is an error: training has diverged, and what was saved before is better.
    pub fn write(&self, identity: &Identity, steps: u64, state: &AgentState) -> Result<(), LearnError> {
        for (name, tensor) in &state.tensors {
            if let Some(at) = tensor.data.iter().position(|value| !value.is_finite()) {
                return Err(LearnError::Invalid(format!(
                    "training diverged by step {steps}: tensor {name:?} holds {} at {at}; what was saved before is sound, \
                     lower the learning rate to go further",
                    tensor.data[at]
                )));
            }
        }
        let there = self.list()?;
        let number = there.last().and_then(|path| number(path)).map_or(1, |number| number + 1);
        let path = self.folder.join(format!("{PREFIX}{number:06}"));
        let partial = self.folder.join(format!("{PREFIX}{number:06}{PARTIAL}"));
        let tensors = model::weights_to_bytes(&state.tensors)?;
        let stored = Stored {
            schema: SCHEMA.into(),
            identity: identity.clone(),
            steps,
            tensors_checksum: sum(&tensors),
            values: state.values.clone(),
        };
        let json = serde_json::to_vec_pretty(&stored)
            .map_err(|error| LearnError::Invalid(format!("a checkpoint cannot be written: {error}")))?;
        model::write_whole(&partial.join(TENSORS_FILE), &tensors)?;
        model::write_whole(&partial.join(STATE_FILE), &json)?;
        let failed = |path: &Path, error| LearnError::File { path: path.to_owned(), error };
        std::fs::rename(&partial, &path).map_err(|error| failed(&path, error))?;
        // The new name itself must survive a crash before older ones go.
        let folder = std::fs::File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(|error| failed(&self.folder, error))?;
        for old in there.iter().rev().skip(KEPT - 1) {
            std::fs::remove_dir_all(old).map_err(|error| failed(old, error))?;
        }
        Ok(())
    }

    /// The last sound checkpoint of what is trained. It is an error if there are checkpoints and none can be used.
    pub fn latest(&self, identity: &Identity) -> Result<Latest, LearnError> {
        let mut latest = Latest::default();
        let there = self.list()?;
        for path in there.iter().rev() {
            match read(path, identity) {
                Ok(found) => {
                    latest.found = Some(found);
                    return Ok(latest);
                }
                Err(problem) => latest.refused.push(format!("checkpoint {}: {problem}", path.display())),
            }
        }
        if there.is_empty() {
            return Ok(latest);
        }
        let problems = latest.refused.join("; ");
        Err(LearnError::Invalid(format!("{problems}; start anew with --replace instead of --resume")))
    }

    /// The checkpoints that are whole, the oldest first.
    pub fn list(&self) -> Result<Vec<PathBuf>, LearnError> {
        let failed = |error| LearnError::File { path: self.folder.clone(), error };
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            found.extend(number(&path).map(|number| (number, path)));
        }
        found.sort();
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }

    /// Removes them all, when the model is stored and nothing is left to go on from.
    pub fn clear(&self) -> Result<(), LearnError> {
        for path in self.list()? {
            std::fs::remove_dir_all(&path).map_err(|error| LearnError::File { path, error })?;
        }
        Ok(())
    }
}

fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok()
}

fn sum(bytes: &[u8]) -> String {
    format!("{:016x}", checksum::fold(checksum::START, bytes.iter().copied()))
}

fn read(path: &Path, identity: &Identity) -> Result<Found, String> {
    let (json, tensors) = (path.join(STATE_FILE), path.join(TENSORS_FILE));
    let text = std::fs::read(&json).map_err(|error| format!("{STATE_FILE} cannot be read: {error}"))?;
    let stored: Stored =
        serde_json::from_slice(&text).map_err(|error| format!("{STATE_FILE} is not whole: {error}"))?;
    if stored.schema != SCHEMA {
        return Err(format!("it is of version {:?}, not {SCHEMA:?}", stored.schema));
    }
    let differences = identity.differences(&stored.identity);
    if !differences.is_empty() {
        return Err(format!("it is of another training: {}", differences.join("; ")));
    }
    let bytes = std::fs::read(&tensors).map_err(|error| format!("{TENSORS_FILE} cannot be read: {error}"))?;
    if sum(&bytes) != stored.tensors_checksum {
        return Err(format!("{TENSORS_FILE} was cut off or changed: its checksum is not {}", stored.tensors_checksum));
    }
    let tensors = model::read_weights(&tensors).map_err(|error| error.to_string())?;
    Ok(Found { steps: stored.steps, state: AgentState { tensors, values: stored.values } })
}
