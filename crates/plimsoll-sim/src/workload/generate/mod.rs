//! Workloads made up by seed: the same settings and seed give the same workload on every machine.
//!
//! One file a generator, each with its settings at the head. A scenario names one by its `kind`.

mod bursty;
mod constrained;
mod day;
mod diurnal;
mod draw;
mod gpu_sharing;
mod lifetime;
mod poisson;
mod shape;
mod shop;
mod thesis;

pub use bursty::Bursty;
pub use constrained::Constrained;
pub use day::Day;
pub use diurnal::Diurnal;
pub use gpu_sharing::GpuSharing;
pub use lifetime::LifetimeSetting;
pub use poisson::Poisson;
pub use shape::Shape;
pub use shop::Shop;
pub use thesis::{Thesis1, Thesis2};

use super::{Builder, PodRecord, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More pods than this are a slip in the settings.
const MAX_PODS: f64 = 20_000_000.0;

/// A generator with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
pub enum Generator {
    /// Pods that come independently of each other.
    #[serde(rename = "poisson")]
    Poisson(Poisson),
    /// Pods that come in batches, while the source is on.
    #[serde(rename = "bursty")]
    Bursty(Bursty),
    /// Pods that come more often by day.
    #[serde(rename = "diurnal")]
    Diurnal(Diurnal),
    /// Rounds of one-pod deployments, created one by one and deleted together.
    #[serde(rename = "thesis-1")]
    Thesis1(Thesis1),
    /// One-pod deployments, of which the oldest is deleted for each new one.
    #[serde(rename = "thesis-2")]
    Thesis2(Thesis2),
    /// An online shop of eleven services that call each other.
    #[serde(rename = "shop")]
    Shop(Shop),
    /// Pods that ask for a share of a GPU, for one, or for several.
    #[serde(rename = "gpu-sharing")]
    GpuSharing(GpuSharing),
    /// Pods with selectors, tolerations, affinity, spreading and priorities.
    #[serde(rename = "constrained")]
    Constrained(Constrained),
    /// Services that follow the hours of their users, and batch jobs by night.
    #[serde(rename = "day")]
    Day(Day),
}

/// Settings that make no workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("generator {kind}: {problem}")]
pub struct SettingsError {
    /// The generator.
    pub kind: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Generator {
    /// The generators by name, and what each makes.
    pub const KINDS: [(&str, &str); 9] = [
        ("poisson", "pods that come independently of each other"),
        ("bursty", "pods that come in batches, while the source is on"),
        ("diurnal", "pods that come more often by day"),
        ("thesis-1", "rounds of one-pod deployments, created one by one and deleted together"),
        ("thesis-2", "one-pod deployments, of which the oldest is deleted for each new one"),
        ("shop", "an online shop of eleven services that call each other"),
        ("gpu-sharing", "pods that ask for a share of a GPU, for one, or for several"),
        ("constrained", "pods with selectors, tolerations, affinity, spreading and priorities"),
        ("day", "services that follow the hours of their users, and batch jobs by night"),
    ];

    /// A generator by name with settings as they stand in a scenario, `key = value`; what is not set has its default.
    ///
    /// Keys may be dotted (`lifetime.kind`); a value that is no TOML is taken as text.
    pub fn parse<S: AsRef<str>>(kind: &str, settings: &[S]) -> Result<Self, SettingsError> {
        let bad = |problem: String| SettingsError { kind: kind.to_owned(), problem };
        if !Self::KINDS.iter().any(|(name, _)| *name == kind) {
            let known: Vec<&str> = Self::KINDS.iter().map(|(name, _)| *name).collect();
            return Err(bad(format!("there is none of this name; there are {}", known.join(", "))));
        }
        let mut table = toml::Table::new();
        for setting in settings {
            merge(&mut table, parse_setting(setting.as_ref()).map_err(bad)?);
        }
        table.insert("kind".to_owned(), kind.into());
        table.try_into().map_err(|error: toml::de::Error| bad(error.message().to_owned()))
    }

    /// What it is called.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Poisson(_) => "poisson",
            Self::Bursty(_) => "bursty",
            Self::Diurnal(_) => "diurnal",
            Self::Thesis1(_) => "thesis-1",
            Self::Thesis2(_) => "thesis-2",
            Self::Shop(_) => "shop",
            Self::GpuSharing(_) => "gpu-sharing",
            Self::Constrained(_) => "constrained",
            Self::Day(_) => "day",
        }
    }

    /// Makes the workload.
    pub fn generate(&self, seed: u64) -> Result<Workload, SettingsError> {
        let made = match self {
            Self::Poisson(settings) => settings.generate(seed),
            Self::Bursty(settings) => settings.generate(seed),
            Self::Diurnal(settings) => settings.generate(seed),
            Self::Thesis1(settings) => settings.generate(),
            Self::Thesis2(settings) => settings.generate(),
            Self::Shop(settings) => settings.generate(seed),
            Self::GpuSharing(settings) => settings.generate(seed),
            Self::Constrained(settings) => settings.generate(seed),
            Self::Day(settings) => settings.generate(seed),
        };
        let mut workload = made.map_err(|problem| SettingsError { kind: self.kind().to_owned(), problem })?;
        workload.name = self.kind().to_owned();
        Ok(workload)
    }
}

/// `key=value` as a table; where the value is no TOML, as text.
fn parse_setting(setting: &str) -> Result<toml::Table, String> {
    let Some((key, value)) = setting.split_once('=') else {
        return Err(format!("{setting:?} is no setting; KEY=VALUE is one"));
    };
    // A line break in a setting would begin another one.
    let text = toml::Value::String(value.trim().to_owned()).to_string();
    let as_it_stands = if setting.contains('\n') { None } else { format!("{key} = {value}").parse().ok() };
    match as_it_stands {
        Some(table) => Ok(table),
        None => format!("{key} = {text}").parse().map_err(|_| format!("{key:?} is no name of a setting")),
    }
}

/// Adds settings to settings; of two for one key the later counts.
fn merge(into: &mut toml::Table, from: toml::Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(more)) => merge(inner, more),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Checks a number of the settings.
fn positive(name: &str, value: f64) -> Result<(), String> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(format!("{name} is {value}; it must be a number above 0"))
}

/// Checks a share.
fn share(name: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} is {value}; it must be from 0 to 1"))
}

/// Checks that a workload can be held in memory.
fn few_enough(pods: f64) -> Result<(), String> {
    if pods <= MAX_PODS {
        return Ok(());
    }
    Err(format!("these settings make about {pods:.0} pods; at most {MAX_PODS:.0} are made"))
}

/// Checks that times stay in the range of all readers.
fn short_enough(name: &str, hours: f64) -> Result<(), String> {
    positive(name, hours)?;
    let most = super::fields::MAX_SECONDS / 3600;
    if hours <= most as f64 {
        return Ok(());
    }
    Err(format!("{name} is {hours}; it may be at most {most}"))
}

/// Adds a pod whose name the generator has made to be new.
fn add(builder: &mut Builder, pod: PodRecord) {
    let fresh = builder.push(pod);
    debug_assert!(fresh.is_ok(), "generators give every pod a name of its own");
}

#[cfg(test)]
mod tests;
