//! What goes wrong in learning, in words a user can act on.

use std::path::PathBuf;

/// Why something cannot be learned, loaded or measured.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// A name that is not known.
    #[error("{what} {name:?} is not known; there are {known}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A value that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// A model that cannot be used.
    #[error("model {}: {problem}", path.display())]
    Model {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it, and what differs.
        problem: String,
    },
    /// A model that may not be put to use.
    #[error("model {}: {problem}", path.display())]
    Refused {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The simulation cannot go on.
    #[error(transparent)]
    Simulation(#[from] plimsoll_sim::simulation::SimulationError),
    /// The scenario cannot be run.
    #[error(transparent)]
    Scenario(#[from] plimsoll_sim::scenario::ScenarioError),
    /// A policy cannot be measured.
    #[error(transparent)]
    Compare(#[from] plimsoll_sim::compare::CompareError),
}

impl LearnError {
    /// A name that is not among those that are known.
    pub fn unknown<'a>(what: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        Self::Unknown { what, name: name.to_owned(), known }
    }
}
