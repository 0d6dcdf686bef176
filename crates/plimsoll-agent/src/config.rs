//! The agent's configuration: a TOML file whose every field has a default, so that an empty one works. Unknown fields are errors.

use crate::allow::AllowList;
use crate::blocker::Limits;
use crate::energy::Curve;
use crate::latency::{Endpoint, Method};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not a configuration.
    #[error("{} is not a configuration of the agent: {why}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
}

/// All of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whom the agent may talk to, for latency as well as for network load.
    pub allow: AllowList,
    /// What latency is measured, and how.
    pub latency: LatencyConfig,
    /// Where energy is read from.
    pub energy: EnergyConfig,
    /// What may be occupied at most.
    pub blocker: BlockerConfig,
}

/// What latency is measured, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LatencyConfig {
    /// Targets that are measured from the start on.
    pub targets: Vec<TargetConfig>,
    /// How many targets there may be at most, however they came.
    pub max_targets: usize,
    /// Over how many round trips percentiles are taken.
    pub window: usize,
    /// The weight of the newest round trip in the moving average.
    pub alpha: f64,
    /// How long an answer is waited for.
    pub timeout_seconds: f64,
    /// The shortest interval a target may ask for.
    pub min_interval_seconds: f64,
}

impl Default for LatencyConfig {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            max_targets: 64,
            // At one round trip a second this is the last quarter of an hour, and p99 rests on ten of them.
            window: 1000,
            alpha: 0.2,
            timeout_seconds: 1.0,
            min_interval_seconds: 1.0,
        }
    }
}

/// A target of the configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    /// `host:port`, `http://host:port/path`, or `host`, as the method has it.
    pub target: String,
    /// How it is measured.
    #[serde(default)]
    pub method: Method,
    /// How often.
    #[serde(default = "ten_seconds")]
    pub interval_seconds: f64,
}

fn ten_seconds() -> f64 {
    10.0
}

/// Where energy is read from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EnergyConfig {
    /// The folder with `intel-rapl:0` and so on.
    pub powercap: PathBuf,
    /// The proc file system.
    pub proc: PathBuf,
    /// The root of the cgroup v2 hierarchy.
    pub cgroup: PathBuf,
    /// The length of a window of attribution, in milliseconds.
    pub window_ms: u64,
    /// How many processes, cgroups and pods are followed at most, each.
    pub max_followed: usize,
    /// The node's power where it cannot be read.
    pub curve: Option<Curve>,
}

impl Default for EnergyConfig {
    fn default() -> Self {
        Self {
            powercap: "/sys/class/powercap".into(),
            proc: "/proc".into(),
            cgroup: "/sys/fs/cgroup".into(),
            window_ms: 100,
            // A node has 110 pods by default; 512 are what large ones are configured for.
            max_followed: 512,
            curve: None,
        }
    }
}

/// What may be occupied at most.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BlockerConfig {
    /// The most that all blocks may hold together.
    pub limits: Limits,
    /// Where disk load is written; without a folder there is none.
    pub disk_folder: Option<PathBuf>,
}

impl Config {
    /// Reads and checks a file.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| ConfigError::Unreadable { file: file.to_owned(), source })?;
        Self::parse(&text).map_err(|why| ConfigError::Invalid { file: file.to_owned(), why })
    }

    /// Reads and checks a text; errors say what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let latency = &self.latency;
        if latency.window == 0 || latency.window > 100_000 {
            return Err(format!("latency.window is {}: it must be 1 to 100000", latency.window));
        }
        if !(latency.alpha > 0.0 && latency.alpha <= 1.0) {
            return Err(format!("latency.alpha is {}: it must be more than 0 and at most 1", latency.alpha));
        }
        if !(latency.timeout_seconds > 0.0 && latency.timeout_seconds <= 10.0) {
            return Err(format!(
                "latency.timeout_seconds is {}: it must be more than 0 and at most 10",
                latency.timeout_seconds
            ));
        }
        if !(latency.min_interval_seconds >= 0.01 && latency.min_interval_seconds <= 86_400.0) {
            return Err(format!(
                "latency.min_interval_seconds is {}: it must be 0.01 to 86400",
                latency.min_interval_seconds
            ));
        }
        if latency.targets.len() > latency.max_targets {
            let (count, most) = (latency.targets.len(), latency.max_targets);
            return Err(format!(
                "latency.targets has {count} entries and latency.max_targets is {most}: raise it, or name fewer"
            ));
        }
        for target in &latency.targets {
            self.check_target(target).map_err(|why| format!("latency.targets: {why}"))?;
        }
        if !(10..=60_000).contains(&self.energy.window_ms) {
            return Err(format!("energy.window_ms is {}: it must be 10 to 60000", self.energy.window_ms));
        }
        if let Some(curve) = &self.energy.curve {
            curve.check().map_err(|why| format!("energy.curve: {why}"))?;
        }
        self.blocker.limits.check().map_err(|why| format!("blocker.limits: {why}"))
    }

    fn check_target(&self, target: &TargetConfig) -> Result<(), String> {
        let endpoint = Endpoint::parse(target.method, &target.target).map_err(|error| error.to_string())?;
        self.allow.check(&endpoint.host).map_err(|error| error.to_string())?;
        let shortest = self.latency.min_interval_seconds;
        // Written so that a value that is no number fails, too.
        if !(target.interval_seconds >= shortest && target.interval_seconds <= 86_400.0) {
            let (name, asked) = (&target.target, target.interval_seconds);
            return Err(format!("{name}: interval_seconds is {asked}: it must be {shortest} to 86400"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_a_configuration() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.energy.window_ms, 100);
        assert!(config.blocker.disk_folder.is_none());
    }

    #[test]
    fn the_example_is_a_configuration() {
        let text = include_str!("../../../examples/agent/agent.toml");
        let config = Config::parse(text).unwrap();
        assert!(!config.latency.targets.is_empty());
        assert!(config.energy.curve.is_some());
    }

    #[test]
    fn the_manifest_holds_a_configuration() {
        let manifest = include_str!("../../../deploy/agent/daemonset.yaml");
        let (_, rest) = manifest.split_once("agent.toml: |\n").unwrap();
        let (text, _) = rest.split_once("\n---").unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
        let config = Config::parse(&lines.join("\n")).unwrap();
        assert_eq!(config.energy.proc, Path::new("/host/proc"));
        assert_eq!(config.blocker.limits.memory_mib, 256);
    }

    #[test]
    fn errors_name_the_field_and_what_it_must_be() {
        let cases = [
            ("[latency]\nwindow = 0", "latency.window is 0"),
            ("[latency]\nalpha = 2.0", "latency.alpha is 2"),
            ("[latency]\ntimeout_seconds = nan", "latency.timeout_seconds is NaN"),
            ("[latency]\nspeed = 1", "unknown field `speed`"),
            ("[allow]\nnetworks = ['10.0.0.0/40']", "is not a network"),
            ("[[latency.targets]]\ntarget = 'example.com:80'", "no entry of allow.hosts fits"),
            ("[[latency.targets]]\ntarget = '127.0.0.1:80'\ninterval_seconds = 0.0", "interval_seconds is 0"),
            ("[energy]\nwindow_ms = 1", "energy.window_ms is 1"),
            ("[energy.curve]\nidle_watts = 50\nfull_watts = 20", "energy.curve"),
            ("[blocker.limits]\nseconds = -1", "blocker.limits"),
        ];
        for (text, expected) in cases {
            let error = Config::parse(text).unwrap_err();
            assert!(error.contains(expected), "expected {expected:?} in the error of {text:?}, and got {error:?}");
        }
    }
}
