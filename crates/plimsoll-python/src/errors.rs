//! What goes wrong, as Python's exceptions: a file that is not there is a `FileNotFoundError`, what was asked wrongly a `ValueError`, a simulation
//! that cannot go on a `RuntimeError`.

use plimsoll_learn::error::LearnError;
use plimsoll_sim::compare::CompareError;
use plimsoll_sim::error::InputError;
use plimsoll_sim::scenario::ScenarioError;
use pyo3::PyErr;
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyRuntimeError, PyValueError};
use std::fmt::Display;
use std::path::Path;

/// What was asked wrongly.
pub fn invalid(problem: impl Display) -> PyErr {
    PyValueError::new_err(problem.to_string())
}

/// A file that may be missing.
pub fn input(path: &Path, error: &InputError) -> PyErr {
    if path.exists() { invalid(error) } else { PyFileNotFoundError::new_err(error.to_string()) }
}

/// What the learner says.
pub fn learn(error: LearnError) -> PyErr {
    match &error {
        LearnError::File { error: cause, .. } if cause.kind() == std::io::ErrorKind::NotFound => {
            PyFileNotFoundError::new_err(error.to_string())
        }
        LearnError::File { .. } => PyOSError::new_err(error.to_string()),
        LearnError::Simulation(_) => PyRuntimeError::new_err(error.to_string()),
        LearnError::Scenario(error) => scenario(error),
        LearnError::Compare(error) => compare(error),
        _ => invalid(error),
    }
}

/// What a comparison says.
pub fn compare(error: &CompareError) -> PyErr {
    match error {
        CompareError::Scenario(error) => scenario(error),
        CompareError::Store(_) => PyOSError::new_err(error.to_string()),
        CompareError::Simulation { .. } => PyRuntimeError::new_err(error.to_string()),
        _ => invalid(error),
    }
}

/// What a scenario says.
pub fn scenario(error: &ScenarioError) -> PyErr {
    match error {
        ScenarioError::Input(error) => input(&error.file, error),
        _ => invalid(error),
    }
}

/// Something as JSON.
pub fn json(value: &impl serde::Serialize) -> Result<String, PyErr> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(format!("cannot be written as JSON: {error}")))
}
