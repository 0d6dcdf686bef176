//! What happens in an environment, step by step, while somebody else drives it.

use crate::environment::{ClusterEnvironment, Environment, Step};
use crate::error::LearnError;
use crate::observation::Observation;
use plimsoll_core::state::ClusterState;
use std::sync::{Arc, Mutex, PoisonError};

/// The cluster after a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// The pods of each node, by the node's index.
    pub pods: Vec<u32>,
    /// The node that was chosen.
    pub chosen: usize,
    /// The nodes with the least latency to users when it was chosen.
    pub nearest: Vec<usize>,
    /// The mean latency to users of the pods that run, in milliseconds; none without pods or without latencies.
    pub latency_ms: Option<f64>,
    /// Seconds from the start of the episode.
    pub seconds: f64,
    /// The reward.
    pub reward: f64,
}

impl Sample {
    /// How many nodes run a pod.
    pub fn active(&self) -> usize {
        self.pods.iter().filter(|pods| **pods > 0).count()
    }
}

/// Samples, to be read by one while another adds to them.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<Sample>>>);

impl Recorder {
    /// Takes what was recorded.
    pub fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was recorded so far.
    pub fn so_far(&self) -> Vec<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes note of a step.
    pub fn push(&self, sample: Sample) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
    }
}

/// An environment whose steps are recorded.
pub struct Watched {
    /// The environment.
    pub environment: ClusterEnvironment,
    recorder: Recorder,
}

impl Watched {
    /// Records what happens in an environment.
    pub fn new(environment: ClusterEnvironment) -> (Self, Recorder) {
        let recorder = Recorder::default();
        (Self::with(environment, recorder.clone()), recorder)
    }

    /// Records what happens in an environment with others that are recorded.
    pub fn with(environment: ClusterEnvironment, recorder: Recorder) -> Self {
        Self { environment, recorder }
    }
}

impl Environment for Watched {
    fn reset(&mut self, seed: u64) -> Result<(), LearnError> {
        self.environment.reset(seed)
    }

    fn observation(&self) -> &Observation {
        self.environment.observation()
    }

    fn step(&mut self, action: usize) -> Result<Step, LearnError> {
        let chosen = self.environment.rows().get(action).map_or(0, |node| node.index());
        let nearest = self.environment.simulation().map(|run| nearest(run.state())).unwrap_or_default();
        let step = self.environment.step(action)?;
        if let Some(run) = self.environment.simulation() {
            let state = run.state();
            self.recorder.push(Sample {
                pods: state.nodes().map(|node| node.pods.len() as u32).collect(),
                chosen,
                nearest,
                latency_ms: latency(state),
                seconds: run.now().as_secs_f64(),
                reward: f64::from(step.reward),
            });
        }
        Ok(step)
    }
}

/// The nodes with the least latency to users.
fn nearest(state: &ClusterState) -> Vec<usize> {
    let latencies =
        || state.nodes().filter_map(|node| Some((node.id.index(), state.telemetry.node(node.id).latency_ms?)));
    let least = latencies().map(|(_, ms)| ms).fold(f64::INFINITY, f64::min);
    latencies().filter(|(_, ms)| *ms <= least).map(|(node, _)| node).collect()
}

/// The mean latency of the pods that run.
fn latency(state: &ClusterState) -> Option<f64> {
    let (mut sum, mut pods) = (0.0, 0.0);
    for node in state.nodes() {
        let count = node.pods.len() as f64;
        sum += state.telemetry.node(node.id).latency_ms? * count;
        pods += count;
    }
    (pods > 0.0).then(|| sum / pods)
}
