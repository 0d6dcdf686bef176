//! The engine of the Python package `plimsoll`: environments whose observations lie in arrays of the caller, simulations, comparisons, evaluations,
//! bounds, workloads and models.
//!
//! It is called by the package's own Python code, which gives it whole arguments and makes objects of the JSON that it answers with; people
//! use the package (`python/plimsoll`). Long calls let other threads of Python run. What goes wrong is an exception with our message.

mod environments;
mod errors;
mod federation;
mod ground;
mod measure;
mod models;
mod names;
mod scenario;
mod traces;
mod training;

use pyo3::prelude::*;

/// The engine of Plimsoll, for the Python package of this name.
#[pymodule]
mod _engine {
    #[pymodule_export]
    use crate::environments::Environments;
    #[pymodule_export]
    use crate::federation::{Participant, save_network};
    #[pymodule_export]
    use crate::measure::{bounds, compare, evaluate, simulate};
    #[pymodule_export]
    use crate::models::{check_model, list_models, read_card, read_weights};
    #[pymodule_export]
    use crate::names::names;
    #[pymodule_export]
    use crate::scenario::Scenario;
    #[pymodule_export]
    use crate::traces::{generate_trace, read_trace};
    #[pymodule_export]
    use crate::training::{Stage, fingerprint, search, train, trial};

    /// The version of Plimsoll.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "this is what Python calls it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
