//! The `[learn]` section of a scenario: what is learned, on which data, and what it is measured by.
//!
//! Names are checked here, and so is that nothing is measured on what was learned from. What only an agent, a network or a reward
//! understands is passed on as it stands.

mod data;
mod overrides;
#[cfg(test)]
mod tests;
mod values;

pub use data::HeldOut;
pub use overrides::with_variables;
pub use values::{Choices, Named, Range};

use crate::error::LearnError;
use crate::policy::Base;
use plimsoll_core::policy::{self, POLICIES};
use plimsoll_sim::checksum;
use plimsoll_sim::report::catalogue::{self, Better};
use plimsoll_sim::scenario::{RunSpec, Scenario, Time};
use plimsoll_sim::workload::select::Window;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The agents, with how each learns.
pub const AGENTS: &[(&str, &str)] = &[
    ("qtable", "a table of states that were visited, for a few nodes"),
    ("dqn", "values of actions, from replayed steps"),
    ("ppo", "a policy and a value network, from fresh steps"),
    ("imitation", "does as another policy does"),
    ("evolution", "tries changed weights on whole runs, and keeps what helped"),
    ("blend", "weighs heuristics against each other, by trying weights on whole runs"),
];

/// The networks, with what each computes.
pub const NETWORKS: &[(&str, &str)] = &[
    ("factored", "a node tower that is remembered, a pooled context and a small head: what decides fastest"),
    ("deepsets", "three layers that are equivariant to the order of nodes"),
    ("attention", "multi-head attention of the pod against the nodes"),
    ("graph", "messages between nodes, zones and regions"),
];

/// What is learned, on which data, and what it is measured by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LearnSpec {
    /// What the model is for, in a sentence.
    pub description: String,
    /// The agent: its name, or a table with its name and its hyper-parameters.
    pub agent: Named,
    /// The network: its name, or a table with its name and its sizes.
    pub network: Named,
    /// What is rewarded; read by the environment.
    #[schemars(with = "Option<serde_json::Value>")]
    pub reward: Option<toml::Value>,
    /// What is observed; read by the environment.
    #[schemars(with = "Option<serde_json::Value>")]
    pub observation: Option<toml::Value>,
    /// Further settings of the environment.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub environment: Option<toml::Table>,
    /// The heuristic that the model builds on and falls back to.
    pub base: String,
    /// How much the model's own score weighs against the heuristic's.
    pub trust: f64,
    /// The seed of everything random in training.
    pub seed: u64,
    /// The measure that the model is judged by, such as `kwh` or `node-hours`.
    pub objective: String,
    /// What is better of it, where the measure does not say so itself.
    pub better: Option<Better>,
    /// What is trained on.
    pub train: TrainSpec,
    /// What is measured on.
    pub evaluate: EvaluateSpec,
    /// How often training is saved.
    pub checkpoint: CheckpointSpec,
    /// Where better hyper-parameters are looked for.
    pub tune: TuneSpec,
}

impl Default for LearnSpec {
    fn default() -> Self {
        Self {
            description: String::new(),
            agent: Named::new("dqn"),
            network: Named::new("factored"),
            reward: None,
            observation: None,
            environment: None,
            base: "best-fit".into(),
            trust: 1.0,
            seed: 1,
            objective: "kwh".into(),
            better: None,
            train: TrainSpec::default(),
            evaluate: EvaluateSpec::default(),
            checkpoint: CheckpointSpec::default(),
            tune: TuneSpec::default(),
        }
    }
}

/// What is trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrainSpec {
    /// The window of the workload; all of it if not given.
    pub window: Option<Window>,
    /// The seeds, each of which draws its own sample of owners and their lifetimes, or makes up its own workload.
    pub samples: Vec<u64>,
    /// How many environment steps; as the agent has it if not given.
    pub steps: Option<u64>,
}

impl Default for TrainSpec {
    fn default() -> Self {
        Self { window: None, samples: vec![1], steps: None }
    }
}

/// What is measured on: windows later than what was trained on, or workloads made up from other seeds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluateSpec {
    /// The windows, one by one.
    pub windows: Vec<Window>,
    /// Instead: where the first window begins.
    pub from: Option<Time>,
    /// Where the last window ends.
    pub to: Option<Time>,
    /// Into how many windows of equal length that is cut; ten if not given.
    pub count: Option<usize>,
    /// The seeds, as for training; 1001 if not given, and 1001 to 1010 where there are no windows.
    pub samples: Vec<u64>,
    /// How long before its window a run starts, so that the cluster is as full as it would be; from the start of the workload
    /// if not given. Pods that run by then are carried over.
    pub run_up: Option<Time>,
    /// The policies to beat; all there are if not given.
    pub baselines: Vec<String>,
    /// The policy from which the gap to the bound is counted; `base` if not given, best fit where that is no policy of the engine.
    pub gap_from: Option<String>,
}

/// How often training is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointSpec {
    /// After this much time, by the clock on the wall: what is lost at most when training is killed.
    pub every: Time,
}

impl Default for CheckpointSpec {
    fn default() -> Self {
        Self { every: Time(Duration::from_secs(60)) }
    }
}

/// Where better hyper-parameters are looked for, by successive halving: many are tried briefly, the best of them for longer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TuneSpec {
    /// How many configurations are tried at first.
    pub configurations: usize,
    /// How many rounds there are.
    pub rounds: usize,
    /// One in so many goes on to the next round, with as many times the steps.
    pub keep_one_in: usize,
    /// The share of the training data, at its end, that configurations are judged on; of the samples where there is no window.
    pub validation: f64,
    /// The fields of `[learn]` that are varied, such as `agent.learning_rate`: a list of values, or a range.
    pub space: BTreeMap<String, Choices>,
}

impl Default for TuneSpec {
    fn default() -> Self {
        Self { configurations: 9, rounds: 3, keep_one_in: 3, validation: 0.2, space: BTreeMap::new() }
    }
}

/// The measure that a model is judged by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// Its name in JSON.
    pub measure: String,
    /// Its name in reports.
    pub label: String,
    /// What it is counted in.
    pub unit: String,
    /// What is better: less or more.
    pub better: Better,
}

impl Objective {
    /// The measure of this name; what is better of it may be said where the measure does not say so itself.
    pub fn new(name: &str, better: Option<Better>) -> Result<Self, LearnError> {
        let Some(entry) = catalogue::entry(name) else {
            let entries = catalogue::entries();
            return Err(LearnError::unknown("learn.objective: measure", name, entries.iter().map(|entry| entry.key)));
        };
        let better = match (entry.better, better) {
            (Better::Neither, None | Some(Better::Neither)) => {
                return Err(LearnError::Invalid(format!(
                    "learn.objective: neither less nor more {} is better as such; say learn.better = \"less\" or \"more\"",
                    entry.key
                )));
            }
            (Better::Neither, Some(better)) => better,
            (own, None) => own,
            (own, Some(better)) if own == better => own,
            (_, Some(_)) => {
                let problem = format!("learn.better: the other way round is better of {}", entry.key);
                return Err(LearnError::Invalid(problem));
            }
        };
        Ok(Self { measure: entry.key.into(), label: entry.label.into(), unit: entry.unit.into(), better })
    }
}

impl LearnSpec {
    /// Reads the section of a scenario, and checks it.
    pub fn read(scenario: &Scenario) -> Result<Self, LearnError> {
        let Some(table) = &scenario.learn else {
            let problem = format!("scenario {:?} has no [learn] section; docs/training.md shows one", scenario.name);
            return Err(LearnError::Invalid(problem));
        };
        let spec: Self = table.clone().try_into().map_err(|error: toml::de::Error| {
            let text = error.to_string();
            let place = text.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
            let place = place.map_or_else(String::new, |place| format!(".{place}"));
            LearnError::Invalid(format!("learn{place}: {}", error.message()))
        })?;
        spec.check(scenario)?;
        Ok(spec)
    }

    /// The JSON schema of the section.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }

    /// The measure that the model is judged by.
    pub fn objective(&self) -> Result<Objective, LearnError> {
        Objective::new(&self.objective, self.better)
    }

    /// The policies to beat, in their order; the one that is told what no policy knows is among them where nothing else is said.
    pub fn baselines(&self) -> Vec<String> {
        if self.evaluate.baselines.is_empty() {
            return POLICIES.iter().map(|(name, _)| (*name).to_owned()).collect();
        }
        self.evaluate.baselines.clone()
    }

    /// The policy from which the gap to the bound is counted.
    pub fn gap_from(&self) -> &str {
        let base = if policy::by_name(&self.base).is_some() { &self.base } else { "best-fit" };
        self.evaluate.gap_from.as_deref().unwrap_or(base)
    }

    fn check(&self, scenario: &Scenario) -> Result<(), LearnError> {
        known("learn.agent: agent", &self.agent.name, AGENTS)?;
        known("learn.network: network", &self.network.name, NETWORKS)?;
        if Base::by_name(&self.base).is_none() {
            return Err(LearnError::unknown("learn.base: policy", &self.base, Base::names()));
        }
        let policies = self.evaluate.gap_from.iter().map(|name| ("learn.evaluate.gap_from: policy", name));
        let baselines = self.evaluate.baselines.iter().map(|name| ("learn.evaluate.baselines: policy", name));
        for (place, name) in policies.chain(baselines) {
            if policy::by_name(name).is_none() {
                return Err(LearnError::unknown(place, name, POLICIES.iter().map(|(name, _)| *name)));
            }
        }
        if !(self.trust.is_finite() && self.trust >= 0.0) {
            return Err(LearnError::Invalid(format!(
                "learn.trust: {} is no weight; zero or more is right",
                self.trust
            )));
        }
        let within = self.tune.validation > 0.0 && self.tune.validation < 1.0;
        if !within {
            let problem =
                format!("learn.tune.validation: {} is no share; between 0 and 1 is right", self.tune.validation);
            return Err(LearnError::Invalid(problem));
        }
        self.objective()?;
        self.check_data(scenario)
    }
}

fn known(place: &'static str, name: &str, names: &[(&str, &str)]) -> Result<(), LearnError> {
    if names.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    Err(LearnError::unknown(place, name, names.iter().map(|(name, _)| *name)))
}

/// A hash of all that training depends on: the scenario, and the files it names. Where it is measured, saved and tuned is no part of it,
/// nor are seed and steps, which a command may set.
pub fn fingerprint(scenario: &Scenario) -> Result<String, LearnError> {
    let mut plain = Scenario { run: RunSpec { policies: Vec::new(), ..scenario.run.clone() }, ..scenario.clone() };
    if let Some(learn) = &mut plain.learn {
        for name in ["evaluate", "checkpoint", "tune", "description", "seed"] {
            learn.remove(name);
        }
        if let Some(train) = learn.get_mut("train").and_then(toml::Value::as_table_mut) {
            train.remove("steps");
        }
        if learn.get("train").and_then(toml::Value::as_table).is_some_and(toml::Table::is_empty) {
            learn.remove("train");
        }
    }
    let text = serde_json::to_string(&plain)
        .map_err(|error| LearnError::Invalid(format!("scenario {:?} cannot be hashed: {error}", scenario.name)))?;
    let mut hash = checksum::fold(checksum::START, text.bytes());
    for path in scenario.files() {
        let bytes = std::fs::read(&path).map_err(|error| LearnError::File { path: path.clone(), error })?;
        hash = checksum::fold(hash, bytes);
    }
    Ok(format!("{hash:016x}"))
}
