//! How a run is to go.

use plimsoll_core::config::Configuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How a run is to go, apart from workload, machines and world.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The seed: equal seeds give equal runs.
    pub seed: u64,
    /// The profiles, as a kube-scheduler has them.
    pub configuration: Configuration,
    /// The share of the time that is not measured.
    pub warmup: f64,
    /// When the run ends; with the last arrival if not given.
    pub horizon: Option<Duration>,
    /// How long a pod waits before it gives up; for ever if not given.
    pub max_wait: Option<Duration>,
    /// How many pods that wait a policy is shown beforehand.
    pub lookahead: usize,
    /// Whether policies are told how long pods run: knowledge that no real scheduler has.
    pub tells_lifetimes: bool,
    /// Whether a run that is stepped from outside takes the only feasible node itself: there is nothing to choose.
    pub skips_single_choices: bool,
    /// How often the course is sampled.
    pub samples: u32,
    /// What happens to machines at given times.
    pub disruptions: Vec<Disruption>,
    /// Machines that fail by chance.
    pub failures: Option<Failures>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            configuration: Configuration::default(),
            warmup: 0.1,
            horizon: None,
            max_wait: None,
            lookahead: 1,
            tells_lifetimes: false,
            skips_single_choices: true,
            samples: 400,
            disruptions: Vec::new(),
            failures: None,
        }
    }
}

/// Something that happens to machines of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disruption {
    /// When.
    pub at: Duration,
    /// The pool.
    pub pool: String,
    /// How many machines, the first of the pool that it can happen to.
    pub count: usize,
    /// What.
    pub kind: DisruptionKind,
}

/// What happens to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DisruptionKind {
    /// It fails: its pods are lost, and made anew.
    Fail,
    /// It is emptied, and takes no more pods.
    Drain,
    /// It is as before.
    Return,
    /// A further machine joins.
    Join,
}

/// Machines that fail by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    /// From a repair to the next failure of a machine, on average.
    pub every: Duration,
    /// From a failure to its repair.
    pub repair: Duration,
}
