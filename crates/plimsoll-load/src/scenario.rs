//! The scenario: whom the users talk to, how many they are, and what they do. A file is TOML, a request to the service the same in JSON.
//! Unknown fields are errors.

use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a scenario cannot be used.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read the scenario {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The text is not a scenario.
    #[error("{name} is not a scenario: {why}")]
    Malformed {
        /// The file, or where else the text came from.
        name: String,
        /// What is wrong, and where.
        why: String,
    },
    /// A field has a value that cannot be.
    #[error("{field}: {why}")]
    Invalid {
        /// Which field, with the transaction and request it belongs to.
        field: String,
        /// What is wrong, and what would be right.
        why: String,
    },
}

/// Users of a service, and what they do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is called in reports.
    pub name: String,
    /// The service, as `http://host:port` or `https://host`.
    pub target: String,
    /// How many users there are; not with `stages`.
    pub users: Option<u32>,
    /// How many users start each second; all at once if not given.
    pub start_per_second: Option<f64>,
    /// How long they stay once all have started; not with `stages`.
    pub seconds: Option<u32>,
    /// How many users there are over time, in place of `users` and `seconds`.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// How long a user waits after each request.
    #[serde(default)]
    pub think: Think,
    /// How long an answer may take until its end.
    #[serde(default = "ten_seconds")]
    pub timeout_seconds: f64,
    /// The most requests a second of all users together.
    pub max_requests_per_second: Option<u32>,
    /// The seed of what users choose and how long they think.
    #[serde(default = "one")]
    pub seed: u64,
    /// Whether each user keeps the cookies it is given, and has connections of its own.
    #[serde(default)]
    pub cookies: bool,
    /// Headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What users do, one after the other, chosen by weight.
    pub transactions: Vec<Transaction>,
}

/// A part of the time: users come or go evenly until there are so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// How many there are at its end.
    pub users: u32,
    /// How long it takes.
    pub seconds: u32,
}

/// How long a user waits: evenly drawn between two times.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// The shortest.
    pub min_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
}

/// Requests that belong together.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// What it is called.
    pub name: String,
    /// How often it is chosen, beside the weights of the others.
    #[serde(default = "weight_one")]
    pub weight: u32,
    /// The pace: a user's next transaction begins at least so long after this one began.
    pub every_seconds: Option<f64>,
    /// Its requests, in order.
    pub requests: Vec<Request>,
}

/// One request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What it is called in reports, where requests of one name are taken together; `METHOD path` if not given.
    pub name: Option<String>,
    /// DELETE, GET, HEAD, PATCH, POST or PUT.
    #[serde(default = "get")]
    pub method: String,
    /// Its path below the target, with the query.
    pub path: String,
    /// Headers beside those of the scenario.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A body as it is.
    pub body: Option<String>,
    /// A body that is sent as JSON.
    pub json: Option<serde_json::Value>,
    /// The statuses that are no errors; any of 200 to 299 if not given.
    #[serde(default)]
    pub expect: Vec<u16>,
    /// How long its answer may take, in place of the scenario's.
    pub timeout_seconds: Option<f64>,
}

fn ten_seconds() -> f64 {
    10.0
}

fn one() -> u64 {
    1
}

fn weight_one() -> u32 {
    1
}

fn get() -> String {
    "GET".to_owned()
}

impl Scenario {
    /// Reads a file and checks it.
    pub fn read(file: &Path) -> Result<Self, ScenarioError> {
        let unreadable = |source| ScenarioError::Unreadable { file: file.to_owned(), source };
        Self::parse(&file.display().to_string(), &std::fs::read_to_string(file).map_err(unreadable)?)
    }

    /// Reads TOML that comes from somewhere and checks it.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let malformed = |why: String| ScenarioError::Malformed { name: name.to_owned(), why };
        let scenario: Self = toml::from_str(text).map_err(|error| malformed(error.to_string()))?;
        match scenario.check() {
            Ok(()) => Ok(scenario),
            Err(error) => Err(malformed(error.to_string())),
        }
    }

    /// Whether it can be run.
    pub fn check(&self) -> Result<(), ScenarioError> {
        Plan::of(self).map(drop)
    }
}
