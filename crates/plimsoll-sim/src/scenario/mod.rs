//! A scenario: one TOML file that says what is run, on which machines, in which world.
//!
//! File names in it are relative to its folder. What is not said has a default; what is not known is an error with its line.

mod build;
mod clusters;
#[cfg(test)]
mod tests;
mod values;

pub use build::{Prepared, ScenarioError, Trace};
pub use clusters::{ClusterSpec, LinkSpec};
pub use values::{Amount, Time};

use crate::error::InputError;
use crate::simulation::DisruptionKind;
use crate::workload::generate::Generator;
use crate::workload::select::Selection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// What it is called in results.
    pub name: String,
    /// The pods.
    pub workload: Source,
    /// What is taken of the workload.
    pub select: Selection,
    /// A table of measured machines (SPECpower), where pools name their machine.
    pub catalogue: Option<PathBuf>,
    /// A list of machines in the columns of Alibaba's trace: one pool for each shape, beside those below.
    pub machines: Option<PathBuf>,
    /// The machines.
    pub pool: Vec<PoolSpec>,
    /// The clusters that pools belong to and pods come from, where there are several.
    pub cluster: Vec<ClusterSpec>,
    /// The ways between clusters.
    pub link: Vec<LinkSpec>,
    /// How machines sleep.
    pub power: PowerSpec,
    /// How hot machines may get.
    pub thermal: Option<ThermalSpec>,
    /// What electricity emits.
    pub carbon: Option<CarbonSpec>,
    /// How far users and machines are.
    pub latency: Option<LatencySpec>,
    /// What pods really use.
    pub usage: Option<UsageSpec>,
    /// How the run goes.
    pub run: RunSpec,
    /// What happens to machines at given times.
    pub disruption: Vec<DisruptionSpec>,
    /// Machines that fail by chance.
    pub failures: Option<FailuresSpec>,
    /// What is learned and how it is measured; read by the learner, and of no matter for a run.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub learn: Option<toml::Table>,
    /// The folder that file names are relative to.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: "scenario".into(),
            workload: Source::default(),
            select: Selection::default(),
            catalogue: None,
            machines: None,
            pool: Vec::new(),
            cluster: Vec::new(),
            link: Vec::new(),
            power: PowerSpec::default(),
            thermal: None,
            carbon: None,
            latency: None,
            usage: None,
            run: RunSpec::default(),
            disruption: Vec::new(),
            failures: None,
            learn: None,
            folder: PathBuf::new(),
        }
    }
}

/// Where the pods come from: a file, or a generator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Source {
    /// A recorded workload.
    pub file: Option<PathBuf>,
    /// Its format, `azure`, `alibaba` or `table`; known by its heading if not given.
    pub format: Option<String>,
    /// Whether bad rows are skipped and counted.
    pub lenient: bool,
    /// A workload that is made up.
    pub generate: Option<Generator>,
    /// One pod arrives after the other at this pace, in pods a second, instead of when it did.
    pub pace: Option<f64>,
}

/// Like machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSpec {
    /// The pool's name, and the beginning of its nodes' names.
    pub name: String,
    /// How many machines there are at the start.
    pub count: usize,
    /// The machine, by words of its model in the catalogue; what is said below counts more.
    pub machine: Option<String>,
    /// CPU, in threads.
    pub cpu: Option<Amount>,
    /// Memory.
    pub memory: Option<Amount>,
    /// How many pods a machine may run; 110 if not said.
    pub pods: Option<i64>,
    /// How many GPUs a machine has.
    #[serde(default)]
    pub gpus: u32,
    /// Their model.
    #[serde(default)]
    pub gpu_model: String,
    /// Watts at idle, 10 %, 20 %, … 100 % load.
    pub watts: Option<[f64; 11]>,
    /// Watts at idle, with a straight line up to `full_watts`.
    pub idle_watts: Option<f64>,
    /// Watts at full load.
    pub full_watts: Option<f64>,
    /// What a machine costs an hour while it is awake.
    pub price: Option<f64>,
    /// What it costs an hour if preemptible; as `price` if not said.
    pub spot_price: Option<f64>,
    /// Whether machines are preemptible.
    #[serde(default)]
    pub spot: bool,
    /// The zones, machines being dealt out to them in turn.
    #[serde(default)]
    pub zones: Vec<String>,
    /// The region.
    #[serde(default)]
    pub region: String,
    /// The cluster, where there are several: one of those under `cluster` if there are any.
    #[serde(default)]
    pub cluster: String,
    /// Further labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints, as `key=value:Effect`.
    #[serde(default)]
    pub taints: Vec<String>,
    /// Bounds between which the pool grows and shrinks.
    pub scaling: Option<ScalingSpec>,
}

/// Bounds between which a pool grows and shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScalingSpec {
    /// At least so many machines.
    pub min: usize,
    /// At most so many.
    pub max: usize,
    /// From asking for a machine to its joining.
    pub boot_delay: Time,
    /// How long a machine stays empty before it is given back.
    pub idle_after: Time,
}

/// How machines sleep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PowerSpec {
    /// Whether empty machines sleep.
    pub sleep: bool,
    /// How long a machine stays awake without pods.
    pub sleep_after: Time,
    /// Watts asleep.
    pub sleep_watts: f64,
    /// From the wish to wake to the first pod that runs.
    pub boot_delay: Time,
    /// Watts while waking; as idle if not said.
    pub boot_watts: Option<f64>,
}

impl Default for PowerSpec {
    fn default() -> Self {
        let zero = Time::default();
        Self { sleep: true, sleep_after: zero, sleep_watts: 0.0, boot_delay: zero, boot_watts: None }
    }
}

/// How hot machines may get.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThermalSpec {
    /// The limit, as a share of the watts at full load.
    pub limit: f64,
    /// Whether a machine above it slows down.
    #[serde(default)]
    pub throttles: bool,
}

/// What electricity emits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CarbonSpec {
    /// By region: grams a kilowatt-hour, or a table of hours.
    pub regions: BTreeMap<String, Intensity>,
    /// Where in the tables the run starts.
    #[serde(default)]
    pub start: Time,
}

/// Grams of carbon dioxide a kilowatt-hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Intensity {
    /// Always the same.
    Constant(f64),
    /// By the hour: a table with the columns `timestamp` and `gco2_per_kwh`.
    Recorded(PathBuf),
}

/// How far users and machines are, in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LatencySpec {
    /// To users, by name of a node, zone or region: a figure, or its changes over time.
    pub to_user: BTreeMap<String, LatencyOverTime>,
    /// To users from everywhere else.
    pub elsewhere: Option<f64>,
    /// Between pods on one machine: a figure, or its changes over time.
    pub same_node: Option<LatencyOverTime>,
    /// Between machines of a zone.
    pub same_zone: Option<LatencyOverTime>,
    /// Between zones of a region.
    pub same_region: Option<LatencyOverTime>,
    /// Between regions.
    pub across: Option<LatencyOverTime>,
    /// After so long all changes come again, such as every day.
    pub repeat: Option<Time>,
}

/// Latency, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LatencyOverTime {
    /// Always the same.
    Constant(f64),
    /// It changes.
    Changing(Vec<LatencyStep>),
}

/// From this time on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyStep {
    /// The time.
    pub at: Time,
    /// Milliseconds.
    pub ms: f64,
}

/// What pods really use of their CPU request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UsageSpec {
    /// The smallest share a pod may use, where none was recorded.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// By how much the time of day moves it, as a share.
    #[serde(default)]
    pub daily_swing: f64,
    /// Whether pods on a machine that is asked for more than it has run slower.
    #[serde(default)]
    pub contention: bool,
}

/// How the run goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSpec {
    /// The policies; the first is what the others are compared with.
    pub policies: Vec<String>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The share of the time that is not measured.
    pub warmup: f64,
    /// When the run ends; with the last arrival if not said.
    pub horizon: Option<Time>,
    /// How long a pod waits before it gives up; for ever if not said.
    pub max_wait: Option<Time>,
    /// How many pods that wait a policy is shown.
    pub lookahead: usize,
    /// A `KubeSchedulerConfiguration` for the rules and the default policy.
    pub configuration: Option<PathBuf>,
}

impl Default for RunSpec {
    fn default() -> Self {
        Self {
            policies: vec!["default".into()],
            seeds: vec![1],
            warmup: 0.1,
            horizon: None,
            max_wait: None,
            lookahead: 1,
            configuration: None,
        }
    }
}

/// Something that happens to machines of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisruptionSpec {
    /// When.
    pub at: Time,
    /// The pool.
    pub pool: String,
    /// How many machines.
    #[serde(default = "one")]
    pub count: usize,
    /// What.
    pub kind: DisruptionKind,
}

fn one() -> usize {
    1
}

/// Machines that fail by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailuresSpec {
    /// From a repair to the next failure of a machine, on average.
    pub every: Time,
    /// From a failure to its repair.
    pub repair: Time,
}

impl Scenario {
    /// Reads a scenario.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let mut scenario: Self = read_toml(path)?;
        scenario.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(scenario)
    }

    /// Reads the text of a scenario; what is wrong comes with its line.
    pub fn parse(text: &str) -> Result<Self, (Option<u64>, String)> {
        parse_toml(text)
    }

    /// The files it names.
    pub fn files(&self) -> Vec<PathBuf> {
        let carbon = self.carbon.iter().flat_map(|spec| spec.regions.values());
        let recorded = carbon.filter_map(|intensity| match intensity {
            Intensity::Recorded(file) => Some(file),
            Intensity::Constant(_) => None,
        });
        let named =
            [&self.workload.file, &self.catalogue, &self.machines, &self.run.configuration].into_iter().flatten();
        named.chain(recorded).map(|file| self.folder.join(file)).collect()
    }

    /// The JSON schema of scenario files.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}

/// Reads a TOML file; what is wrong comes with its line.
pub(crate) fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, InputError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| InputError::new(path, format!("cannot be read: {error}")))?;
    parse_toml(&text).map_err(|(line, problem)| {
        let error = InputError::new(path, problem);
        if let Some(line) = line { error.at_line(line) } else { error }
    })
}

fn parse_toml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, (Option<u64>, String)> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() as u64 + 1);
        (line, error.message().to_owned())
    })
}
