//! The file of a training on a cluster: how the cluster is driven, and what is learned.

use anyhow::{Context, Result, ensure};
use plimsoll_learn::spec::LearnSpec;
use plimsoll_sim::checksum;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LiveFile {
    /// How the cluster is driven.
    pub live: LiveSpec,
    /// What is learned.
    pub learn: LearnSpec,
}

/// How the cluster is driven.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LiveSpec {
    /// Pods that are created in an episode, one by one.
    pub pods: usize,
    /// Pods that stay; the oldest goes for each new one beyond.
    pub alive: usize,
    /// What a pod asks for.
    pub cpu: String,
    pub memory: String,
    /// The image of its container; on a lab nothing is run.
    pub image: String,
    /// The latency that a pod bears, in milliseconds: pleasant up to the first, bearable up to the second.
    pub latency_ms: Option<(f64, f64)>,
    /// Seconds after a placement before its consequences are looked at: as long as telemetry takes to see it.
    pub settle_seconds: f64,
    /// How nodes are kept busy while an episode lasts.
    pub block: BlockSpec,
    /// A scenario of `plimsoll load` whose users are there after each placement, named from the file's folder.
    pub load: Option<PathBuf>,
    /// Episodes of each policy in a test.
    pub test_episodes: usize,
}

/// How nodes are kept busy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockSpec {
    /// The share of nodes that are, drawn anew for each episode.
    pub nodes: f64,
    /// Cores on each.
    pub cpu: f64,
    /// MiB of memory on each.
    pub memory_mib: u64,
    /// The port of Plimsoll's agents, where nodes are really there.
    pub agent_port: u16,
    /// A file with the agents' token.
    pub token_file: Option<PathBuf>,
}

impl Default for BlockSpec {
    fn default() -> Self {
        Self { nodes: 0.0, cpu: 1.0, memory_mib: 0, agent_port: 9178, token_file: None }
    }
}

impl Default for LiveSpec {
    fn default() -> Self {
        Self {
            pods: 30,
            alive: 30,
            cpu: "250m".to_owned(),
            memory: "64Mi".to_owned(),
            image: "registry.k8s.io/pause:3.10".to_owned(),
            latency_ms: Some((20.0, 30.0)),
            settle_seconds: 0.0,
            block: BlockSpec::default(),
            load: None,
            test_episodes: 3,
        }
    }
}

impl LiveFile {
    /// Reads a file; files that it names are found from its folder.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let mut file: Self = toml::from_str(&text).with_context(|| format!("{}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        for named in [&mut file.live.load, &mut file.live.block.token_file].into_iter().flatten() {
            *named = folder.join(&*named);
        }
        file.live.check().with_context(|| format!("{}: live", path.display()))?;
        Ok(file)
    }
}

impl LiveFile {
    /// A hash of all that it says.
    pub fn fingerprint(&self) -> Result<String> {
        let hash = checksum::fold(checksum::START, serde_json::to_vec(self)?);
        Ok(format!("{hash:016x}"))
    }
}

impl LiveSpec {
    fn check(&self) -> Result<()> {
        ensure!(
            self.pods > 0 && self.alive > 0 && self.test_episodes > 0,
            "pods, alive and test_episodes must be above 0"
        );
        ensure!((0.0..=3600.0).contains(&self.settle_seconds), "settle_seconds must be from 0 to 3600");
        ensure!((0.0..1.0).contains(&self.block.nodes), "block.nodes is a share of all nodes, from 0 to below 1");
        ensure!(self.block.cpu.is_finite() && self.block.cpu >= 0.0, "block.cpu must be 0 or more");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LiveFile> {
        let file: LiveFile = toml::from_str(text)?;
        file.live.check()?;
        Ok(file)
    }

    #[test]
    fn what_is_not_said_is_as_in_the_thesis() {
        let file = read("[learn]\nreward = \"ee\"\n").unwrap();
        assert_eq!(file.live, LiveSpec::default());
        assert_eq!((file.live.pods, file.live.cpu.as_str()), (30, "250m"));
    }

    #[test]
    fn mistakes_are_told() {
        for (text, told) in [
            ("[live]\npod = 3\n", "unknown field `pod`"),
            ("[live]\npods = 0\n", "must be above 0"),
            ("[live.block]\nnodes = 1.5\n", "share"),
            ("[live]\nsettle_seconds = -1.0\n", "settle_seconds"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
